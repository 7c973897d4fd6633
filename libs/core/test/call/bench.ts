import type { Provider } from '@nestjs/common';
import type { TestingModule } from '@nestjs/testing';
import {
  DEFAULT_LIMITS,
  type ExecutionOptions,
  type Limits,
  type Policy,
  type Tool,
  ToolCatalog,
  type ToolLoopOptions,
} from '@toolloop/core';
import { Plugins, ToolRunner } from '@toolloop/core/internal';
import type { LoopEventBody } from '@toolloop/protocol';
import { Toolset } from '../../src/catalog/toolset.js';
import type { PlacedCall, ExecutionScope } from '../../src/call/call.js';
import type { ToolOutcome } from '../../src/call/outcome.js';
import { CompiledPolicy } from '../../src/policy/compiled-policy.js';
import { RunApprovals } from '../../src/plugins/approvals/run-approvals.js';
import { SpendingLedger } from '../../src/plugins/usage/spending.js';
import { TRUSTED_FLOW } from '../policy/subjects.js';
import { SchemaValidators } from '../../src/schema/validators.js';
import { type Declared, RecordingLogger, start } from '../tools/application.js';

const validators = new SchemaValidators();

export interface BenchOptions extends Declared {
  readonly options?: Partial<ToolLoopOptions>;
  readonly ports?: readonly Provider[];
}

/** Whose run it is, and how; every field has a value that does not matter. */
export interface RunOptions {
  readonly runId?: string;
  readonly requestId?: string;
  readonly tenant?: string;
  readonly actorId?: string | undefined;
  readonly tools?: readonly Tool[];
  readonly toolset?: Toolset;
  readonly policies?: readonly Policy[];
  readonly limits?: Partial<Limits>;
  readonly execution?: Partial<ExecutionOptions>;
  readonly agentName?: string;
  /** As under `onToolError: 'retry'`. */
  readonly retry?: boolean;
  readonly signal?: AbortSignal;
  readonly emit?: ExecutionScope['emit'];
  readonly context?: Readonly<Record<string, unknown>>;
  /** No person can be asked, unless it says otherwise. */
  readonly approvals?: RunApprovals;
}

/** What the model reads is text, unless the tool attaches something. */
export type TextOutcome = ToolOutcome & { readonly content: string };

export interface RunOfCalls {
  readonly events: readonly LoopEventBody[];
  readonly scope: ExecutionScope;
  /** Runs a call; arguments that are no text are sent as JSON. */
  exec(
    name: string,
    args?: unknown,
    place?: Partial<Pick<PlacedCall, 'step' | 'index' | 'refusal'>>,
  ): Promise<TextOutcome>;
}

/** A started application whose `ToolRunner` is called directly, as the loop would. */
export class Bench {
  private constructor(
    readonly module: TestingModule,
    readonly logger: RecordingLogger,
  ) {}

  static async start(options: BenchOptions = {}): Promise<Bench> {
    const logger = new RecordingLogger();
    return new Bench(await start({ ...options, logger }), logger);
  }

  get catalog(): ToolCatalog {
    return this.module.get(ToolCatalog);
  }

  run(options: RunOptions = {}): RunOfCalls {
    const events: LoopEventBody[] = [];
    const scope = this.scopeOf(options, options.emit ?? ((event) => void events.push(event)));
    const runner = this.module.get(ToolRunner);
    let calls = 0;
    return {
      events,
      scope,
      exec: (name, args = {}, place = {}) => {
        calls += 1;
        const text = typeof args === 'string' ? args : JSON.stringify(args);
        const call = { toolCallId: `call_${calls}`, name, arguments: text };
        return runner.exec(
          { call, step: 1, index: calls - 1, ...place },
          scope,
        ) as Promise<TextOutcome>;
      },
    };
  }

  private scopeOf(options: RunOptions, emit: ExecutionScope['emit']): ExecutionScope {
    const {
      runId = 'run_1',
      requestId = runId,
      tenant = 'acme',
      context = {},
      policies = [{ allow: ['*'] }],
      limits,
    } = options;
    const { execution, agentName, retry, approvals = new RunApprovals('deny') } = options;
    const {
      tools = this.catalog.build({}),
      toolset = Toolset.of(tools),
      signal = new AbortController().signal,
    } = options;
    const run = { runId, actor: { id: 'ada' }, tenant, context, state: new Map() };
    const allLimits = { ...DEFAULT_LIMITS, ...limits };
    const actorId = actorIdOf(options);
    return {
      run,
      requestId,
      actorId,
      plugins: this.module.get(Plugins).begin({
        context: run,
        requestId,
        actorId,
        mode: 'live',
        approvals: 'suspend',
        limits: allLimits,
        options: {},
        signal,
      }),
      toolset,
      actor: { tenant, roles: [] },
      policies: policies.map((policy) => new CompiledPolicy(policy, validators)),
      flow: TRUSTED_FLOW,
      spending: new SpendingLedger(),
      approvals,
      limits: allLimits,
      options: execution,
      agentName,
      retry,
      signal,
      emit,
    };
  }
}

/** An actor without an id is given as `undefined`. */
function actorIdOf(options: RunOptions): string | undefined {
  return 'actorId' in options ? options.actorId : 'ada';
}

/** The JSON:API errors a model reads. */
export function errorsOf({ content }: TextOutcome): readonly {
  readonly code: string;
  readonly detail: string;
  readonly status: string;
}[] {
  const { errors } = JSON.parse(content) as {
    errors: { code: string; detail: string; status: string }[];
  };
  return errors;
}

/** The one error a model reads. */
export function errorOf(outcome: TextOutcome): {
  readonly code: string;
  readonly detail: string;
  readonly status: string;
} {
  const [error, ...more] = errorsOf(outcome);
  if (!error || more.length > 0) throw new Error(`one error is due: ${outcome.content}`);
  return error;
}
