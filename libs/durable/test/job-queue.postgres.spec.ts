import { expect, it } from '@jest/globals';
import { JobQueue, openDatabase } from '@toolloop/durable';
import { createServerDatabase, describePostgres } from './databases.js';

describePostgres('job queues', () => {
  it('they are all made ready when their processes start at once on an empty database', async () => {
    const { url, drop } = await createServerDatabase();
    const databases = await Promise.all(
      Array.from({ length: 6 }, () => openDatabase({ url, connections: 2 })),
    );
    const queues = databases.map((database) => new JobQueue(database));
    const ready = await Promise.allSettled(queues.map((queue) => queue.ensure('work')));
    for (const queue of queues) await queue.onApplicationShutdown();
    for (const database of databases) await database.close();
    await drop();
    expect(ready.map(({ status }) => status)).toEqual(queues.map(() => 'fulfilled'));
  });

  it('they keep a job that is done for an hour, and are cleared of it within ten minutes more', async () => {
    const { url, drop } = await createServerDatabase();
    const database = await openDatabase({ url });
    const jobs = new JobQueue(database);
    const done: string[] = [];
    const states = (): Promise<readonly { readonly id: string }[]> =>
      database.query(
        `select data->>'id' as id from pgboss.job where state = 'completed' order by 1`,
      );
    const age = (minutes: string): Promise<unknown> =>
      database.query(
        `update pgboss.job set completed_on = completed_on - $2::interval where data->>'id' = $1`,
        [minutes, minutes],
      );
    await jobs.ensure('work');
    const end = await jobs.work('work', {
      handle: (id) => Promise.resolve(void done.push(id)),
      most: 1,
    });
    for (const id of ['59 minutes', '61 minutes']) await jobs.send('work', { id });
    while ((await states()).length < 2) await new Promise((resolve) => setTimeout(resolve, 20));
    for (const { id } of await states()) await age(id);
    await database.query(
      `update pgboss.queue set maintain_on = maintain_on - interval '10 minutes'`,
    );
    for (const until = Date.now() + 240_000; (await states()).length > 1 && Date.now() < until;)
      await new Promise((resolve) => setTimeout(resolve, 100)); // pg-boss looks every two seconds
    expect([await states(), done.length]).toEqual([[{ id: '59 minutes' }], 2]);
    await end();
    await jobs.onApplicationShutdown();
    await database.close();
    await drop();
  });
});
