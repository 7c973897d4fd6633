import { expect, it, jest } from '@jest/globals';
import { JobQueue, openDatabase } from '@toolloop/durable';
import { createServerDatabase, describePostgres } from './databases.js';

jest.setTimeout(60_000); // every process makes the tables of pg-boss

describePostgres('job queues', () => {
  it('they are all made ready when their processes start at once on an empty database', async () => {
    const { url, drop } = await createServerDatabase();
    const databases = await Promise.all(Array.from({ length: 6 }, () => openDatabase({ url, connections: 2 })));
    const queues = databases.map((database) => new JobQueue(database));
    const ready = await Promise.allSettled(queues.map((queue) => queue.ensure('work')));
    for (const queue of queues) await queue.onApplicationShutdown();
    for (const database of databases) await database.close();
    await drop();
    expect(ready.map(({ status }) => status)).toEqual(queues.map(() => 'fulfilled'));
  });
});
