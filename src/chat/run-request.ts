import type { LoopRequest } from '@toolloop/core';
import type { User } from '../identity/user.js';
import { termsFor } from '../policy/run-terms.js';
import type { Ask } from './ask.dto.js';

/** A question as a run: the user and the tenant come from the guard, never from the body. `requestId` is what the client calls it. */
export function toRunRequest({ message, conversationId }: Ask, user: User, requestId?: string): LoopRequest<unknown, User> {
  return { ...termsFor(user), prompt: message, ...(conversationId && { conversationId }), ...(requestId !== undefined && { requestId }) };
}
