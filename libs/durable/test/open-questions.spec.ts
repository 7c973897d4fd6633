import { randomUUID } from 'node:crypto';
import { expect, it } from '@jest/globals';
import type { Pending } from '@toolloop/core/stores';
import { SqlStores } from '@toolloop/durable';
import { RetentionSweep } from '../src/retention.js';
import { onEachDatabase } from './each-database.js';

function question(expiresAt: string): Pending {
  const id = randomUUID();
  const binding = { tenant: 'acme', runId: id, toolCallId: 'call_1', declaredId: 'd' };
  return {
    id,
    kind: 'question',
    admitted: [],
    binding,
    request: { step: 1 },
    createdAt: new Date().toISOString(),
    expiresAt,
  } as unknown as Pending;
}

const inDays = (days: number): string => new Date(Date.now() + days * 86_400_000).toISOString();

onEachDatabase('retention', (database) => {
  it('deletes no question that may still be answered, however old, and deletes one that has expired', async () => {
    const { pending } = new SqlStores(database());
    const [open, expired] = [question(inDays(30)), question(inDays(-1))];
    await pending.add(open);
    await pending.add(expired);
    await database().query(
      `update toolloop.pending set created_at = created_at - interval '100 days'`,
    );
    await new RetentionSweep(database(), { pending: 10 }).sweep();
    expect([(await pending.find(open.id))?.id, await pending.find(expired.id)]).toEqual([
      open.id,
      undefined,
    ]);
  });
});
