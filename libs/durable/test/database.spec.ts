import { beforeEach, describe, expect, it } from '@jest/globals';
import type { Database, SqlValue } from '@toolloop/durable';
import { onEachDatabase } from './each-database.js';

// PGlite makes a database in seconds, and takes all of a busy machine for it.
const put = (database: Database, name: string): Promise<unknown> =>
  database.query('insert into things (name) values ($1)', [name]);

async function names(database: Database): Promise<string[]> {
  const rows = await database.query<{ name: string }>('select name from things order by id');
  return rows.map(({ name }) => name);
}

onEachDatabase('the handle', (open) => {
  let database: Database;
  beforeEach(async () => {
    database = open();
    await database.query(
      'create table if not exists things (id int generated always as identity, name text primary key)',
    );
    await database.query('delete from things');
  });

  it('keeps all of a transaction, however deep in the call its queries are', async () => {
    await database.transaction(async () => {
      await put(database, 'a');
      await Promise.all([put(database, 'b'), put(database, 'c')]);
    });
    expect(await names(database)).toEqual(['a', 'b', 'c']);
  });

  it('keeps nothing of a transaction that rejects', async () => {
    const work = database.transaction(async () => {
      await put(database, 'a');
      throw new Error('changed my mind');
    });
    await expect(work).rejects.toThrow('changed my mind');
    expect(await names(database)).toEqual([]);
  });

  it('undoes a nested transaction alone', async () => {
    await database.transaction(async () => {
      await put(database, 'a');
      const inner = database.transaction(async () => {
        await put(database, 'b');
        await put(database, 'a'); // twice
      });
      await expect(inner).rejects.toThrow(/duplicate key/);
      await database.transaction(() => put(database, 'c'));
    });
    expect(await names(database)).toEqual(['a', 'c']);
  });

  it('takes nothing into a nested transaction that was asked for beside it', async () => {
    await database.transaction(async () => {
      const inner = database.transaction(async () => {
        await put(database, 'inner');
        throw new Error('undone');
      });
      await Promise.all([expect(inner).rejects.toThrow('undone'), put(database, 'beside')]);
    });
    expect(await names(database)).toEqual(['beside']);
  });

  it('does not pretend to commit after a statement that failed and was caught', async () => {
    const work = database.transaction(async () => {
      await put(database, 'a');
      await put(database, 'a').catch(() => undefined);
    });
    await expect(work).rejects.toThrow(/all of it is rolled back/);
    expect(await names(database)).toEqual([]);
  });

  it('waits for what a transaction has begun, and refuses what comes after it', async () => {
    let late: Promise<unknown> | undefined;
    await database.transaction(() => {
      void put(database, 'begun');
      late = new Promise((resolve) => setTimeout(resolve, 20)).then(() => put(database, 'late'));
      late.catch(() => undefined);
      return Promise.resolve();
    });
    await expect(late).rejects.toThrow(/The transaction is over/);
    expect(await names(database)).toEqual(['begun']);
  });

  it('runs what is outside outside, also when it was started inside', async () => {
    let outside: Promise<unknown> | undefined;
    const work = database.transaction(async () => {
      await put(database, 'inside');
      outside = database.outside(() => put(database, 'outside'));
      throw new Error('undone');
    });
    await expect(work).rejects.toThrow('undone');
    await outside;
    expect(await names(database)).toEqual(['outside']);
  });

  it('keeps transactions that come at once apart', async () => {
    const works = Array.from({ length: 20 }, (_, index) =>
      database.transaction(async () => {
        await put(database, `a${index}`);
        await put(database, `b${index}`);
        if (index % 2 === 0) throw new Error('undone');
      }),
    );
    const settled = await Promise.allSettled(works);
    expect(settled.filter(({ status }) => status === 'fulfilled')).toHaveLength(10);
    expect(await names(database)).toHaveLength(20);
  });

  it.each<[string, string, SqlValue, unknown]>([
    ['text', 'text', 'żółć 💶 \u2028', 'żółć 💶 \u2028'],
    ['a bigint', 'bigint', 9_007_199_254_740_993n, 9_007_199_254_740_993n],
    ['a whole number', 'bigint', 42, 42],
    ['a number', 'double precision', 0.1, 0.1],
    [
      'a date',
      'timestamptz',
      new Date('2026-02-28T23:59:59.123Z'),
      new Date('2026-02-28T23:59:59.123Z'),
    ],
    ['a boolean', 'boolean', false, false],
    ['nothing', 'text', null, null],
    ['json with a NUL', 'json', String.raw`{"a":"\u0000\ud800"}`, { a: '\0\ud800' }],
    ['texts', 'text[]', ['a', 'b"\\,{'], ['a', 'b"\\,{']],
  ])('gives back %s as it was', async (_, type, value, expected) => {
    const [row] = await database.query<{ value: unknown }>(`select $1::${type} as value`, [value]);
    expect(row?.value).toEqual(expected);
  });

  it('gives back bytes as they were', async () => {
    const [row] = await database.query<{ value: Uint8Array }>('select $1::bytea as value', [
      new Uint8Array([0, 255, 10]),
    ]);
    expect([...(row?.value ?? [])]).toEqual([0, 255, 10]);
  });

  it('refuses a text with a NUL', async () => {
    await expect(database.query('select $1::text', ['a\0'])).rejects.toThrow(
      /invalid byte sequence/,
    );
  });

  it('hears what is said after its commit, and not what was rolled back', async () => {
    const heard: string[] = [];
    const stop = await database.listen('things_said', (payload) => heard.push(payload));
    const say = (words: string) =>
      database.query(`select pg_notify('things_said', $1)::text`, [words]);
    await database.transaction(() => say('one'));
    await database
      .transaction(() => say('never').then(() => Promise.reject(new Error('undone'))))
      .catch(() => undefined);
    await say('two');
    for (let tries = 0; heard.length < 2 && tries < 100; tries += 1)
      await new Promise((resolve) => setTimeout(resolve, 20));
    await stop();
    expect(heard).toEqual(['one', 'two']);
  });

  it('tells whether a channel may be heard, which other processes may do on a server alone', async () => {
    const before = database.isHeard('things_heard');
    const stop = await database.listen('things_heard', () => undefined);
    const meanwhile = database.isHeard('things_heard');
    await stop();
    const others = database.engine === 'postgres';
    expect([before, meanwhile, database.isHeard('things_heard')]).toEqual([others, true, others]);
  });

  describe('a named statement', () => {
    const ECHO = {
      name: 'echo',
      text: 'select $1::text as text, $2::text[] as list, $3::int + 1 as sum, $4::json as json',
    };
    const PUT = { name: 'put', text: 'insert into things (name) values ($1) returning id' };

    it('gives what the same text gives, each time', async () => {
      const values = ['a"b\\c', ['{', 'x,y', '"', '\\', 'null', ''], 1, '{"a":[1]}'];
      for (const given of [values, [null, [], 2, 'null'], values])
        expect(await database.query(ECHO, given)).toEqual(await database.query(ECHO.text, given));
    });

    it('is part of the transaction it is asked in, and of no other', async () => {
      const work = database.transaction(async () => {
        await database.query(PUT, ['a']);
        const beside = database.outside(() => database.query(PUT, ['b']));
        await new Promise((resolve) => setTimeout(resolve, 20));
        throw new Error('changed my mind', { cause: () => beside });
      });
      const error: unknown = await work.catch((reason: unknown) => reason);
      await (error as { cause: () => Promise<unknown> }).cause();
      expect(await names(database)).toEqual(['b']);
    });

    it('fails as the same text does, and can be asked again', async () => {
      await database.query(PUT, ['a']);
      await expect(database.query(PUT, ['a'])).rejects.toMatchObject({ code: '23505' });
      await database.query(PUT, ['b']);
      await expect(
        database.query({ name: 'wrong', text: 'select nothing from nowhere' }),
      ).rejects.toMatchObject({ code: '42P01' });
      await expect(
        database.query({ name: 'wrong', text: 'select nothing from nowhere' }),
      ).rejects.toMatchObject({ code: '42P01' });
      expect(await names(database)).toEqual(['a', 'b']);
    });

    it('is heard of where it notifies', async () => {
      const heard: string[] = [];
      const end = await database.listen('named', (payload) => heard.push(payload));
      await database.query({ name: 'notify', text: `select pg_notify('named', $1)::text` }, [
        'here',
      ]);
      while (heard.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
      await end();
      expect(heard).toEqual(['here']);
    });
  });
});
