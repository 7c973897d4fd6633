import type { ApprovalAnswer, ApprovalBinding, ApprovalStore } from '../protocol/approval.js';

const PAGE = 100;

/** The answer to what nobody has to decide any more. */
export function withdrawal(): ApprovalAnswer {
  return { decision: 'deny', reason: 'The run has ended.', decidedBy: 'the run', decidedAt: new Date().toISOString(), isWithdrawn: true };
}

/** Takes back what nobody has to answer any more; nothing, where somebody has. A yes that nothing follows would be a lie to whoever gave it. */
export async function withdrawApproval(store: ApprovalStore, approvalId: string): Promise<void> {
  await store.answer(approvalId, withdrawal());
}

/** The same for all that a run and its sub-runs asked for, and nobody has answered. */
export async function withdrawApprovals(store: ApprovalStore, { tenant, runId }: Pick<ApprovalBinding, 'tenant' | 'runId'>): Promise<void> {
  for (;;) {
    const open = await store.list({ tenant, runId, pending: true, limit: PAGE });
    for (const { request } of open) await withdrawApproval(store, request.approvalId);
    if (open.length < PAGE) return;
  }
}
