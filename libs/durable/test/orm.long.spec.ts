import { spawn } from 'node:child_process';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { LockMode, UniqueConstraintViolationException } from '@mikro-orm/core';
import type { EntityManager } from '@mikro-orm/postgresql';
import { ToolLoopService } from '@toolloop/core';
import { RunService } from '@toolloop/core/runs';
import { type Database, type DurableOptions, JobQueue, SqlStores } from '@toolloop/durable';
import { ScriptedModel, call, calls, text } from '@toolloop/testing';
import { programArguments } from '../../../test/program.js';
import {
  createDatabaseFolder,
  createServerDatabase,
  describePostgres,
  inMemory,
} from './databases.js';
import { Order, OrmDesk, Refund } from './fixtures/orm.desk.js';
import type { OrmProcessOptions } from './fixtures/orm.process.js';

const alice = { actor: { id: 'alice', tenant: 'acme' }, tenant: 'acme' };

// PGlite makes a database in seconds, and processes are started, on machines that may be busy.
interface Place {
  readonly durable: DurableOptions;
  readonly drop?: () => Promise<void>;
}

const undone = (): never => {
  throw new Error('undone');
};

const placePair = async (em: EntityManager, id: string, fails: boolean): Promise<void> => {
  await em.insert(Order, { id });
  expect(
    await em.execute(
      `select substr(id, 1, 3) from orders group by 1 having count(*) = 1 and max(id) <> ?`,
      [id],
    ),
  ).toEqual([]);
  await em.insert(Order, { id: `${id}, too` });
  if (fails) undone();
};

function worksTogether(open: () => Promise<Place>): void {
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

  const ids = async (): Promise<string[]> =>
    (await desk.fork().find(Order, {}, { orderBy: { id: 'asc' } })).map(({ id }) => id);
  const place = (id: string): Promise<void> => {
    const em = desk.fork();
    em.create(Order, { id });
    return em.flush();
  };

  const streamed = async (): Promise<unknown> => {
    const found: string[] = [];
    for await (const { id } of desk.fork().stream(Order)) found.push(id);
    return found;
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

  it('rolls back its own part alone, and all of it with the transaction', async () => {
    await place('a');
    await database.transaction(async () => {
      await place('b');
      await expect(place('a')).rejects.toThrow(UniqueConstraintViolationException);
      await place('c');
    });
    await expect(database.transaction(() => place('d').then(undone))).rejects.toThrow('undone');
    expect(await ids()).toEqual(['a', 'b', 'c']);
  });

  it('has nested transactions, and one begun by hand', async () => {
    await database.transaction(async () => {
      const em = desk.fork();
      await em.begin();
      em.create(Order, { id: 'a' });
      await expect(
        em.transactional((inner) => inner.insert(Order, { id: 'b' }).then(undone)),
      ).rejects.toThrow('undone');
      await em.transactional((inner) => inner.insert(Order, { id: 'c' }));
      await em.commit();
    });
    expect(await ids()).toEqual(['a', 'c']);
  });

  it('locks rows until the end of the transaction', async () => {
    await place('a');
    let isOver = false;
    const locked = new Promise<void>((resolve) => {
      void database.transaction(async () => {
        const em = desk.fork();
        await em.transactional((own) =>
          own.findOneOrFail(Order, 'a', { lockMode: LockMode.PESSIMISTIC_WRITE }),
        );
        resolve();
        await new Promise((done) => setTimeout(done, 50));
        isOver = true;
      });
    });
    await locked;
    await desk
      .fork()
      .transactional((em) =>
        em.findOneOrFail(Order, 'a', { lockMode: LockMode.PESSIMISTIC_WRITE }),
      );
    expect(isOver).toBe(true);
  });

  it('has a role and tenant for row level security, until its own transaction ends', async () => {
    await place('a');
    await database.transaction(async () => {
      const em = desk.fork();
      em.setSessionContext({ role: 'pg_read_all_data', variables: { 'own.tenant': 'acme' } });
      const [standing] = await em.transactional((own) =>
        own.execute(`select current_user, current_setting('own.tenant') as tenant`),
      );
      expect(standing).toEqual({ current_user: 'pg_read_all_data', tenant: 'acme' });
      await expect(em.transactional((own) => own.insert(Order, { id: 'b' }))).rejects.toThrow(
        /permission denied/,
      );
      await place('c');
      await desk.module
        .get(SqlStores)
        .conversations.append({ tenant: 'acme', actorId: 'bob', conversationId: 'c' }, []);
    });
    expect(await ids()).toEqual(['a', 'c']);
  });

  it('streams where it has a connection for it, else says how to do without', async () => {
    await place('a');
    const outside = await streamed().catch(String);
    const none: unknown = expect.stringContaining('Read in pages');
    expect(outside).toEqual(database.engine === 'postgres' ? ['a'] : none);
    await expect(database.transaction(streamed)).rejects.toThrow(/read in pages/);
  });

  it('works beside jobs and stores, and none sees or undoes what is of another', async () => {
    const jobs = desk.module.get(JobQueue);
    const conversations = desk.module.get(SqlStores).conversations;
    const heard = new Set<string>();
    await jobs.ensure('orders');
    const stop = await jobs.work('orders', {
      handle: (id) => Promise.resolve(void heard.add(id)),
      most: 3,
    });
    const works = Array.from({ length: 60 }, async (_, index) => {
      const id = String(index + 100);
      const fails = index % 4 === 0;
      if (index % 3 === 0) {
        await desk.fork().transactional((em) => placePair(em, id, fails));
        return jobs.send('orders', { id });
      }
      await database.transaction(async () => {
        await jobs.send('orders', { id });
        await conversations.append({ tenant: 'acme', actorId: 'alice', conversationId: id }, [
          { role: 'user', content: id },
        ]);
        if (index % 3 === 1) await placePair(desk.fork(), id, fails);
        else await desk.fork().transactional((em) => placePair(em, id, fails));
      });
    });
    const settled = await Promise.allSettled(works);
    const kept = settled.flatMap(({ status }, index) =>
      status === 'fulfilled' ? [String(index + 100)] : [],
    );
    expect(kept).toHaveLength(45);
    expect(await ids()).toEqual(kept.flatMap((id) => [id, `${id}, too`]));
    expect(await database.query('select 1 from toolloop.conversation_parts')).toHaveLength(30);
    while (heard.size < kept.length) await new Promise((resolve) => setTimeout(resolve, 20));
    await stop();
    expect([...heard].toSorted()).toEqual(kept.toSorted());
  });
}

/** A process that is killed in the middle of its tool, and another that goes on. */
function refundsOnce(open: () => Promise<Place>, openHere = open): void {
  it.each(['before', 'after'] as const)(
    'is once where the process dies %s its commit',
    async (moment) => {
      const { durable, drop } = await open();
      const lively = { ...durable, runs: { heartbeatMs: 100, takeoverMs: 500 } };
      const runId = await killed({ durable: lively, moment });
      const model = new ScriptedModel([text('Done.')]);
      const desk = await OrmDesk.start(lively, model);
      try {
        const runs = desk.module.get(RunService);
        while ((await runs.get(runId, alice)).status !== 'ended')
          await new Promise((resolve) => setTimeout(resolve, 20));
        expect(model.requests[0]?.messages.at(-1)).toMatchObject({
          role: 'tool',
          content: 'refunded o-1',
        });
        expect(await desk.fork().count(Refund, { order: 'o-1' })).toBe(1);
        expect(await desk.fork().findOneOrFail(Order, 'o-1')).toMatchObject({
          refunded: true,
          version: 2,
        });
      } finally {
        await desk.close();
        await drop?.();
      }
    },
  );

  it('is not at all where it throws, and once when it is tried again', async () => {
    const { durable, drop } = await openHere();
    let times = 0;
    const model = new ScriptedModel([
      calls(call('desk__refund', { id: 'o-1' })),
      calls(call('desk__refund', { id: 'o-1' })),
      text('Done.'),
    ]);
    const desk = await OrmDesk.start(durable, model, {
      before: () => ((times += 1) === 1 ? undone() : undefined),
    });
    try {
      const em = desk.fork();
      em.create(Order, { id: 'o-1' });
      await em.flush();
      const loop: ToolLoopService = desk.module.get(ToolLoopService);
      const { toolCalls } = await loop.run({ ...alice, prompt: 'Refund it.', durable: true });
      expect(toolCalls.map(({ status }) => status)).toEqual(['failed', 'succeeded']);
      expect(await desk.fork().count(Refund)).toBe(1);
      expect(await desk.fork().findOneOrFail(Order, 'o-1')).toMatchObject({
        refunded: true,
        version: 2,
      });
    } finally {
      await desk.close();
      await drop?.();
    }
  });
}

const PROCESS = programArguments('libs/durable/test/fixtures/orm.process.ts');

/** Kills a process once it is at its moment. Resolves to the run that it was going on with. */
async function killed(options: OrmProcessOptions): Promise<string> {
  const child = spawn(process.execPath, [...PROCESS, JSON.stringify(options)], {
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
  });
  let said = '';
  child.stderr?.on('data', (chunk: Buffer) => (said += chunk.toString()));
  const gone = new Promise<void>((resolve) => child.once('close', () => resolve()));
  const runId = await Promise.race([
    new Promise<string>((resolve) =>
      child.once('message', (message) => resolve(message as string)),
    ),
    gone.then(() => Promise.reject(new Error(`It is gone by itself.\n${said}`))),
  ]);
  child.kill('SIGKILL');
  await gone;
  return runId;
}

const onServer = async (): Promise<Place> => {
  const { url, drop } = await createServerDatabase();
  return { durable: { url }, drop };
};

const onMemory = async (): Promise<Place> => ({ durable: await inMemory() });
const onFolder = async (): Promise<Place> => {
  const { dataDir, drop } = await createDatabaseFolder();
  return { durable: { dataDir }, drop };
};

describe('MikroORM on the one handle, on PGlite', () => {
  worksTogether(onMemory);
});
describePostgres('MikroORM on the one handle, on PostgreSQL', () => {
  worksTogether(onServer);
});
describe('a refund by entities, on PGlite', () => {
  refundsOnce(onFolder, onMemory);
});
describePostgres('a refund by entities, on PostgreSQL', () => {
  refundsOnce(onServer);
});
