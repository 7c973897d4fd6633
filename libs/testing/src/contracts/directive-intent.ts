import { randomUUID } from 'node:crypto';
import type { DirectiveIntent } from '@toolloop/core';

/** A refund that nobody has asked for yet, with a key of its own. */
export function intentOf(tenant: string, more: Partial<DirectiveIntent> = {}): DirectiveIntent {
  const directiveId = `dir_${randomUUID()}`;
  return {
    tenant,
    directiveId,
    key: `order.refund:${tenant}:o-1:${directiveId}`,
    type: 'order.refund',
    subject: 'o-1',
    call: { declaredId: 'bank__refund', args: '{"orderId":"o-1"}', runId: 'run_1', toolCallId: 'call_1', step: 1, index: 0 },
    authority: { actorId: 'alice', policies: [], flow: { integrity: 'trusted', confidentiality: 'public', traced: ['o-1', 5] } },
    shownArgs: { orderId: 'o-1' },
    preview: { sentence: 'Refunds it.', changes: [{ field: 'state', before: null, after: 'refunded' }] },
    correlationId: 'req_1',
    createdAt: new Date().toISOString(),
    ...more,
  };
}
