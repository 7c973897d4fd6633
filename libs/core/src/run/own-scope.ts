import type { ExecutionScope } from '../call/call.js';

/** The part of a scope that a call of a session has to itself. */
export type OwnScope = Pick<
  ExecutionScope,
  'run' | 'requestId' | 'approvals' | 'flow' | 'emit' | 'signal'
>;
