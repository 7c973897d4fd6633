import { AsyncLocalStorage } from 'node:async_hooks';
import { Injectable, Logger, Optional } from '@nestjs/common';
import { ConnectionBroker, type Credential, type ToolCallContext } from '../contracts/tool-call.js';
import type { Tool } from '../contracts/tool.js';
import { compileReveal } from '../schema/reveal.js';
import { BoundedStores } from './bounded-stores.js';
import { linkSignal } from './call-failure.js';
import { type CallProgress, limitsOf } from './call.js';
import { CallCredentials, discreetLogger } from './credentials.js';
import { idempotencyKeyOf, journalKeyOf } from './idempotency-key.js';
import { PolicyGate } from './policy-gate.js';
import { ProgressReport } from './progress.js';

/** A call's context while code of the application runs in it. Close it when that code is done, or out of time. */
export interface OpenContext {
  readonly context: ToolCallContext;
  readonly report: ProgressReport;
  readonly close: () => void;
}

/** The call that wants a connection. */
interface ConnectedCall extends Pick<OpenContext, 'context' | 'report'> {
  readonly tool: Tool;
  readonly progress: CallProgress;
}

/** Makes what a tool, its guards and its interceptors know of the call they belong to. */
@Injectable()
export class CallContextFactory {
  private readonly logger = new Logger('ToolCall');
  private readonly anything = compileReveal('all');

  constructor(
    private readonly policy: PolicyGate,
    private readonly stores: BoundedStores,
    @Optional() private readonly broker?: ConnectionBroker,
  ) {}

  /** The signal is aborted with the run, or when the tool's time is up. */
  open(tool: Tool, progress: CallProgress): OpenContext {
    const { request, scope } = progress;
    const { toolCallMs: ms } = limitsOf(progress);
    const link = linkSignal(scope.signal, { ms, message: `The tool did not answer within ${ms} ms.` });
    const report = new ProgressReport(progress, this.logger);
    const transaction = this.transactionOf(tool, progress, report);
    const context: ToolCallContext = {
      ...scope.run,
      step: request.step,
      toolCallId: request.call.toolCallId,
      signal: link.signal,
      deadline: deadlineIn(ms),
      idempotencyKey: idempotencyKeyOf(progress),
      logger: this.broker ? discreetLogger(this.logger, () => progress.credentials) : this.logger,
      progress: (value) => void report.show(value, this.anything),
      ...(transaction && { transaction }),
      connection: (id) => this.connect(id, { tool, progress, report, context }),
    };
    const close = (): void => {
      report.end();
      link.release();
    };
    return { context, report, close };
  }

  /** A call that is over has been told what became of it, so it is not done any more: what it did is rolled back. */
  private transactionOf({ spec }: Tool, progress: CallProgress, report: ProgressReport): ToolCallContext['transaction'] {
    const transactions = this.stores.transactions;
    if (!transactions || spec.effect === 'read_only') return undefined;
    let isTaken = false;
    return async (work) => {
      report.assertRunning();
      if (isTaken) throw new Error('A call has only one transaction, by which it is recognized later. Do everything in it.');
      isTaken = true;
      return transactions.once(journalKeyOf(progress), async () => {
        const result = await work();
        report.assertRunning();
        return result;
      });
    };
  }

  /** Asked too late, or answered too late, it hands out nothing. */
  private async connect(id: string, { tool, progress, report, context }: ConnectedCall): Promise<Credential> {
    report.assertRunning();
    this.policy.assertConnection(tool, id, progress.scope);
    const credential = await this.brokerFor(id).resolve(id, context);
    report.assertRunning();
    progress.credentials ??= new CallCredentials();
    return progress.credentials.handOut(credential, () => report.assertRunning());
  }

  private brokerFor(id: string): ConnectionBroker {
    if (this.broker) return this.broker;
    throw new Error(
      `The tool asked for the connection "${id}" but no ConnectionBroker is provided. Provide one in ToolLoopModule.forRoot({ providers }).`,
    );
  }
}

/** The last moment that a Date can tell. */
const END_OF_TIME = 8.64e15;

function deadlineIn(ms: number): Date {
  return new Date(Math.min(Date.now() + ms, END_OF_TIME));
}

/** The tool call that the current code runs in, for code too deep to be handed the context. */
@Injectable()
export class ToolCallStorage {
  private readonly storage = new AsyncLocalStorage<ToolCallContext>();

  /** Undefined outside a tool call. */
  current(): ToolCallContext | undefined {
    return this.storage.getStore();
  }

  run<Result>(context: ToolCallContext, callback: () => Result): Result {
    return this.storage.run(context, callback);
  }
}
