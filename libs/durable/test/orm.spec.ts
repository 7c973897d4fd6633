import { afterAll, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import type { Database, DurableOptions } from '@toolloop/durable';
import { ScriptedModel } from '@toolloop/testing';
import { createServerDatabase, describePostgres, inMemory } from './databases.js';
import { Order, OrmDesk, Refund } from './fixtures/orm.desk.js';

jest.setTimeout(60_000);

function suite(open: () => Promise<{ durable: DurableOptions; drop?: () => Promise<void> }>): void {
  let desk: OrmDesk;
  let database: Database;
  let drop: (() => Promise<void>) | undefined;

  beforeAll(async () => {
    const opened = await open();
    drop = opened.drop;
    desk = await OrmDesk.start(opened.durable, new ScriptedModel([]));
    database = desk.database;
  });
  afterAll(async () => {
    await desk.close();
    await drop?.();
  });
  beforeEach(async () => {
    await desk.fork().nativeDelete(Refund, {});
    await desk.fork().nativeDelete(Order, {});
  });

  const ids = async (): Promise<string[]> => (await desk.fork().find(Order, {}, { orderBy: { id: 'asc' } })).map(({ id }) => id);
  const place = (id: string): Promise<void> => {
    const em = desk.fork();
    em.create(Order, { id });
    return em.flush();
  };

  it('works by itself outside of a transaction', async () => {
    await place('a');
    expect(await ids()).toEqual(['a']);
    expect(await database.query('select id from orders')).toEqual([{ id: 'a' }]);
  });

  it('is part of the transaction it works in', async () => {
    await database.transaction(async () => {
      await place('a');
      expect(await database.query('select id from orders')).toEqual([{ id: 'a' }]);
      await desk.fork().transactional(async (em) => {
        em.create(Order, { id: 'b' });
        await em.flush();
        await database.query(`insert into orders (id) values ('c')`);
      });
    });
    expect(await ids()).toEqual(['a', 'b', 'c']);
  });

  it('reads and writes values as it does over a pool of its own', async () => {
    const em = desk.fork();
    const values = {
      placedOn: '2026-02-28',
      changedAt: new Date('2026-03-29T01:30:00.123Z'),
      cents: 9_007_199_254_740_993n,
      notes: { a: [1, "'"] },
    };
    em.create(Order, { id: 'a', ...values });
    await em.flush();
    const other = desk.fork();
    const order = await other.findOneOrFail(Order, 'a');
    expect(order).toMatchObject(values);
    await other.flush();
    expect(order.version).toBe(1); // nothing seems to have changed
  });
}

describe('MikroORM on the one handle, on PGlite', () => {
  suite(async () => ({ durable: await inMemory() }));
});

describePostgres('MikroORM on the one handle, on PostgreSQL', () => {
  suite(async () => {
    const { url, drop } = await createServerDatabase();
    return { durable: { url }, drop };
  });
});
