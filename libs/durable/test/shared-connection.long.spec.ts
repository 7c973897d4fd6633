import { afterAll, beforeAll, beforeEach, expect, it, jest } from '@jest/globals';
import type { Database } from '@toolloop/durable';
import {
  Kysely,
  PostgresDialect,
  sql,
  type ControlledTransaction,
  type Generated,
  type Transaction,
} from 'kysely';
import { Pool, type PoolClient } from 'pg';
import { onEachDatabase } from './each-database.js';

interface Tables {
  readonly things: { readonly id: Generated<number>; readonly name: string };
}

const putOver = (client: Pool | PoolClient, name: string): Promise<unknown> =>
  client.query('insert into things (name) values ($1)', [name]);

const undone = (): never => {
  throw new Error('undone');
};

onEachDatabase('a connection that a library shares', (open) => {
  let database: Database;
  let pool: Pool;
  let kysely: Kysely<Tables>;
  beforeAll(async () => {
    database = open();
    pool = new Pool(database.connection);
    kysely = new Kysely({ dialect: new PostgresDialect({ pool: new Pool(database.connection) }) });
    await database.query(
      'create table things (id int generated always as identity, name text primary key)',
    );
  });
  beforeEach(() => database.query('delete from things'));
  afterAll(async () => {
    await kysely.destroy();
    await pool.end();
  });

  const put = (name: string): Promise<unknown> =>
    database.query('insert into things (name) values ($1)', [name]);
  const putIn = (to: Kysely<Tables> | Transaction<Tables>, name: string): Promise<unknown> =>
    to.insertInto('things').values({ name }).execute();
  const names = async (): Promise<string[]> =>
    (await kysely.selectFrom('things').select('name').orderBy('id').execute()).map(
      ({ name }) => name,
    );
  const connected = async <Result>(
    work: (client: PoolClient) => Promise<Result>,
  ): Promise<Result> => {
    const client = await pool.connect();
    try {
      return await work(client);
    } finally {
      client.release();
    }
  };

  const putsAround = async (): Promise<void> => {
    const own = await kysely.startTransaction().execute();
    await putIn(own, 'a');
    const point = await own.savepoint('one').execute();
    await expect(putIn(point, 'a')).rejects.toThrow(/duplicate key/);
    await point.rollbackToSavepoint('one').execute();
    await putIn(point, 'b');
    await point.releaseSavepoint('one').execute();
    await own.commit().execute();
  };
  const putsTwice = (): Promise<unknown> =>
    kysely.transaction().execute(async (own) => {
      await putIn(own, 'a');
      await putIn(own, 'a').catch(() => undefined);
    });
  const inside = (work: (client: PoolClient) => Promise<unknown>): Promise<unknown> =>
    database.transaction(() => connected(work));
  const leave = (): Promise<void> =>
    connected(async (client) => {
      await client.query('begin');
      await putOver(client, 'a');
    });
  const askAll = async (): Promise<unknown[]> => {
    const { rows, rowCount, command } = await pool.query(
      `select 42::bigint as many, '2026-02-28T12:00:00Z'::timestamptz as "when", 1.50::numeric as price, array[1, 2] as list, null as nothing, '{"a":1}'::jsonb as json where $1`,
      [true],
    );
    const types = { getTypeParser: () => (text: string) => `as ${text}` };
    const own = await pool.query({ text: 'select 42::bigint as many', types });
    const array = await pool.query({ text: 'select 1, 2', rowMode: 'array' });
    const several = await pool.query('select 1 as one; select 2 as two');
    const merged = await pool.query(
      `with made as (insert into things (name) values ('a') returning *) delete from things where false`,
    );
    return [
      rows,
      rowCount,
      command,
      own.rows,
      array.rows,
      (several as unknown as { rows: unknown }[]).map((one) => one.rows),
      merged.command,
    ];
  };

  it('commits and rolls back by itself outside of a transaction', async () => {
    await putIn(kysely, 'a');
    await kysely.transaction().execute((own) => putIn(own, 'b'));
    await expect(
      kysely.transaction().execute((own) => putIn(own, 'c').then(undone)),
    ).rejects.toThrow('undone');
    expect(await database.query('select name from things order by id')).toEqual([
      { name: 'a' },
      { name: 'b' },
    ]);
  });

  it('is part of the transaction it is used in', async () => {
    const work = database.transaction(async () => {
      await putIn(kysely, 'a');
      await kysely.transaction().execute((own) => putIn(own, 'b'));
      await put('c');
      expect(await names()).toEqual(['a', 'b', 'c']);
      undone();
    });
    await expect(work).rejects.toThrow('undone');
    expect(await names()).toEqual([]);
  });

  it('rolls back its own part alone', async () => {
    await database.transaction(async () => {
      await put('a');
      const own = kysely.transaction().execute(async (transaction) => {
        await putIn(transaction, 'b');
        await putIn(transaction, 'a'); // twice
      });
      await expect(own).rejects.toThrow(/duplicate key/);
      await putIn(kysely, 'c');
    });
    expect(await names()).toEqual(['a', 'c']);
  });

  it('has savepoints of its own, in its transaction and in ours', async () => {
    await putsAround();
    expect(await names()).toEqual(['a', 'b']);
    await database.query('delete from things');
    await database.transaction(putsAround);
    expect(await names()).toEqual(['a', 'b']);
  });

  it('does not wait for what is asked of the handle inside of its part', async () => {
    await database.transaction(() =>
      kysely.transaction().execute(async (own) => {
        await putIn(own, 'a');
        await put('b');
        await database.transaction(() => putIn(own, 'c').then(() => put('d')));
        await kysely.transaction().execute((other) => putIn(other, 'e'));
      }),
    );
    expect(await names()).toEqual(['a', 'b', 'c', 'd', 'e']);
  });

  it('lets parts that overlap end in any order', async () => {
    await database.transaction(async () => {
      const [one, two] = [
        await kysely.startTransaction().execute(),
        await kysely.startTransaction().execute(),
      ];
      await putIn(one, 'a');
      await putIn(two, 'b');
      await one.commit().execute();
      await putIn(two, 'c');
      await two.commit().execute();
      const works = Array.from({ length: 10 }, (_, index) =>
        kysely.transaction().execute((own) => putIn(own, `x${index}`)),
      );
      await Promise.all(works);
    });
    expect(await names()).toHaveLength(13);
  });

  it('keeps nothing where a part is rolled back with what others were told is done', async () => {
    const work = database.transaction(async () => {
      const own = kysely.transaction().execute(async (transaction) => {
        await putIn(transaction, 'a');
        await put('b');
        undone();
      });
      await expect(own).rejects.toThrow('undone');
    });
    await expect(work).rejects.toThrow(/what others did meanwhile, so everything is rolled back/);
    expect(await names()).toEqual([]);
  });

  it('keeps nothing where a part is still open at the end', async () => {
    let left: ControlledTransaction<Tables> | undefined;
    const work = database.transaction(async () => {
      const own = await kysely.startTransaction().execute();
      await putIn(own, 'a');
      left = own;
    });
    await expect(work).rejects.toThrow(/still open at its end/);
    await expect(left?.commit().execute()).rejects.toThrow(/The transaction is over/);
    await left?.rollback().execute(); // which gives its connection back
    expect(await names()).toEqual([]);
  });

  it('does not pretend to commit its part after a statement that failed and was caught', async () => {
    await database.transaction(() =>
      expect(putsTwice()).rejects.toThrow(/only be rolled back|all of it is rolled back/),
    );
    expect(await names()).toEqual([]);
  });

  it('ends the role and the settings of its part with it', async () => {
    const standing = `select current_user as "user", current_setting('own.tenant', true) as tenant, coalesce(current_setting('own.actor', true), '') as actor`;
    await database.transaction(async () => {
      await database.query(`select set_config('own.tenant', 'outer', true)`);
      const before = await database.query(standing);
      await kysely.transaction().execute(async (own) => {
        await sql`select set_config('own.tenant', ${'acme'}, true), set_config(${'own.actor'}, 'alice', true)`.execute(
          own,
        );
        await sql`set local role "pg_read_all_data"`.execute(own);
        expect(await database.query(standing)).toEqual([
          { user: 'pg_read_all_data', tenant: 'acme', actor: 'alice' },
        ]);
      });
      expect(await database.query(standing)).toEqual(before);
    });
  });

  it('does nothing in the role or tenant of another part', async () => {
    const work = database.transaction(async () => {
      const [one, two] = [
        await kysely.startTransaction().execute(),
        await kysely.startTransaction().execute(),
      ];
      await sql`select set_config('own.tenant', 'acme', true)`.execute(one);
      await sql`select set_config('own.tenant', 'globex', true)`.execute(two);
      await expect(putIn(one, 'a')).rejects.toThrow(/its own role or tenant/);
      await expect(one.commit().execute()).rejects.toThrow(/its own role or tenant/);
      await two.commit().execute();
      await one.commit().execute();
    });
    await work;
    expect(await names()).toEqual([]);
  });

  it.each(['set role pg_read_all_data', `select set_config('own.tenant', 'acme', false)`])(
    'leaves no other caller with: %s',
    async (text) => {
      const ask = (): Promise<unknown> => connected((client) => client.query(text));
      const standing = `select current_user as "user", coalesce(current_setting('own.tenant', true), '') as tenant`;
      const before = await database.query(standing);
      await expect(database.transaction(ask)).rejects.toThrow(/Set them for a transaction/);
      const said = await ask().then(
        () => 'It is done.',
        (error: unknown) => String(error),
      );
      // which has a connection to throw away
      expect(said).toMatch(
        database.engine === 'postgres' ? 'It is done.' : /Set them for a transaction/,
      );
      const after = await Promise.all(Array.from({ length: 10 }, () => database.query(standing)));
      expect(after).toEqual(after.map(() => before));
    },
  );

  it('refuses to be used in a transaction that it did not begin in', async () => {
    const own = await kysely.startTransaction().execute();
    await putIn(own, 'a');
    const used = connected((client) => database.transaction(() => putOver(client, 'b')));
    await own.commit().execute();
    await expect(used).rejects.toThrow(/Begin it inside/);
    const other = await database.transaction(() => pool.connect());
    await expect(database.transaction(() => putOver(other, 'c'))).rejects.toThrow(
      /began inside of another transaction/,
    );
    await expect(putOver(other, 'd')).rejects.toThrow(/The transaction is over/);
    other.release();
    expect(await names()).toEqual(['a']);
  });

  it('refuses inside of a transaction what comes too late or cannot be followed', async () => {
    await expect(
      inside((client) => client.query('begin isolation level serializable')),
    ).rejects.toThrow(/too late/);
    await expect(inside((client) => client.query('commit; begin'))).rejects.toThrow(/one by one/);
    await expect(
      inside((client) => Promise.resolve(client.query({ submit: () => undefined }))),
    ).rejects.toThrow(/read in pages/);
  });

  it('refuses to end its part in a transaction nested in the one it began in', async () => {
    await database.transaction(() =>
      connected(async (client) => {
        await client.query('begin');
        await putOver(client, 'a');
        await expect(database.transaction(() => client.query('commit'))).rejects.toThrow(
          /begins and ends in the same/,
        );
        await database.transaction(() => client.query(`set local role pg_read_all_data`));
        await expect(database.transaction(() => putOver(client, 'b'))).rejects.toThrow(
          /permission denied/,
        );
        await client.query('commit');
        await put('c');
      }),
    );
    expect(await names()).toEqual(['a', 'c']);
  });

  it('has the modes of a transaction outside of one', async () => {
    const level = await kysely
      .transaction()
      .setIsolationLevel('serializable')
      .execute((own) =>
        sql<{ level: string }>`select current_setting('transaction_isolation') as level`.execute(
          own,
        ),
      );
    expect(level.rows).toEqual([{ level: 'serializable' }]);
    const writing = kysely
      .transaction()
      .setAccessMode('read only')
      .execute((own) => putIn(own, 'a'));
    await expect(writing).rejects.toThrow(/read-only/);
  });

  it('rolls back what is given back in the middle of a transaction', async () => {
    await leave();
    expect(await names()).toEqual([]);
    await database.transaction(async () => {
      await put('b');
      await leave();
      await put('c');
    });
    expect(await names()).toEqual(['b', 'c']);
  });

  it('loses the transaction in which it makes itself wait, and says why', async () => {
    if (database.engine === 'postgres') return; // where the two have connections of their own
    jest.useFakeTimers({
      doNotFake: ['nextTick', 'setImmediate', 'queueMicrotask', 'performance', 'hrtime'],
    });
    try {
      const work = kysely.transaction().execute(async (own) => {
        await putIn(own, 'a');
        await put('b'); // has to wait for the session that `own` has
      });
      const said = work.catch(String);
      while (jest.getTimerCount() === 0) await new Promise((resolve) => setImmediate(resolve));
      for (let tries = 0; tries < 50; tries += 1)
        await new Promise((resolve) => setImmediate(resolve));
      await jest.advanceTimersByTimeAsync(15_000);
      expect(await said).toMatch(/stood still for 15 seconds.*begin with database\.transaction/);
    } finally {
      jest.useRealTimers();
    }
    expect(await names()).toEqual(['b']);
  });

  it('answers as pg does, inside and outside', async () => {
    const when = new Date('2026-02-28T12:00:00Z');
    const expected = [
      [{ many: '42', when, price: '1.50', list: [1, 2], nothing: null, json: { a: 1 } }],
      1,
      'SELECT',
      [{ many: 'as 42' }],
      [[1, 2]],
      [[{ one: 1 }], [{ two: 2 }]],
      'DELETE',
    ];
    expect(await askAll()).toEqual(expected);
    await database.query('delete from things');
    expect(await database.transaction(askAll)).toEqual(expected);
    const called = await new Promise((resolve) =>
      pool.query('select $1::int as one', [1], (_, { rows }) => resolve(rows)),
    );
    expect(called).toEqual([{ one: 1 }]);
  });

  it('sees errors as pg throws them, and continues', async () => {
    await expect(pool.query('select nothing')).rejects.toMatchObject({ code: '42703' });
    await expect(pool.query('select 1/$1::int', [0])).rejects.toMatchObject({ code: '22012' });
    await expect(
      new Promise((_, reject) => pool.query('select nothing', reject)),
    ).rejects.toMatchObject({ code: '42703' });
    expect((await pool.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
  });

  it('never makes those wait for each other who use it inside and outside at once', async () => {
    const works = Array.from({ length: 30 }, (_, index) => {
      const fails = index % 5 === 0;
      const twice = async (to: Kysely<Tables> | Transaction<Tables>): Promise<void> => {
        await putIn(to, `a${index}`);
        await putIn(to, `b${index}`);
        if (fails) undone();
      };
      if (index % 3 === 0) return kysely.transaction().execute(twice);
      if (index % 3 === 1) return database.transaction(() => twice(kysely));
      return database.transaction(() => kysely.transaction().execute(twice));
    });
    const settled = await Promise.allSettled(works);
    expect(settled.filter(({ status }) => status === 'fulfilled')).toHaveLength(24);
    expect(await names()).toHaveLength(48);
  });
});
