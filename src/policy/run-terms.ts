import type { LoopRequest } from '@toolloop/core';
import type { User } from '../identity/user.js';
import { policyOf } from './desk.policies.js';

/** For whom a run acts, and what it may do. Both come from the guard, never from what a client says. */
export type RunTerms = Pick<LoopRequest<unknown, User>, 'actor' | 'tenant' | 'policy'>;

export function termsFor(user: User): RunTerms {
  const policy = policyOf(user);
  return { actor: user, tenant: user.tenantId, ...(policy && { policy }) };
}
