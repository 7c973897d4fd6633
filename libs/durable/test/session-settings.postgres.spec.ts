import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from '@jest/globals';
import { JobQueue, openDatabase, SqlRunLog, SqlStores } from '@toolloop/durable';
import { createServerDatabase, describePostgres, onServer } from './databases.js';

let server: Awaited<ReturnType<typeof createServerDatabase>>;
const nameOf = (url: string): string => new URL(url).pathname.slice(1);

describePostgres('a database with settings of its own', () => {
  beforeEach(async () => {
    server = await createServerDatabase();
  });
  afterEach(() => server.drop());

  it('keeps and gives back what any other does', async () => {
    const odd = [
      `datestyle = 'German'`,
      'standard_conforming_strings = off',
      `bytea_output = 'escape'`,
      `intervalstyle = 'iso_8601'`,
      'extra_float_digits = -15',
    ];
    for (const setting of odd)
      await onServer(`alter database ${nameOf(server.url)} set ${setting}`);
    const database = await openDatabase({ url: server.url });
    const [row] = await database.query<{ at: Date; text: string; bytes: Buffer; part: number }>(
      String.raw`select now() as at, 'a\b' as text, '\x01ff'::bytea as bytes, 0.1::float8 + 0.2 as part`,
    );
    expect(Math.abs((row?.at.getTime() ?? 0) - Date.now())).toBeLessThan(60_000);
    expect([row?.text, [...(row?.bytes ?? [])], row?.part]).toEqual([
      String.raw`a\b`,
      [1, 255],
      0.1 + 0.2,
    ]);
    const jobs = new JobQueue(database);
    const runs = new SqlRunLog(database, jobs);
    const run = {
      runId: randomUUID(),
      tenant: 'acme',
      actorId: 'alice',
      request: { prompt: String.raw`c:\new` },
    };
    const lease = await runs.begin(run, { owner: 'o', forMs: 60_000 });
    expect(Date.parse(lease.expiresAt)).toBeGreaterThan(Date.now());
    expect((await runs.find(run.runId))?.request).toEqual(run.request);
    await jobs.onApplicationShutdown();
    await database.close();
  });

  it('keeps the application from starting where it only lets itself be read, and says what to do', async () => {
    await onServer(`alter database ${nameOf(server.url)} set default_transaction_read_only = on`);
    await expect(openDatabase({ url: server.url })).rejects.toMatchObject({
      findings: [
        {
          problem: expect.stringContaining('only lets itself be read'),
          remedy: expect.stringContaining('waitForPrimaryMs'),
        },
      ],
    });
  });

  it('is waited for where it only lets itself be read for now, and the options say so', async () => {
    await onServer(`alter database ${nameOf(server.url)} set default_transaction_read_only = on`);
    const opening = openDatabase({ url: server.url, waitForPrimaryMs: 50_000 });
    // a session is counted once it is over: the database was asked, and had to be waited for
    const counted = `select 1 from pg_stat_database where datname = '${nameOf(server.url)}' and sessions > 0`;
    while ((await onServer(counted)) === 0) await wait(20);
    await onServer(`alter database ${nameOf(server.url)} reset default_transaction_read_only`);
    const database = await opening;
    expect(await new SqlStores(database).audit.head('acme')).toBeUndefined();
    await database.close();
  });
});
