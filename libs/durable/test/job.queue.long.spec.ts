import { expect, it } from '@jest/globals';
import { JobQueue } from '@toolloop/durable';
import { onEachDatabase } from './each-database.js';

// PGlite makes a database in seconds, and takes all of a busy machine for it.
onEachDatabase('a queue', (open) => {
  it('hands out the next job when one is done, and does not wait until it looks again', async () => {
    const jobs = new JobQueue(open());
    await jobs.ensure('backlog');
    for (let index = 0; index < 100; index += 1) await jobs.send('backlog', { id: `job ${index}` });
    const done = new Set<string>();
    const end = await jobs.work('backlog', {
      handle: (id) => Promise.resolve(void done.add(id)),
      most: 1,
    });
    // fifty seconds for who looks twice a second
    while (done.size < 100) await new Promise((resolve) => setTimeout(resolve, 10));
    await end();
    await jobs.onApplicationShutdown();
    expect(done.size).toBe(100);
  });

  it('is watched over for processes that died where there can be others, and hardly where there are none', async () => {
    const database = open();
    const jobs = new JobQueue(database);
    await jobs.ensure('watched');
    const monitored = async (): Promise<number> => {
      const [row] = await database.query<{ at: number }>(
        `select extract(epoch from monitor_on)::float8 as at from pgboss.queue where name = 'watched'`,
      );
      return row?.at ?? 0;
    };
    const end = await jobs.work('watched', { handle: () => Promise.resolve(), most: 1 });
    const times = new Set<number>();
    const isShared = database.engine === 'postgres';
    // where it hardly happens, there is nothing to wait for but the time
    for (
      const until = Date.now() + (isShared ? 240_000 : 7_000);
      Date.now() < until && times.size <= 2;
      await new Promise((resolve) => setTimeout(resolve, 100))
    )
      times.add(await monitored());
    await end();
    await jobs.onApplicationShutdown();
    expect(times.size > 2).toBe(isShared);
  });
});
