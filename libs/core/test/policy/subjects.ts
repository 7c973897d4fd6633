import type { InformationFlow, PolicyCall, PolicySubject } from '@toolloop/core/policy';

/**
 * Of a caller whose every word the application vouches for: nothing was read, everything was meant.
 */
export const TRUSTED_FLOW: InformationFlow = {
  integrity: 'trusted',
  confidentiality: 'public',
  outsideBits: 0,
  mayCommit: true,
  isCommitted: () => true,
  isSaid: () => true,
};

/**
 * What a policy is asked about, for a trusted tool of tenant acme that reads unless told otherwise.
 */
export function subjectOf(given: Partial<PolicySubject> = {}): PolicySubject {
  const effect = given.effect ?? 'read_only';
  return {
    declaredId: 'crm__search',
    effect,
    labels: { returns: 'untrusted', reads: 'private', egress: effect === 'external_side_effect' },
    inputSchema: { type: 'object' },
    origin: { source: 'discovery', trusted: true },
    actor: { tenant: 'acme', roles: [] },
    ...given,
  };
}

export function callOf(given: Partial<PolicyCall> = {}): PolicyCall {
  return { args: {}, flow: TRUSTED_FLOW, spent: { calls: [], tokens: 0, usd: 0 }, ...given };
}

/** A run that has read everything, in which the user said nothing. */
export function taintedFlow(): InformationFlow {
  return {
    integrity: 'untrusted',
    confidentiality: 'private',
    outsideBits: Infinity,
    mayCommit: false,
    isCommitted: () => false,
    isSaid: () => false,
  };
}
