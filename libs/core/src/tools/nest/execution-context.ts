import type { ExecutionContext, Type } from '@nestjs/common';
import type { ToolCallContext } from '../../contracts/tool-call.js';

/**
 * Reads Nest's `ExecutionContext` of a tool call, as `GqlExecutionContext` does for GraphQL: in
 * guards, interceptors and filters. There is no HTTP request behind a tool call; a guard that needs
 * one asks `getType()` first.
 */
export class ToolExecutionContext {
  private constructor(private readonly host: ExecutionContext) {}

  /**
   * Wraps the context of a tool call.
   *
   * @throws Error for any other context; ask `ToolExecutionContext.isToolCall(host)` first
   */
  static create(host: ExecutionContext): ToolExecutionContext {
    if (!ToolExecutionContext.isToolCall(host)) {
      throw new Error(
        `This is not a tool call but "${host.getType<string>()}". Ask ToolExecutionContext.isToolCall(host) first.`,
      );
    }
    return new ToolExecutionContext(host);
  }

  static isToolCall(host: Pick<ExecutionContext, 'getType'>): boolean {
    return host.getType<string>() === TOOL_CONTEXT_TYPE;
  }

  /** The DTO, or the named arguments, after validation. */
  getInput(): unknown {
    return this.host.getArgByIndex<unknown>(0);
  }

  /** Actor, tenant, signal and the like. */
  getContext(): ToolCallContext {
    return this.host.getArgByIndex<ToolCallContext>(1);
  }

  /** The provider's class; for an entity tool a stand-in with the entity's name and metadata. */
  getClass(): Type {
    return this.host.getClass();
  }

  /** Carries the method's metadata, for `Reflector`. */
  getHandler(): ReturnType<ExecutionContext['getHandler']> {
    return this.host.getHandler();
  }
}

/** The value of `ExecutionContext.getType()` in a tool call. */
export const TOOL_CONTEXT_TYPE = 'tool';
