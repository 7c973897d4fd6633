import type { PendingAnswer, PendingBinding, PendingStore } from '../../contracts/pending.js';
import { PAGE } from './pending.service.js';

/** Makes the answer that withdraws an approval. */
export function withdrawal(reason = 'The run has ended.'): PendingAnswer {
  return {
    decision: 'deny',
    reason,
    decidedBy: 'the run',
    decidedAt: new Date().toISOString(),
    isWithdrawn: true,
  };
}

/**
 * Withdraws an approval that was not answered, so that no person approves a call that will not be
 * made.
 */
export async function withdraw(store: PendingStore, id: string): Promise<void> {
  await store.answer(id, withdrawal());
}

/** Withdraws all open approvals of a run and its sub-runs. */
export async function withdrawPending(
  store: PendingStore,
  { tenant, runId }: Pick<PendingBinding, 'tenant' | 'runId'>,
): Promise<void> {
  for (;;) {
    const open = await store.list({ tenant, runId, pending: true, limit: PAGE });
    for (const { id } of open) await withdraw(store, id);
    if (open.length < PAGE) return;
  }
}
