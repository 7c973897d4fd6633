import type { ApprovalTerms } from '@toolloop/protocol';
import type { Pending, PendingBinding, PendingKind } from '../../contracts/pending.js';
import { escalatedRoles } from './answering-roles.js';

/**
 * Finds the reason why a person may not answer. Where the policy names no one, only the actor of
 * the run may.
 */
export function refusalFor(
  { kind, binding, admitted, createdAt }: Pending,
  approver: IdentifiedApprover,
): string | undefined {
  const terms = admitted.length > 0 ? admitted : [{}];
  const refusal = terms
    .map((one) => refusalUnder(one, approver, { requesterId: binding.requesterId, createdAt }))
    .find((one) => one !== undefined);
  return refusal && `${refusal} ${MAY[kind]}.`;
}

/** A person who answers. */
export interface IdentifiedApprover {
  readonly id: string;
  readonly roles: readonly string[];
}

/** Tells whether a person may see what was asked: their own run asks it, or they may answer. */
export function maySee(record: Pending, approver: IdentifiedApprover): boolean {
  return approver.id === record.binding.requesterId || refusalFor(record, approver) === undefined;
}

const MAY: Readonly<Record<PendingKind, string>> = {
  approval: 'approve this call',
  client: 'give the result of this call',
  question: 'answer this question',
  rehearsal: 'approve this rehearsal',
};

/** Finds the reason why a person may not withdraw a call, which only its requester may. */
export function withdrawalRefusalFor(
  { binding }: Pending,
  { id }: IdentifiedApprover,
): string | undefined {
  return id === binding.requesterId
    ? undefined
    : 'Only the actor of the run may withdraw this call.';
}

function refusalUnder(
  terms: ApprovalTerms,
  { id, roles: held }: IdentifiedApprover,
  { requesterId, createdAt }: Pick<PendingBinding, 'requesterId'> & Pick<Pending, 'createdAt'>,
): string | undefined {
  const { roles, notRequester } = terms;
  if (notRequester && id === requesterId) return 'The actor of the run may not';
  if (escalatedRoles(terms, { createdAt }).some((role) => held.includes(role))) return undefined;
  if (roles && !roles.some((role) => held.includes(role)))
    return `Only a person with the role ${roles.join(' or ')} may`;
  if (!roles && !notRequester && id !== requesterId) return 'Only the actor of the run may';
  return undefined;
}
