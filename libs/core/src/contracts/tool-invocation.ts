import type { ToolSpec } from '@toolloop/protocol';
import type { ToolCallContext } from './tool-call.js';

/** A call that passed validation, policy and approval and is about to reach the tool's method. */
export interface ToolInvocation {
  readonly tool: ToolSpec;
  /** The input of the method: the DTO, or the named arguments. */
  readonly input: unknown;
  readonly context: ToolCallContext;
}
