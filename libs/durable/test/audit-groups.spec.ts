import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { type AuditDraft, AuditTrail, verifyAudit } from '@toolloop/core/audit';
import { Database, type DatabaseDriver, SqlStores } from '@toolloop/durable';
import { migrate } from '../src/database/migrations.js';
import { PgliteDriver } from '../src/database/pglite-driver.js';
import { PostgresDriver } from '../src/database/postgres-driver.js';
import { createServerDatabase, describePostgres, inMemory } from './databases.js';
import { counting } from './fixtures/counting-driver.js';

// PGlite makes a database in seconds, and takes all of a busy machine for it.
const KEY = 'a key of thirty-two bytes or more';
const EACH = 5;

function draft(tenant: string, runId: string): AuditDraft {
  const subject = { actorId: 'ada', runId, toolCallId: 'call_1', step: 1, declaredId: 'bank__pay' };
  return { tenant, subject, event: { kind: 'denied', code: 'forbidden' } };
}

function tooLarge(): never {
  throw new Error('too large');
}

/** Runs of one tenant at once, each of which records some entries, one after the other. */
async function record(trail: AuditTrail, tenant: string, runs: number): Promise<void> {
  const one = async (run: number): Promise<void> => {
    for (let entry = 0; entry < EACH; entry += 1) await trail.record(draft(tenant, `run_${run}`));
  };
  await Promise.all(Array.from({ length: runs }, (_, run) => one(run)));
}

/** The cases of one engine. A driver is that of one process. */
function keepsGroups(connect: () => Promise<DatabaseDriver>): void {
  const asked: string[] = [];
  let database: Database;
  beforeAll(async () => {
    database = new Database(counting(await connect(), [], asked));
    await migrate(database);
  });
  afterAll(() => database.close());

  const trail = (): AuditTrail => new AuditTrail(new SqlStores(database).audit, { key: KEY });
  /** Resolves to the number of entries, which differ from one another, in a chain that is whole. */
  const countWhole = async (tenant: string): Promise<number> => {
    const entries = await new SqlStores(database).audit.read(tenant, { from: 1, limit: 10_000 });
    expect(await verifyAudit(entries, { keys: KEY })).toMatchObject({ valid: true });
    return new Set(entries.map(({ entryId }) => entryId)).size;
  };

  it.each([
    { runs: 1, most: 1 },
    { runs: 10, most: 0.2 },
    { runs: 200, most: 0.016 },
  ])(
    'sends at most $most statements an entry where $runs runs of a tenant record at once',
    async ({ runs, most }) => {
      const tenant = `tenant of ${runs}`;
      const ours = trail();
      // of a tenant that the process does not know the head is asked for, once
      await ours.record(draft(tenant, 'first'));
      asked.length = 0;
      await record(ours, tenant, runs);
      expect(asked.length / (runs * EACH)).toBeLessThanOrEqual(most * 1.1);
      expect(await countWhole(tenant)).toBe(runs * EACH + 1);
    },
  );

  it('makes one chain where others append to it as well', async () => {
    await Promise.all([
      record(trail(), 'shared', 20),
      record(trail(), 'shared', 20),
      record(trail(), 'shared', 1),
    ]);
    expect(await countWhole('shared')).toBe(41 * EACH);
  });

  it('refuses an entry that cannot be made alone, and keeps those beside it', async () => {
    const { audit } = new SqlStores(database);
    const ours = new AuditTrail(audit, { key: KEY });
    const refused = [0, 1, 2].map(() => audit.append('refusing', tooLarge));
    const kept = [ours.record(draft('refusing', 'a')), ours.record(draft('refusing', 'b'))];
    for (const one of [...refused, audit.append('refusing', tooLarge)])
      await expect(one).rejects.toThrow('too large');
    await Promise.all(kept);
    expect(await countWhole('refusing')).toBe(2);
  });

  it('makes an entry of a transaction a part of that alone, and forgets it where that is undone', async () => {
    const ours = trail();
    await ours.record(draft('undone', 'before'));
    const undone = database.transaction(async () => {
      await ours.record(draft('undone', 'within'));
      throw new Error('undone');
    });
    await expect(undone).rejects.toThrow('undone');
    await record(ours, 'undone', 2);
    expect(await countWhole('undone')).toBe(1 + 2 * EACH);
  });

  it('appends behind the last entry that there is, where a server was restored to an earlier one', async () => {
    const ours = trail();
    await record(ours, 'restored', 1);
    await database.query('alter table toolloop.audit disable trigger all');
    await database.query(`delete from toolloop.audit where tenant = 'restored' and sequence > 3`);
    await database.query('alter table toolloop.audit enable trigger all');
    await record(ours, 'restored', 3);
    expect(await countWhole('restored')).toBe(3 + 3 * EACH);
  });
}

describe('the audit of a process on PGlite', () => {
  keepsGroups(async () => PgliteDriver.inMemory((await inMemory()).template));
});

describePostgres('the audit on PostgreSQL', () => {
  let server: Awaited<ReturnType<typeof createServerDatabase>>;
  beforeAll(async () => {
    server = await createServerDatabase();
  });
  afterAll(() => server.drop());
  keepsGroups(() => PostgresDriver.connect(server.url));
});
