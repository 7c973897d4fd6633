import { afterAll, afterEach, beforeAll, expect, it, jest } from '@jest/globals';
import {
  type Database,
  JobQueue,
  openDatabase,
  SqlCallJournal,
  SqlDirectiveStore,
} from '@toolloop/durable';
import { createServerDatabase, describePostgres } from './databases.js';
import { intentOf } from './fixtures/refund.desk.js';

const HOUR_MS = 3_600_000;
const TIMERS = [
  'nextTick',
  'queueMicrotask',
  'setImmediate',
  'clearImmediate',
  'setInterval',
  'clearInterval',
  'setTimeout',
  'clearTimeout',
];

/** Sets this process's clock, and none of its timers. */
function clockIs(aheadMs: number): void {
  jest.useRealTimers();
  jest.useFakeTimers({
    now: Date.now() + aheadMs,
    doNotFake: [...TIMERS, 'hrtime', 'performance'] as never,
  });
}

describePostgres('a process whose clock differs by an hour', () => {
  let database: Database;
  let jobs: JobQueue;
  let drop: () => Promise<void>;
  beforeAll(async () => {
    const server = await createServerDatabase();
    drop = server.drop;
    database = await openDatabase({ url: server.url });
    jobs = new JobQueue(database);
  });
  afterEach(() => {
    jest.useRealTimers();
  });
  afterAll(async () => {
    await jobs.onApplicationShutdown();
    await database.close();
    await drop();
  });

  it.each([
    ['late', -HOUR_MS],
    ['early', HOUR_MS],
  ])(
    'leases a call until a time of the server’s clock, though its own is %s',
    async (_, aheadMs) => {
      const journal = new SqlCallJournal(database);
      const call = {
        tenant: 'acme',
        idempotencyKey: `${aheadMs}`,
        runId: 'run_1',
        declaredId: 'bank__pay',
        args: '{}',
      };
      const now = Date.now();
      clockIs(aheadMs);
      const claim = await journal.acquire({ ...call, owner: 'skewed', forMs: 60_000 });
      clockIs(-aheadMs);
      const other = await journal.acquire({ ...call, owner: 'other', forMs: 60_000 });
      expect(
        claim.status === 'acquired' && Math.abs(Date.parse(claim.lease.expiresAt) - now - 60_000),
      ).toBeLessThan(60_000);
      expect(other.status === 'in_progress' && other.leftMs > 0 && other.leftMs <= 60_000).toBe(
        true,
      );
    },
  );

  it.each([
    ['late', -HOUR_MS],
    ['early', HOUR_MS],
  ])(
    'leases a directive until a time of the server’s clock, though its own is %s',
    async (_, aheadMs) => {
      const store = new SqlDirectiveStore(database, jobs);
      const intent = intentOf('acme', `dir_${aheadMs}`);
      await store.add(intent);
      clockIs(aheadMs);
      const held = await store.acquire(intent, { owner: 'skewed', forMs: 60_000 });
      clockIs(-aheadMs);
      expect(await store.acquire(intent, { owner: 'other', forMs: 60_000 })).toBeUndefined();
      expect(held?.lease).toMatchObject({ owner: 'skewed', epoch: 1 });
      await store.renew({ ...intent, owner: 'skewed', epoch: 1 }, 0);
      expect((await store.acquire(intent, { owner: 'other', forMs: 60_000 }))?.lease.epoch).toBe(2);
    },
  );
});
