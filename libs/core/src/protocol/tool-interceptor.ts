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
 * is still checked and projected like any result. Of a tool that changes things it decides nothing about the effect: `next` calls the method once and while the call
 * lasts, a call that it ends while the method runs has an unknown outcome, one that fails after the method answered took place, and a method that threw has failed.
 */
export abstract class ToolInterceptor {
  abstract intercept(invocation: ToolInvocation, next: () => Promise<unknown>): Promise<unknown>;
}
