import { type DynamicModule, type Provider } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import {
  LanguageModel,
  type LoopRequest,
  RunError,
  ToolLoopModule,
  type ToolLoopOptions,
  ToolLoopService,
  type ToolSpec,
} from '@toolloop/core';
import { ToolRunner } from '@toolloop/core/internal';
import type { ModelEvent, ModelRequest } from '@toolloop/protocol';

/** Whom every run of the benchmarks acts for. */
export const WHO = { actor: { id: 'alice', roles: ['staff'] }, tenant: 'acme' };

/** Limits that no benchmark reaches. */
const NO_LIMITS = {
  steps: 100_000,
  callsPerTool: 100_000,
  identicalCalls: 100_000,
  injectedTools: 100_000,
} as const;

/** An application with a loop and these providers, as a user would start it. */
export interface BenchApplication {
  readonly loop: ToolLoopService;
  readonly runner: ToolRunner;
  close(): Promise<void>;
}

/** Options and modules beside those that every benchmark has. */
export interface Surroundings {
  readonly options?: Partial<ToolLoopOptions>;
  readonly imports?: readonly DynamicModule[];
}

export async function start(
  model: LanguageModel,
  providers: readonly Provider[],
  { options, imports = [] }: Surroundings = {},
): Promise<BenchApplication> {
  const bench = moduleOf(model, providers, options);
  const module = { ...bench, imports: [...(bench.imports ?? []), ...imports] };
  const app = await NestFactory.createApplicationContext(module, { logger: false });
  return { loop: app.get(ToolLoopService), runner: app.get(ToolRunner), close: () => app.close() };
}

/** The module alone, for who measures the start itself. */
export function moduleOf(
  model: LanguageModel,
  providers: readonly Provider[],
  options: Partial<ToolLoopOptions> = {},
): DynamicModule {
  class BenchModule {
    readonly name = 'bench';
  }
  const loop = ToolLoopModule.forRoot({
    model,
    policy: { allow: ['*'] },
    limits: NO_LIMITS,
    ...options,
  });
  return { module: BenchModule, imports: [loop], providers: [...providers] };
}

/**
 * A model inside this process: what it answers is decided by a function of the step, from 1. It
 * costs next to nothing.
 */
export class InProcessModel extends LanguageModel {
  readonly provider = 'bench';
  readonly modelId = 'in-process';

  constructor(
    private readonly answer: (
      step: number,
      signal: AbortSignal,
    ) => readonly ModelEvent[] | Promise<readonly ModelEvent[]>,
  ) {
    super();
  }

  async *stream(
    { messages }: ModelRequest,
    signal: AbortSignal,
  ): AsyncGenerator<ModelEvent, void, undefined> {
    // One call per step, so an answer and a result; nothing here may take longer in a later step.
    yield* await this.answer(1 + Math.floor((messages.length - 1) / 2), signal);
  }
}

/** The events of an answer that calls one tool. */
export function callOf(name: string, args: object, id: string): readonly ModelEvent[] {
  const text = JSON.stringify(args);
  return [
    { type: 'tool-call-delta', toolCallId: id, name, argumentsDelta: text },
    { type: 'tool-call', toolCallId: id, name, arguments: text },
    { type: 'usage', usage: { inputTokens: 10, outputTokens: 5 } },
    { type: 'finish', finishReason: 'tool_calls' },
  ];
}

/** The events of an answer in words. */
export function textOf(words: string): readonly ModelEvent[] {
  return [
    { type: 'text-delta', text: words },
    { type: 'usage', usage: { inputTokens: 10, outputTokens: 5 } },
    { type: 'finish', finishReason: 'stop' },
  ];
}

export type ExecutionScope = Parameters<ToolRunner['exec']>[1];

/**
 * A run that has made one call and waits for its second answer; `scope` is what the loop executes
 * the run's calls in.
 */
export interface HeldRun {
  readonly scope: ExecutionScope;
  /** Ends the run; its tools that were injected. */
  end(): Promise<readonly ToolSpec[]>;
}

/**
 * Holds a run open, so that calls can be made in it as the loop makes them, its events stamped and
 * read. The model must wait at its second step.
 */
export async function hold(
  { loop, runner }: BenchApplication,
  options: Pick<LoopRequest, 'injection' | 'exclude' | 'surface'> = {},
): Promise<HeldRun> {
  const handle = loop.open({ prompt: 'Go on.', ...WHO, ...options });
  const scope = await new Promise<ExecutionScope>((resolve, reject) => {
    const exec = runner.exec.bind(runner);
    let seen: ExecutionScope | undefined;
    runner.exec = (request, given) => {
      seen = given;
      return exec(request, given);
    };
    handle.events$.subscribe((event) => {
      if (event.type === 'run-end')
        reject(new Error(`The run ended with ${event.finishReason} before its second step.`));
      if (event.type !== 'step-start' || event.step !== 2 || !seen) return;
      Reflect.deleteProperty(runner, 'exec');
      resolve(seen);
    });
  });
  return {
    scope,
    end: async () => {
      handle.cancel();
      const error: unknown = await handle.result.catch((reason: unknown) => reason);
      return error instanceof RunError ? error.result.injectedTools : [];
    },
  };
}

/** For a model's second step: resolves, with nothing more to say, when the run is cancelled. */
export function untilCancelled(signal: AbortSignal): Promise<readonly ModelEvent[]> {
  return new Promise((resolve) => {
    signal.addEventListener('abort', () => resolve([]), { once: true });
  });
}
