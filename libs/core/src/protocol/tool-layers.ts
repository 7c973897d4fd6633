import type { ToolCallContext } from './tool-call-context.js';

/** Nest's own layers round one tool method: what its handlers have in controllers, its tools have here. */
export interface ToolLayers {
  /** Guards, then pipes. Resolves with the input the pipes made; rejects with what a guard or a pipe threw. */
  readonly admit: (input: unknown, context: ToolCallContext) => Promise<unknown>;
  /** Interceptors. What they make of the result is still checked and projected like any result. */
  readonly around: (input: unknown, context: ToolCallContext, call: () => Promise<unknown>) => Promise<unknown>;
  /** What an exception filter says of an error; undefined when no filter is responsible. Never a success. */
  readonly explain: (error: unknown, input: unknown, context: ToolCallContext) => Promise<unknown>;
}
