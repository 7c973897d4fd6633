import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { MemoryDirectiveStore, MemoryRunLog } from '@toolloop/core/stores';
import { BoundedStores } from '@toolloop/core/internal';
import { Database, SqlStores } from '@toolloop/durable';
import { StorageUnavailableError } from '@toolloop/protocol';
import { migrate } from '../src/database/migrations.js';
import { PgliteDriver } from '../src/database/pglite-driver.js';
import { inMemory } from './databases.js';
import { faulty } from './fixtures/faulty-driver.js';
import { StatementFaults } from './fixtures/statement-faults.js';

const MARK = /update toolloop\.calls set effect/;
const LOOK = /select effect from toolloop\.calls/;
const faults = new StatementFaults();
let database: Database;
let stores: BoundedStores;
let keys = 0;

beforeAll(async () => {
  const { template } = await inMemory();
  database = new Database(faulty(await PgliteDriver.inMemory(template), faults));
  await migrate(database);
  await database.query('create table booked (key text not null)');
  const others = {
    runs: new MemoryRunLog(),
    directives: new MemoryDirectiveStore(),
    tenants: undefined,
  };
  stores = new BoundedStores(Object.assign(new SqlStores(database), others));
});
afterAll(() => database.close());

/** Books in a transaction, and resolves to what that rejects with, and how often it is booked. */
async function book(form: RegExp, code: string, inWork?: string) {
  const idempotencyKey = `k${(keys += 1)}`;
  const key = {
    tenant: 'acme',
    idempotencyKey,
    owner: 'o',
    forMs: 60_000,
    runId: 'r',
    declaredId: 'd',
    args: '{}',
  };
  await stores.journal.acquire(key);
  faults.arm(form, { kind: 'refuse', code });
  const work = async (): Promise<string> => {
    await database.query('insert into booked (key) values ($1)', [idempotencyKey]);
    if (inWork !== undefined) await database.query(inWork);
    return 'It is booked.';
  };
  const error: unknown = await stores.transactions
    ?.once(key, work, new AbortController().signal)
    .then(
      () => undefined,
      (reason: unknown) => reason,
    );
  faults.disarm();
  const rows = await database.query('select key from booked where key = $1', [idempotencyKey]);
  return { error, booked: rows.length };
}

describe('a mark that the database refuses in the transaction of a tool', () => {
  it.each(
    ['42501', '0A000', 'XX000'].flatMap((code) => [
      [code, 'before the work of the tool', LOOK] as const,
      [code, 'behind it', MARK] as const,
    ]),
  )(
    'is a failure of the store, and none of the tool, with %s %s: nothing of it took place',
    async (code, _, form) => {
      const { error, booked } = await book(form, code);
      expect(error).toBeInstanceOf(StorageUnavailableError);
      expect(error).toMatchObject({ mayPass: false });
      expect(booked).toBe(0);
    },
  );

  it('is the tool’s own failure if the database cannot keep what the tool returned', async () => {
    const { error, booked } = await book(MARK, '22P05');
    expect(StorageUnavailableError.in(error)).toBeUndefined();
    expect(error).toMatchObject({ code: '22P05' });
    expect(booked).toBe(0);
  });

  it('is not what a statement of the tool fails with: that stays its own', async () => {
    const { error, booked } = await book(/select 'of the tool'/, '42501', `select 'of the tool'`);
    expect(StorageUnavailableError.in(error)).toBeUndefined();
    expect(error).toMatchObject({ code: '42501' });
    expect(booked).toBe(0);
  });
});
