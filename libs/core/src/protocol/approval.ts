import type { JsonObject } from './json.js';

/** A person's yes or no to one call. The call itself is held by the server; this is what a client may see of it. */
export interface ApprovalRequest {
  readonly approvalId: string;
  readonly toolCallId: string;
  readonly declaredId: string;
  readonly args: JsonObject;
  readonly reason: string;
  /** What would happen, in a plain sentence, where the tool gives one. */
  readonly preview?: string;
  readonly expiresAt: Date;
}

/** All a client may send. Anything else about the call is ignored. */
export interface ApprovalDecision {
  readonly approvalId: string;
  readonly decision: 'approve' | 'deny';
  readonly reason?: string;
}
