import { describe, expect, it } from '@jest/globals';
import { asStoreAttempt, BoundedStores } from '@toolloop/core/internal';
import { MemoryDirectiveStore, MemoryRunLog } from '@toolloop/core/stores';
import { type Database, SqlStores } from '@toolloop/durable';
import { StorageUnavailableError } from '@toolloop/protocol';
import { toStorageError } from '../src/database/storage-error.js';
import { onEachDatabase } from './each-database.js';

const READ = { name: 'test_read_things', text: 'select id, name from things order by id' };

/** Has every session of the handle know the statement. */
async function warm(database: Database): Promise<void> {
  await database.query('drop table if exists things');
  await database.query('create table things (id int, name text)');
  await database.query(`insert into things values (1, 'one')`);
  await Promise.all(Array.from({ length: 12 }, () => database.query(READ)));
}

const OUTDATED: readonly (readonly [string, (database: Database) => Promise<unknown>])[] = [
  [
    'the type of a column was changed',
    (database) => database.query('alter table things alter column name type varchar(40)'),
  ],
  ['a column was dropped and added again', (database) => dropAndAdd(database)],
];

async function dropAndAdd(database: Database): Promise<void> {
  await database.query('alter table things drop column name');
  await database.query(`alter table things add column name varchar(9) default 'one'`);
}

onEachDatabase('sessions that know statements', (database) => {
  it.each(OUTDATED)('answer as before once %s, whichever of them is asked', async (_, change) => {
    await warm(database());
    await change(database());
    const answers = await Promise.all(Array.from({ length: 12 }, () => database().query(READ)));
    expect(answers).toEqual(Array.from({ length: 12 }, () => [{ id: 1, name: 'one' }]));
  });

  it('answer as before once they were told to forget all statements', async () => {
    await warm(database());
    await Promise.all(Array.from({ length: 12 }, () => database().query('deallocate all')));
    const answers = await Promise.all(Array.from({ length: 12 }, () => database().query(READ)));
    expect(answers).toHaveLength(12);
  });

  it.each(OUTDATED)(
    'say in a transaction that it may be repeated once %s, and a repetition has the right answer',
    async (_, change) => {
      await warm(database());
      await change(database());
      const made: string[] = [];
      const work = async (): Promise<readonly object[]> => {
        await database().query(`insert into things (id, name) values (2, 'two')`);
        made.push('inserted');
        return database().query(READ);
      };
      const first = await database()
        .transaction(work)
        .catch((error: unknown) => error);
      expect(StorageUnavailableError.in(first)?.mayPass).toBe(true);
      expect(await database().transaction(work)).toHaveLength(2);
      expect([made.length, (await database().query(READ)).length]).toEqual([2, 2]);
    },
  );

  it('let a tool do its work once in a transaction that was repeated as a whole', async () => {
    await warm(database());
    const others = {
      runs: new MemoryRunLog(),
      directives: new MemoryDirectiveStore(),
      tenants: undefined,
    };
    const stores = new BoundedStores(Object.assign(new SqlStores(database()), others));
    const start = {
      tenant: 'acme',
      idempotencyKey: 'k',
      owner: 'o',
      forMs: 60_000,
      runId: 'r',
      declaredId: 'd',
      args: '{}',
    };
    await stores.journal.acquire({ ...start, idempotencyKey: `k${Math.random()}` });
    const key = { ...start, idempotencyKey: `once${Math.random()}` };
    await stores.journal.acquire(key);
    await database().query('alter table things alter column name type varchar(40)');
    const work = async (): Promise<number> => {
      await database().query(`insert into things (id, name) values (2, 'two')`);
      return (await database().query(READ)).length;
    };
    expect(await stores.transactions?.once(key, work, new AbortController().signal)).toBe(2);
    expect(await database().query(READ)).toHaveLength(2);
  });
});

function passes(code: string, isOurs: boolean, message = 'said'): boolean {
  return (
    StorageUnavailableError.in(toStorageError(Object.assign(new Error(message), { code }), isOurs))
      ?.mayPass === true
  );
}

describe('the SQLSTATE of an error', () => {
  it.each([
    '08006',
    '08001',
    '57P01',
    '57P02',
    '57P03',
    '57P05',
    '53000',
    '53100',
    '53200',
    '53300',
    '40001',
    '40P01',
    '26000',
    '42P05',
  ])('%s passes for what a store sent, and for what a tool sent', (code) => {
    expect([passes(code, true), passes(code, false)]).toEqual([true, true]);
  });

  it.each(['57014', '55P03', '25006', '25P02', '25P03', '25P04'])(
    '%s passes for what a store sent, and is the business of a tool',
    (code) => {
      expect([passes(code, true), passes(code, false)]).toEqual([true, false]);
    },
  );

  it.each(['42501', '42P01', '23505', '22P05', '0A000', 'XX000', ''])(
    '%s passes for no one',
    (code) => {
      expect([passes(code, true), passes(code, false)]).toEqual([false, false]);
    },
  );

  it('0A000 passes where it says that a plan is outdated', () => {
    expect(passes('0A000', false, 'cached plan must not change result type')).toBe(true);
  });

  it('is that of a store where one sends the statement', () => {
    const cancelled = Object.assign(new Error('canceling statement due to user request'), {
      code: '57014',
    });
    expect(asStoreAttempt(() => toStorageError(cancelled))).toBeInstanceOf(StorageUnavailableError);
    expect(toStorageError(cancelled)).toBe(cancelled);
  });
});
