import type { ApprovalGroup, ApprovalRequest } from '@toolloop/protocol';
import type { Pending } from '../../contracts/pending.js';
import { PendingError } from './pending-error.js';

/**
 * Throws a `PendingError` for requests that are not of one group: what one person sees as one has
 * one decision.
 */
export function assertOneGroup(records: readonly Pending[]): void {
  const [first, ...others] = records.map((record) =>
    record.kind === 'approval' ? record.request.group : undefined,
  );
  if (first !== undefined && others.every((group) => group === first)) return;
  throw new PendingError(
    'invalid_answer',
    'These calls are not of one group, so each is decided by itself.',
  );
}

/** Returns requests by their groups, in the order of the first of each. */
export function groupsOf(requests: readonly ApprovalRequest[]): readonly ApprovalGroup[] {
  const byGroup = new Map<string, ApprovalRequest[]>();
  for (const request of requests) {
    const { group = request.approvalId } = request;
    byGroup.set(group, [...(byGroup.get(group) ?? []), request]);
  }
  return [...byGroup].flatMap(([group, calls]) => {
    const [first] = calls;
    if (!first) return [];
    const { runId, path, step, tool, declaredId, reason } = first;
    return [{ group, runId, ...(path && { path }), step, tool, declaredId, reason, calls }];
  });
}
