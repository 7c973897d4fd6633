import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { createServerDatabase, describePostgres } from '../../libs/durable/test/databases.js';
import { programArguments } from '../program.js';

const run = promisify(execFile);

describePostgres('the pool of workers', () => {
  let database: Awaited<ReturnType<typeof createServerDatabase>>;
  beforeAll(async () => {
    database = await createServerDatabase();
  });
  afterAll(() => database.drop());

  it('works on each run once, in processes other than the one that queues', async () => {
    const env = { ...process.env, NODE_OPTIONS: '', DATABASE_URL: database.url };
    const running = run(process.execPath, programArguments('examples/worker-pool/worker-pool.ts'), {
      env,
    });
    const { stdout } = await running;
    const shrunk = [...stdout.matchAll(/^Shrunk: (p-\d) by process (\d+)$/gm)];
    expect(shrunk.map(([, photo]) => photo)).toEqual(['p-1', 'p-2', 'p-3', 'p-4', 'p-5', 'p-6']);
    expect(shrunk.map(([, , pid]) => pid)).not.toContain(String(running.child.pid));
  });
});
