import type { ToolCallContext } from './tool-call-context.js';
import type { ToolSpec } from './tool.js';

/** A call that passed validation, policy and approval and is about to reach the tool's method. */
export interface ToolInvocation {
  readonly tool: ToolSpec;
  /** What the method receives: the DTO, or the named arguments. */
  readonly input: unknown;
  readonly context: ToolCallContext;
}

/**
 * Wraps every tool's method, in the order of the providers. It may measure, wrap errors, or answer itself by not calling `next`. What it returns
 * is still checked and projected like any result.
 */
export abstract class ToolInterceptor {
  abstract intercept(invocation: ToolInvocation, next: () => Promise<unknown>): Promise<unknown>;
}
