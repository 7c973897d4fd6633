import type { ToolCallContext } from '@toolloop/core';

/** What the tools of this library use of a call's context, all of it optional, so that they can be called without a loop. */
export type CallContext = Partial<Pick<ToolCallContext, 'signal' | 'progress'>>;
