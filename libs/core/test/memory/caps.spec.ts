import { describe, expect, it } from '@jest/globals';
import {
  type Pending,
  MemoryPendingStore,
  MemoryCallJournal,
  MemoryConversationStore,
  MemoryRunLog,
  type RunLog,
} from '@toolloop/core/stores';

const HOUR = 3_600_000;
const message = { role: 'user', content: 'Hello.' } as const;

function approval(approvalId: string, tenant: string, forMs = HOUR): Pending {
  const call = { runId: 'r1', toolCallId: 'c1', declaredId: 'bank__pay' };
  const expiresAt = new Date(Date.now() + forMs).toISOString();
  return {
    id: approvalId,
    kind: 'approval',
    request: {
      ...call,
      approvalId,
      step: 1,
      tool: 'bank__pay',
      args: {},
      reason: 'x',
      expiresAt,
      mayEdit: false,
      mayRemember: false,
    },
    binding: {
      ...call,
      tenant,
      requesterId: 'ann',
      instanceId: undefined,
      argsHash: 'x',
      policyVersion: 'v1',
    },
    admitted: [],
    rule: 'requireApproval[0]',
    createdAt: new Date().toISOString(),
    expiresAt,
  };
}

async function ended(log: RunLog, runId: string, tenant: string, actorId: string): Promise<void> {
  const lease = await log.begin(
    { runId, tenant, actorId, request: {} },
    { owner: 'one', forMs: HOUR },
  );
  await log.append(
    { runId, ...lease },
    { entries: [], events: [], ending: { status: 'ended', finishReason: 'stop' } },
  );
}

describe('a store in memory that one tenant or actor floods', () => {
  it('keeps the conversations of other actors, and drops the flooder’s own', async () => {
    const store = new MemoryConversationStore();
    const bob = { tenant: 'globex', actorId: 'bob', conversationId: 'c' };
    const carl = { tenant: 'acme', actorId: 'carl', conversationId: 'c' };
    for (const key of [bob, carl]) await store.append(key, [message]);
    for (let index = 0; index < 1_001; index += 1)
      await store.append({ tenant: 'acme', actorId: 'alice', conversationId: `c${index}` }, [
        message,
      ]);
    expect([await store.load(bob), await store.load(carl)]).toEqual([[message], [message]]);
    expect(await store.load({ tenant: 'acme', actorId: 'alice', conversationId: 'c0' })).toEqual(
      [],
    );
    expect(await store.list({ tenant: 'acme', actorId: 'alice' }, { limit: 2_000 })).toHaveLength(
      1_000,
    );
  });

  it('keeps an actor’s only conversation though others of the tenant have 10,000', async () => {
    const store = new MemoryConversationStore();
    const carl = { tenant: 'acme', actorId: 'carl', conversationId: 'c' };
    await store.append(carl, [message]);
    for (let index = 0; index < 10_001; index += 1)
      await store.append(
        { tenant: 'acme', actorId: `actor ${index % 11}`, conversationId: `c${index}` },
        [message],
      );
    expect(await store.load(carl)).toEqual([message]);
  });

  it('refuses a further approval instead of dropping one that waits', async () => {
    const store = new MemoryPendingStore();
    for (let index = 0; index < 10_000; index += 1) await store.add(approval(`a${index}`, 'acme'));
    await expect(store.add(approval('one more', 'acme'))).rejects.toThrow(
      '10000 questions of one tenant wait in memory',
    );
    expect(await store.find('a0')).toBeDefined();
    await store.add(approval('another tenant’s', 'globex'));
    await store.answer('a7', {
      decision: 'deny',
      decidedBy: 'mia',
      decidedAt: new Date().toISOString(),
    });
    await store.add(approval('one more', 'acme'));
    expect(
      [await store.find('a0'), await store.find('a7'), await store.find('one more')].map(Boolean),
    ).toEqual([true, false, true]);
  });

  it('forgets who was deciding on an approval that has expired and was dropped', async () => {
    const store = new MemoryPendingStore();
    await store.add(approval('again', 'acme', -1));
    await store.claim('again', { owner: 'one', forMs: HOUR });
    for (let index = 0; index < 10_000; index += 1) await store.add(approval(`a${index}`, 'acme'));
    expect(await store.find('again')).toBeUndefined();
    await store.answer('a7', {
      decision: 'deny',
      decidedBy: 'mia',
      decidedAt: new Date().toISOString(),
    });
    await store.add(approval('again', 'acme'));
    expect(await store.claim('again', { owner: 'another', forMs: HOUR })).toBe(true);
  });

  it('keeps the ended runs of other actors', async () => {
    const log = new MemoryRunLog();
    await ended(log, 'bobs', 'globex', 'bob');
    await ended(log, 'carls', 'acme', 'carl');
    for (let index = 0; index < 1_001; index += 1) await ended(log, `r${index}`, 'acme', 'alice');
    expect(
      [await log.find('bobs'), await log.find('carls'), await log.find('r0')].map(Boolean),
    ).toEqual([true, true, false]);
  });

  it('lets other actors’ runs wait though one actor has 1,000 that do, and drops none of them', async () => {
    const log = new MemoryRunLog();
    const add = (runId: string, tenant: string, actorId: string): Promise<void> =>
      log.add({ runId, tenant, actorId }, 'waiting');
    for (let index = 0; index < 1_000; index += 1) await add(`r${index}`, 'acme', 'alice');
    await expect(add('one more', 'acme', 'alice')).rejects.toThrow(
      '1000 runs of one actor wait in memory',
    );
    await add('carls', 'acme', 'carl');
    await add('bobs', 'globex', 'bob');
    expect((await log.find('r0'))?.status).toBe('waiting');
  });

  it('answers the calls of other tenants from its journal', async () => {
    const journal = new MemoryCallJournal();
    const make = async (tenant: string, idempotencyKey: string): Promise<void> => {
      const start = {
        tenant,
        idempotencyKey,
        runId: 'r1',
        declaredId: 'bank__pay',
        args: '{}',
        owner: 'one',
        forMs: HOUR,
      };
      const claim = await journal.acquire(start);
      if (claim.status === 'acquired')
        await journal.finish(
          { ...start, ...claim.lease },
          { status: 'succeeded', content: 'paid', ui: null },
        );
    };
    await make('globex', 'key');
    for (let index = 0; index < 20_001; index += 1) await make('acme', `key ${index}`);
    const call = { idempotencyKey: 'key', declaredId: 'bank__pay', args: '{}' };
    expect((await journal.find({ ...call, tenant: 'globex' }))?.status).toBe('finished');
    expect(
      await journal.find({ ...call, tenant: 'acme', idempotencyKey: 'key 0' }),
    ).toBeUndefined();
  });
});
