import { randomUUID } from 'node:crypto';
import { expect, it } from '@jest/globals';
import { type Database, JobQueue, SqlDirectiveStore, SqlRunLog } from '@toolloop/durable';
import { intentOf } from './fixtures/refund.desk.js';

/** Shows that work is handed out again if its job is gone from the queue. */
export function isHandedOutAgain(open: () => Database): void {
  /**
   * Loses all jobs, as a queue does that was emptied by hand or restored from an older backup, and
   * all of it some minutes ago.
   */
  const loseJobs = async (): Promise<void> => {
    await open().query('delete from pgboss.job');
    await open().query(`update toolloop.runs set updated_at = updated_at - interval '5 minutes'`);
    await open().query(`update toolloop.directives set due_at = due_at - interval '5 minutes'`);
    await open().query(
      `update toolloop.directives set expires_at = expires_at - interval '5 minutes'`,
    );
  };

  it('is handed out again where it is a run, and where its job is there it is handed out once', async () => {
    const jobs = new JobQueue(open());
    const log = new SqlRunLog(open(), jobs);
    const run = { tenant: 'acme', actorId: 'alice', request: { prompt: 'Go on.' } };
    await log.add({ ...run, runId: 'lost' }, 'queued');
    await loseJobs();
    await log.add({ ...run, runId: 'waiting' }, 'queued');
    await open().query(`update toolloop.runs set updated_at = updated_at - interval '5 minutes'`);
    const handed: string[] = [];
    const advance = async (runId: string): Promise<void> => {
      handed.push(runId);
      await log.acquire(runId, { owner: 'this process', forMs: 60_000 });
    };
    const end = await log.work(advance, 2);
    while (new Set(handed).size < 2) await new Promise((resolve) => setTimeout(resolve, 10));
    await end();
    await jobs.onApplicationShutdown();
    expect(handed.toSorted((one, other) => one.localeCompare(other))).toEqual(['lost', 'waiting']);
  });

  it.each(['select 1', 'delete from pgboss.queue'])(
    'is handed out while others are handed out, where it is a run that is queued and one that waits past its time (%s)',
    async (purge) => {
      const jobs = new JobQueue(open());
      const log = new SqlRunLog(open(), jobs);
      const run = { tenant: 'acme', actorId: 'alice', request: { prompt: 'Go on.' } };
      const [queued, waiting] = [randomUUID(), randomUUID()];
      const own = new Set<string>([queued, waiting]);
      const handed: string[] = [];
      const advance = async (runId: string): Promise<void> => {
        if (own.has(runId)) handed.push(runId);
        await log.acquire(runId, { owner: 'this process', forMs: 60_000 });
      };
      const end = await log.work(advance, 2);
      await log.add({ ...run, runId: waiting }, 'waiting');
      await log.wakeAt(waiting, new Date(Date.now() + 3_600_000));
      await open().transaction(async () => {
        await log.add({ ...run, runId: queued }, 'queued');
        await open().query('delete from pgboss.job');
      });
      await open().query(purge);
      await open().query(`update toolloop.runs set updated_at = updated_at - interval '5 minutes'`);
      await open().query(`update toolloop.run_looks set look_at = look_at - interval '2 hours'`);
      while (new Set(handed).size < 2) await new Promise((resolve) => setTimeout(resolve, 50));
      expect(new Set(handed)).toEqual(own);
      await end();
      await jobs.onApplicationShutdown();
    },
  );

  it('is handed out again where it is a directive, one whose process is gone included', async () => {
    const jobs = new JobQueue(open());
    const store = new SqlDirectiveStore(open(), jobs);
    const [due, held] = [intentOf('acme', 'dir_due'), intentOf('acme', 'dir_held')];
    await store.add(due);
    await store.add(held);
    await store.acquire(held, { owner: 'a process that is gone', forMs: 1_000 });
    await loseJobs();
    const handed: string[] = [];
    const perform = async (reference: {
      readonly tenant: string;
      readonly directiveId: string;
    }): Promise<void> => {
      const record = await store.acquire(reference, { owner: 'this process', forMs: 60_000 });
      if (record) handed.push(reference.directiveId);
    };
    const end = await store.work(perform, 2);
    while (handed.length < 2) await new Promise((resolve) => setTimeout(resolve, 10));
    await end();
    await jobs.onApplicationShutdown();
    expect(handed.toSorted((one, other) => one.localeCompare(other))).toEqual([
      'dir_due',
      'dir_held',
    ]);
  });
}
