import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { afterEach, describe, expect, it } from '@jest/globals';
import type { TestingModule } from '@nestjs/testing';
import type { DirectiveEvent } from '@toolloop/core/directives';
import { DirectiveStore, versionOf } from '@toolloop/core/stores';
import {
  JobQueue,
  SqlDirectiveStore,
  openDatabase,
  type Database,
  type DurableOptions,
} from '@toolloop/durable';
import { RetentionSweep } from '../src/retention.js';
import { createDatabaseFolder, createServerDatabase, describePostgres } from './databases.js';
import { onEachDatabase } from './each-database.js';
import { laterJobDone } from './fixtures/later-job.js';
import {
  askFor,
  idsIn,
  intentOf,
  startDesk,
  untilAll,
  type Effects,
} from './fixtures/refund.desk.js';

// PGlite makes a database in seconds, and takes all of a busy machine for it.
const cleanUps: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).toReversed()) await cleanUp();
});

async function onServer(): Promise<DurableOptions> {
  const { url, drop } = await createServerDatabase();
  cleanUps.push(drop);
  return { url };
}

async function inFolder(): Promise<DurableOptions> {
  const { dataDir, drop } = await createDatabaseFolder();
  cleanUps.push(drop);
  return { dataDir };
}

async function start(
  durable: DurableOptions,
  effects: Effects,
  perform = true,
): Promise<TestingModule> {
  const module = await startDesk(durable, effects, { perform });
  cleanUps.push(() => module.close());
  return module;
}

const MOST_AT_ONCE = 50; // a store has seconds for each, on a busy machine too

/** So many processes are asked 500 times, and one more is asked again once they are gone. */
async function askedAgainAndAgain(durable: DurableOptions, processes: number) {
  const effects: Effects = [];
  const apps = await Promise.all(Array.from({ length: processes }, () => start(durable, effects)));
  const results: Awaited<ReturnType<typeof askFor>>[] = [];
  for (let asked = 0; asked < 500; asked += MOST_AT_ONCE)
    results.push(...(await Promise.all(apps.map((app) => askFor(app, MOST_AT_ONCE / processes)))));
  await Promise.all(apps.map((app) => untilAll(app, 'succeeded')));
  await Promise.all(apps.map((app) => app.close()));
  const after = await start(durable, effects);
  const again = await askFor(after, 20);
  const directives = await untilAll(after, 'succeeded');
  return { directives: directives.length, ids: idsIn([...results.flat(), ...again]).size, effects };
}

const ONE_REFUND = { directives: 1, ids: 1, effects: ['o-1'] };

/** One process asks and is closed; another performs. */
async function performedElsewhere(durable: DurableOptions) {
  const effects: Effects = [];
  const asking = await start(durable, effects, false);
  await askFor(asking, 1);
  await laterJobDone(asking.get(JobQueue, { strict: false }));
  const before = [...effects];
  await asking.close();
  const performing = await start(durable, effects);
  const [directive] = await untilAll(performing, 'succeeded');
  return { before, attempts: directive?.attempts, after: effects };
}

const PERFORMED_LATER = { before: [], attempts: 1, after: ['o-1'] };

describe('a refund, on PGlite', () => {
  it('is made once, though it is asked for 500 times, many of them at once, and after a restart', async () => {
    expect(await askedAgainAndAgain(await inFolder(), 1)).toEqual(ONE_REFUND);
  });
  it('is asked for by a process that is gone when another performs it', async () => {
    expect(await performedElsewhere(await inFolder())).toEqual(PERFORMED_LATER);
  });

  it('is taken up at once by the next process after its process died, without waiting for the lease', async () => {
    const folder = await inFolder();
    const intent = intentOf('acme', 'dir_1');
    const { store, close } = await opened(await openDatabase(folder));
    await store.add(intent);
    await store.acquire(intent, { owner: randomUUID(), forMs: 600_000 });
    await close();
    const next = await opened(await openDatabase(folder));
    cleanUps.push(next.close);
    expect(await next.store.acquire(intent, { owner: randomUUID(), forMs: 1 })).toBeUndefined();
    const taken: (number | undefined)[] = [];
    const stop = await next.store.work(async (reference) => {
      taken.push(
        (await next.store.acquire(reference, { owner: randomUUID(), forMs: 600_000 }))?.epoch,
      );
    }, 1);
    await eventually(() => taken.includes(2));
    await stop();
  });

  it('is not taken from this process when it begins to work on it', async () => {
    const intent = intentOf('acme', 'dir_1');
    const { store, close } = await opened(await openDatabase(await inFolder()));
    cleanUps.push(close);
    await store.add(intent);
    await store.acquire(intent, { owner: randomUUID(), forMs: 600_000 });
    const taken: (number | undefined)[] = [];
    const stop = await store.work(async (reference) => {
      taken.push((await store.acquire(reference, { owner: randomUUID(), forMs: 600_000 }))?.epoch);
    }, 1);
    await store.add(intentOf('acme', 'dir_2'));
    await eventually(() => taken.includes(1)); // the later one is taken up
    await stop();
    expect(taken).not.toContain(2);
    expect((await store.find(intent))?.epoch).toBe(1);
  });
});

describePostgres('a refund, on PostgreSQL', () => {
  it('is made once, though two processes are asked for it 500 times, many of them at once, and another after a restart', async () => {
    expect(await askedAgainAndAgain(await onServer(), 2)).toEqual(ONE_REFUND);
  });
  it('is asked for by a process that is gone when another performs it', async () => {
    expect(await performedElsewhere(await onServer())).toEqual(PERFORMED_LATER);
  });

  it('is told to processes that did not make it, each change once and in order', async () => {
    const durable = await onServer();
    const effects: Effects = [];
    const [one, two] = [await start(durable, effects), await start(durable, effects, false)];
    const stores = [one, two].map((app) => app.get(DirectiveStore, { strict: false }));
    const told = stores.map((store) => {
      const events: string[] = [];
      store.changes$.subscribe(({ event, tenant }) => tenant === 'acme' && events.push(event));
      return events;
    });
    await Promise.all(stores.map(untilHeard));
    await askFor(two, 1);
    await eventually(() => told.every((events) => events.includes('succeeded')));
    expect(told).toEqual([
      ['requested', 'started', 'succeeded'],
      ['requested', 'started', 'succeeded'],
    ]);
  });
});

async function opened(database: Database) {
  const jobs = new JobQueue(database);
  const store = new SqlDirectiveStore(database, jobs);
  await store.onModuleInit();
  const close = async (): Promise<void> => {
    await jobs.onApplicationShutdown();
    await database.close();
  };
  return { store, jobs, close };
}

async function eventually(holds: () => boolean | Promise<boolean>): Promise<void> {
  for (const end = Date.now() + 240_000; !(await holds()); await wait(10))
    if (Date.now() > end) throw new Error('In vain.');
}

/** Resolves once a store hears of changes; its changes have a subscriber by then. */
async function untilHeard(store: DirectiveStore): Promise<void> {
  const tenant = randomUUID();
  let isHeard = false;
  const listening = store.changes$.subscribe((event) => (isHeard ||= event.tenant === tenant));
  let asked = 0;
  await eventually(async () => {
    if (!isHeard) await store.add(intentOf(tenant, `dir_${(asked += 1)}`));
    return isHeard;
  });
  listening.unsubscribe();
}

onEachDatabase('the store of directives', (open) => {
  /** Over the database that the suite shares. */
  async function made(): Promise<SqlDirectiveStore> {
    const jobs = new JobQueue(open());
    cleanUps.push(() => jobs.onApplicationShutdown());
    const store = new SqlDirectiveStore(open(), jobs);
    await store.onModuleInit();
    return store;
  }

  const rowsAndJobs = async (tenant: string): Promise<readonly object[]> =>
    open().query(
      `select (select count(*)::int from toolloop.directives where tenant = $1) as rows,
         (select count(*)::int from pgboss.job where name = 'toolloop-directives' and (data->>'id')::json->>0 = $1) as jobs`,
      [tenant],
    );

  it('leaves neither row nor job behind, and tells nothing, where the transaction is rolled back', async () => {
    const store = await made();
    const tenant = randomUUID();
    const told: DirectiveEvent[] = [];
    store.changes$.subscribe((event) => event.tenant === tenant && told.push(event));
    await untilHeard(store);
    const undone = open().transaction(async () => {
      await store.add(intentOf(tenant, 'dir_1'));
      throw new Error('undone');
    });
    await expect(undone).rejects.toThrow('undone');
    expect(await rowsAndJobs(tenant)).toEqual([{ rows: 0, jobs: 0 }]);
    await open().transaction(async () => {
      await store.add(intentOf(tenant, 'dir_2'));
      expect(told).toEqual([]);
    });
    expect(await rowsAndJobs(tenant)).toEqual([{ rows: 1, jobs: 1 }]);
    await eventually(() => told.length > 0);
    expect(told.map(({ directiveId }) => directiveId)).toEqual(['dir_2']);
  });

  it('writes one job for many with the same key', async () => {
    const store = await made();
    const tenant = randomUUID();
    await Promise.all(Array.from({ length: 30 }, () => store.add(intentOf(tenant, 'dir_1'))));
    expect(await rowsAndJobs(tenant)).toEqual([{ rows: 1, jobs: 1 }]);
  });

  it('calls again for a directive that was left as it was, and for one whose lease is over', async () => {
    const store = await made();
    const tenant = randomUUID();
    const claimed: (number | undefined)[] = [];
    let calls = 0;
    const stop = await store.work(async (reference) => {
      if (reference.tenant !== tenant || (calls += 1) === 1) return;
      claimed.push((await store.acquire(reference, { owner: randomUUID(), forMs: 200 }))?.epoch);
    }, 4);
    await store.add(intentOf(tenant, 'dir_1'));
    await eventually(() => claimed.includes(2));
    await stop();
    expect(claimed.slice(0, 2)).toEqual([1, 2]);
  });

  it('calls again when the lease that was extended is over, and not before', async () => {
    const store = await made();
    const tenant = randomUUID();
    const claims: { epoch: number; at: number }[] = [];
    let extendedUntil = Infinity;
    const stop = await store.work(async (reference) => {
      if (reference.tenant !== tenant) return;
      const claimed = await store.acquire(reference, {
        owner: randomUUID(),
        forMs: claims.length === 0 ? 300 : 600_000,
      });
      if (!claimed) return;
      claims.push({ epoch: claimed.epoch, at: Date.now() });
      if (claims.length > 1) return;
      await store.renew({ ...reference, ...claimed.lease }, 1_500);
      extendedUntil = Date.now() + 1_490;
    }, 4);
    await store.add(intentOf(tenant, 'dir_1'));
    await eventually(() => claims.length > 1);
    await stop();
    expect(claims.map(({ epoch }) => epoch)).toEqual([1, 2]);
    expect(claims[1]?.at).toBeGreaterThanOrEqual(extendedUntil);
  });

  it('tells a change in this process that is too long to be told to others', async () => {
    const store = await made();
    const tenant = randomUUID();
    const told: number[] = [];
    store.changes$.subscribe((event) => event.tenant === tenant && told.push(event.subject.length));
    await store.add({ ...intentOf(tenant, 'dir_1'), subject: 'ż'.repeat(10_000) });
    expect(told).toEqual([10_000]);
  });

  it('deletes finished directives after so many days, and none that may continue', async () => {
    const store = await made();
    const tenant = randomUUID();
    const over = {
      ...(await store.add(intentOf(tenant, 'dir_over'))).record.intent,
      status: 'pending',
      epoch: 0,
    } as const;
    await store.change(over, { event: 'cancelled', status: 'cancelled' });
    await store.add(intentOf(tenant, 'dir_pending'));
    const unknown = (await store.add(intentOf(tenant, 'dir_unknown'))).record.intent;
    const held = await store.acquire(unknown, { owner: randomUUID(), forMs: 1_000 });
    if (held)
      await store.change(versionOf(held), { event: 'unknown_outcome', status: 'unknown_outcome' });
    await open().query(
      `update toolloop.directives set updated_at = updated_at - interval '10 days' where tenant = $1`,
      [tenant],
    );
    expect(await new RetentionSweep(open(), { directives: 11 }).sweep()).toBe(0);
    expect(await new RetentionSweep(open(), { directives: 9 }).sweep()).toBe(1);
    const left = await store.list({ tenant });
    expect(left.map(({ intent }) => intent.directiveId)).toEqual(['dir_unknown', 'dir_pending']);
    expect((await store.add(intentOf(tenant, 'dir_over'))).isNew).toBe(true);
  });
});
