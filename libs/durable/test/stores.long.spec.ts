import { randomUUID } from 'node:crypto';
import { beforeAll, expect, it } from '@jest/globals';
import type { Message } from '@toolloop/core';
import type { AuditEntry } from '@toolloop/core/stores';
import { JobQueue, SqlRunLog, SqlStores, UnstorableError, type Database } from '@toolloop/durable';
import { RetentionSweep } from '../src/retention.js';
import { onEachDatabase } from './each-database.js';

// PGlite makes a database in seconds, and takes all of a busy machine for it.
class Booking {
  readonly place = 'a';
}

class Price {
  toJSON(): string {
    return '5.00 EUR';
  }
}

const entry = (tenant: string, sequence: number) =>
  ({ version: 1, tenant, sequence, hash: `h${sequence}` }) as AuditEntry;
/** Nothing ends the transaction but its own work. */
const ENDLESS = new AbortController().signal;
const call = (tenant: string, idempotencyKey: string) => ({
  tenant,
  idempotencyKey,
  owner: 'one',
  epoch: 1,
  runId: 'run_1',
  declaredId: 'bank__pay',
  args: '{"iban":"DE1"}',
  forMs: 60_000,
});

onEachDatabase('the transaction of a call', (open) => {
  const begun = async (): Promise<ReturnType<typeof call>> => {
    const made = call(randomUUID(), 'key');
    await new SqlStores(open()).journal.acquire(made);
    return made;
  };
  const book = (place: string) => open().query('insert into bookings (place) values ($1)', [place]);
  const booked = async (place: string): Promise<number> =>
    (await open().query('select 1 from bookings where place = $1', [place])).length;

  beforeAll(() => open().query('create table bookings (place text)'));

  it('is done once, also for concurrent and repeated calls, and all get the same outcome', async () => {
    const made = await begun();
    const { transactions } = new SqlStores(open());
    let times = 0;
    const once = () =>
      transactions.once(
        made,
        async () => {
          await book(made.tenant);
          // so that the others come meanwhile
          for (let turns = 0; turns < 20; turns += 1) await booked(made.tenant);
          return { times: (times += 1), nothing: undefined };
        },
        ENDLESS,
      );
    const told = await Promise.all(Array.from({ length: 8 }, once));
    expect(told).toEqual(Array.from({ length: 8 }, () => ({ times: 1 })));
    expect(await booked(made.tenant)).toBe(1);
    expect(
      await transactions.once(await begun(), () => Promise.resolve(), ENDLESS),
    ).toBeUndefined();
  });

  it('is undone as a whole where it rejects or returns what is no JSON, and may be done then', async () => {
    const made = await begun();
    const { transactions } = new SqlStores(open());
    const failing = async (): Promise<never> => {
      await book(made.tenant);
      throw new Error('No.');
    };
    await expect(transactions.once(made, failing, ENDLESS)).rejects.toThrow('No.');
    await expect(
      transactions.once(
        made,
        () => book(made.tenant).then(() => ({ booking: new Booking() })),
        ENDLESS,
      ),
    ).rejects.toThrow(
      expect.objectContaining({
        code: 'unstorable',
        message: expect.stringMatching(
          /Return a plain object from it: .*booking.*instance of Booking/,
        ),
      }),
    );
    expect(await booked(made.tenant)).toBe(0);
    await transactions.once(made, () => book(made.tenant), ENDLESS);
    expect(await booked(made.tenant)).toBe(1);
  });

  it('keeps what its work returned as a model would read it, the first time and every other', async () => {
    const made = await begun();
    const { transactions } = new SqlStores(open());
    const returned = {
      sum: 12n,
      at: new Date(0),
      none: Number.NaN,
      per: new Map([['a', 1]]),
      tags: new Set(['x']),
      nul: 'a\0b',
    };
    const read = {
      sum: '12',
      at: '1970-01-01T00:00:00.000Z',
      none: null,
      per: { a: 1 },
      tags: ['x'],
      nul: 'a\0b',
    };
    for (let times = 0; times < 2; times += 1)
      expect(await transactions.once(made, () => Promise.resolve(returned), ENDLESS)).toEqual(read);
    expect(
      await transactions.once(await begun(), () => Promise.resolve(new Price()), ENDLESS),
    ).toBe('5.00 EUR');
  });

  it('is refused to a call that was not begun, and keeps one that was done from being given back', async () => {
    const { transactions, journal } = new SqlStores(open());
    await expect(
      transactions.once(call(randomUUID(), 'key'), () => Promise.resolve(1), ENDLESS),
    ).rejects.toThrow('not in the journal');
    const made = await begun();
    await transactions.once(made, () => Promise.resolve(1), ENDLESS);
    expect(await journal.find(made)).toMatchObject({ status: 'in_progress', kept: { result: 1 } });
    await journal.release(made);
    expect(await transactions.once(made, () => Promise.resolve(2), ENDLESS)).toBe(1);
  });
});

onEachDatabase('the audit', (open) => {
  const grown = async (): Promise<string> => {
    const tenant = randomUUID();
    await new SqlStores(open()).audit.append(tenant, () => entry(tenant, 1));
    return tenant;
  };

  it.each([
    ['update', `update toolloop.audit set hash = 'x'`],
    ['delete', 'delete from toolloop.audit'],
    ['truncate', 'truncate toolloop.audit'],
  ])('refuses %s', async (_, statement) => {
    const tenant = await grown();
    await expect(open().query(statement)).rejects.toThrow(/append-only/);
    expect(await new SqlStores(open()).audit.head(tenant)).toMatchObject({
      sequence: 1,
      hash: 'h1',
    });
  });

  it('takes no entry that leaves a gap, or is of another tenant', async () => {
    const tenant = await grown();
    const { audit } = new SqlStores(open());
    await expect(audit.append(tenant, () => entry(tenant, 3))).rejects.toThrow(/does not follow/);
    await expect(audit.append(tenant, () => entry('other', 2))).rejects.toThrow(/does not follow/);
    expect(await audit.read(tenant, { from: 1, limit: 10 })).toHaveLength(1);
  });

  it('is part of the transaction it is written in', async () => {
    const { audit } = new SqlStores(open());
    const tenant = randomUUID();
    const work = open().transaction(async () => {
      await audit.append(tenant, () => entry(tenant, 1));
      throw new Error('undone');
    });
    await expect(work).rejects.toThrow('undone');
    expect(await audit.head(tenant)).toBeUndefined();
  });
});

onEachDatabase('the stores', (open) => {
  it('keep no arguments of a call, only their hash', async () => {
    await new SqlStores(open()).journal.acquire(call('acme', 'secret'));
    const rows = await open().query(`select * from toolloop.calls where tenant = 'acme'`);
    expect(JSON.stringify(rows)).not.toContain('DE1');
  });

  it('wait, within a transaction, for an answer that is rolled back', async () => {
    const { pending } = new SqlStores(open());
    const id = randomUUID();
    const about = { request: {} as never, binding: { tenant: 'acme', runId: 'r' } as never };
    const times = { createdAt: '', expiresAt: '' };
    const asked = { ...about, kind: 'approval', admitted: [], rule: '', ...times } as const;
    await pending.add({ ...asked, id });
    let isTold = false;
    const controller = new AbortController();
    const waiting = pending.answered(id, controller.signal).then(() => (isTold = true));
    const answer = { decision: 'approve', decidedBy: 'mia', decidedAt: '' } as const;
    const work = open().transaction(async () => {
      await pending.answer(id, answer);
      throw new Error('undone');
    });
    await expect(work).rejects.toThrow('undone');
    const later = randomUUID();
    await pending.add({ ...asked, id: later });
    const laterTold = pending.answered(later, controller.signal);
    await pending.answer(later, answer);
    await laterTold;
    expect(isTold).toBe(false);
    await open().transaction(() => pending.answer(id, answer));
    expect(await waiting).toBe(true);
  });

  it.each<[string, string]>([
    ['a NUL', 'ac\0me'],
    ['half a surrogate pair', 'acme\ud800'],
    ['more than 512 characters', 'a'.repeat(513)],
  ])('refuse a tenant with %s, and say so', async (_, tenant) => {
    const stores = new SqlStores(open());
    await expect(stores.journal.acquire(call(tenant, 'k'))).rejects.toThrow(UnstorableError);
    await expect(stores.journal.acquire(call(tenant, 'k'))).rejects.toThrow(/The tenant has/);
    await expect(useCalls(stores, tenant, 1)).rejects.toThrow(UnstorableError);
    await expect(stores.audit.append(tenant, () => entry(tenant, 1))).rejects.toThrow(
      UnstorableError,
    );
  });

  it.each<[string, unknown, string]>([
    ['a bigint', 1n, 'bigint'],
    ['a date', new Date(), 'Date'],
    ['bytes', new Uint8Array(1), 'Uint8Array'],
    ['a number that is none', Number.NaN, 'number'],
    ['a map', new Map(), 'Map'],
  ])('refuse %s in a message, and say where', async (_, value, type) => {
    const { conversations } = new SqlStores(open());
    const key = { tenant: 'acme', actorId: 'alice', conversationId: randomUUID() };
    const message = {
      role: 'assistant',
      content: '',
      providerData: { openai: [value] },
    } as Message;
    await expect(conversations.append(key, [message])).rejects.toThrow(
      `messages.0.providerData.openai.0 (${type}) is not JSON`,
    );
    expect(await conversations.load(key)).toEqual([]);
  });
});

function useCalls(
  { usage }: SqlStores,
  tenant: string,
  windowMs: number,
): Promise<readonly number[]> {
  const use = {
    day: '2026-11-23',
    calls: 1,
    answers: 0,
    inputTokens: 0,
    outputTokens: 0,
    usd: 0,
    unpricedAnswers: 0,
  };
  return usage.add({
    batchId: randomUUID(),
    tenant,
    increments: [use],
    windows: [{ quantity: 'calls', windowMs }],
  });
}

/** The day that is so many days ago. */
function dayAt(ago: number): string {
  return new Date(Date.now() - ago * 86_400_000).toISOString().slice(0, 10);
}

async function age(database: Database, days: number): Promise<void> {
  for (const [table, column] of [
    ['calls', 'started_at'],
    ['calls', 'finished_at'],
    ['conversation_parts', 'created_at'],
    ['runs', 'updated_at'],
  ])
    await database.query(
      `update toolloop.${table} set ${column} = ${column} - $1::int * interval '1 day'`,
      [days],
    );
}

onEachDatabase('the retention', (open) => {
  it('deletes what is over, in batches, and nothing that is not named', async () => {
    const tenant = randomUUID();
    await open().query(
      `insert into toolloop.conversation_parts (tenant, key_hash, actor_hash, conversation_id, message_count, messages)
       select $1, 'k', 'a', 'c', 1, '[]' from generate_series(1, 2500)`,
      [tenant],
    );
    const jobs = new JobQueue(open());
    const runs = new SqlRunLog(open(), jobs);
    await runs.add({ runId: tenant, tenant, actorId: 'alice' }, 'waiting');
    await age(open(), 40);
    await runs.add({ runId: `${tenant} new`, tenant, actorId: 'alice' }, 'waiting');
    expect(await new RetentionSweep(open(), { conversations: 50 }).sweep()).toBe(0);
    expect(await new RetentionSweep(open(), { conversations: 30 }).sweep()).toBe(2500);
    expect(await runs.find(tenant)).toBeDefined();
    expect(await new RetentionSweep(open(), { suspendedRuns: 30 }).sweep()).toBe(1);
    expect(await runs.find(`${tenant} new`)).toBeDefined();
    await jobs.onApplicationShutdown();
  });

  it('keeps calls of unknown outcome, and counters that still count', async () => {
    const stores = new SqlStores(open());
    const tenant = randomUUID();
    for (const key of ['open', 'done']) await stores.journal.acquire(call(tenant, key));
    await stores.journal.finish(call(tenant, 'done'), {
      status: 'succeeded',
      content: '',
      ui: null,
    });
    await useCalls(stores, tenant, 3_600_000);
    await useCalls(stores, tenant, 1);
    await open().query(`update toolloop.quotas set "window" = 1 where window_ms = 1`);
    await age(open(), 10);
    expect(
      await new RetentionSweep(open(), { calls: 9, pending: 1 }).sweep(),
    ).toBeGreaterThanOrEqual(2);
    expect(
      await stores.journal.acquire({ ...call(tenant, 'open'), owner: 'another' }),
    ).toMatchObject({ status: 'in_progress' });
    expect(await stores.journal.acquire(call(tenant, 'done'))).toMatchObject({
      status: 'acquired',
    });
    expect(await stores.usage.totals(tenant, [{ quantity: 'calls', windowMs: 3_600_000 }])).toEqual(
      [1],
    );
  });

  it('deletes counts of usage after 400 days, or as it is told, and their ids after two', async () => {
    const { usage } = new SqlStores(open());
    const tenant = randomUUID();
    const add = (day: string) =>
      usage.add({
        batchId: day,
        tenant,
        increments: [
          {
            day,
            calls: 1,
            answers: 0,
            inputTokens: 0,
            outputTokens: 0,
            usd: 0,
            unpricedAnswers: 0,
          },
        ],
      });
    for (const ago of [402, 399, 31, 0]) await add(dayAt(ago));
    const left = async () => {
      const rows = await usage.report({
        tenant,
        from: dayAt(500),
        to: dayAt(0),
        groupBy: ['day'],
        limit: 10,
      });
      return rows.map(({ day }) => day);
    };
    await new RetentionSweep(open()).sweep();
    expect(await left()).toEqual([dayAt(399), dayAt(31), dayAt(0)]);
    await add(dayAt(0)); // known: it was added before
    await open().query(
      `update toolloop.usage_ids set added_at = added_at - interval '3 days' where tenant = $1`,
      [tenant],
    );
    await new RetentionSweep(open(), { usage: 30 }).sweep();
    expect(await left()).toEqual([dayAt(0)]);
    const sum = async () =>
      (await usage.report({ tenant, from: dayAt(0), to: dayAt(0), groupBy: [], limit: 1 }))[0]
        ?.calls;
    expect(await sum()).toBe(1);
    await add(dayAt(0)); // known no more
    expect(await sum()).toBe(2);
  });
});
