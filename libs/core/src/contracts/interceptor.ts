import type { ToolInvocation } from './tool-invocation.js';

/**
 * Wraps every tool's method, in the order of the providers. It may measure, wrap errors, or answer
 * itself by not calling `next`. What it returns is still checked and projected like any result. Of
 * a tool that changes things it decides nothing about the effect: `next` calls the method once and
 * while the call lasts, a call that it ends while the method runs has an unknown outcome, one that
 * fails after the method answered took place, and a method that threw has failed.
 *
 * @example
 * class Timing extends ToolInterceptor {
 *   async intercept({ tool }: ToolInvocation, next: () => Promise<unknown>): Promise<unknown> {
 *     const stop = this.metrics.start(tool.declaredId);
 *     return next().finally(stop);
 *   }
 * }
 */
export abstract class ToolInterceptor {
  abstract intercept(invocation: ToolInvocation, next: () => Promise<unknown>): Promise<unknown>;
}

/** Told of what an interceptor answers, by the name of its class. */
export type InterceptorNote = (interceptor: string, answer: unknown) => void;
