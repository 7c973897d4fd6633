import type { JsonObject } from './json.js';

/** A persisted intent of a mutating tool, performed once, later, by the directive runner. */
export interface DirectiveRequest {
  readonly directiveId: string;
  readonly toolCallId: string;
  readonly type: string;
  readonly status: 'requested' | 'approved' | 'performed' | 'failed' | 'cancelled';
  readonly preview?: JsonObject;
}
