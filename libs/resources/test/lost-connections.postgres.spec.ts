import { setTimeout as wait } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, expect, it } from '@jest/globals';
import { MikroORM } from '@mikro-orm/postgresql';
import { Inject, Injectable, type Type } from '@nestjs/common';
import {
  type JsonObject,
  LlmTool,
  type RunContext,
  type ToolCallContext,
  ToolContext,
} from '@toolloop/core';
import type { DurableOptions } from '@toolloop/durable';
import {
  ResourceGateway,
  ResourcePolicy,
  type ResourceWrite,
  type SqlResourceGateway,
  ToolResource,
} from '@toolloop/resources';
import { MikroOrmGateway } from '@toolloop/resources/mikro-orm';
import { TypeOrmGateway } from '@toolloop/resources/typeorm';
import { createServerDatabase, describePostgres, onServer } from '../../durable/test/databases.js';
import { mikroOrm } from './mikro-orm-storage.js';
import { Customer, CustomerTools, Order, ROLE, seed, Shop, type User } from './shop.js';
import type { Storing } from './shop-storage.js';
import { typeOrm } from './typeorm-storage.js';

/** What happens once, in the middle of a call's transaction. */
let during: (() => Promise<unknown>) | undefined;

async function interrupted(): Promise<void> {
  const work = during;
  during = undefined;
  await work?.();
}

@Injectable()
class InterruptedPolicy extends ResourcePolicy<User, Order> {
  override readonly version = 'interrupted-1';

  override canRead(): boolean {
    return true;
  }

  override async canWrite(_: RunContext<User>, { row }: ResourceWrite<Order>): Promise<boolean> {
    if (row) await interrupted();
    return true;
  }
}

const update = { preflight: 'none' } as const;

/** What both ORMs can do. */
interface Counting {
  count(entity: Type): Promise<number>;
}

@Injectable()
@ToolResource(Order, {
  namespace: 'orders',
  actions: { read: true, create: true, update },
  policy: InterruptedPolicy,
})
class InterruptedTools {
  constructor(@Inject(ResourceGateway) private readonly gateway: SqlResourceGateway<Counting>) {}

  @LlmTool({ description: 'Counts in two steps.', effect: 'read_only', reveal: 'all' })
  recount(@ToolContext() context: ToolCallContext): Promise<unknown> {
    return this.gateway.within(context, async (em) => {
      const before = await em.count(Order);
      await interrupted();
      return [before, await em.count(Order)];
    });
  }
}

/** More than a pool has connections. */
const LOSSES = 12;
const WRITES = 12;

type Server = Awaited<ReturnType<typeof createServerDatabase>>;

describePostgres(
  'invariant 17: resource tools with MikroORM whose connections to the database are ended',
  () => {
    loseNoCall(mikroOrm, (server) => {
      it('give connections back to a pool of the ORM’s own', async () => {
        const orm = await MikroORM.init({
          clientUrl: server().url,
          entities: [Customer, Order],
          pool: { max: 2 },
        });
        const gateway = new MikroOrmGateway(orm, { tenancy: { role: ROLE } });
        const scope = { actor: { id: 'ada', tenant: 'acme' }, tenant: 'acme' };
        for (let loss = 0; loss < LOSSES; loss += 1) {
          during = () => end(server());
          const count = gateway.within(scope, async (em) => {
            await em.count(Order);
            await interrupted();
            return em.count(Order);
          });
          await expect(count).resolves.toBe(3);
        }
        await orm.close();
      });
    });
  },
);

describePostgres(
  'invariant 17: resource tools with TypeORM whose connections to the database are ended',
  () => {
    loseNoCall(typeOrm, (server, shop) => {
      it('ask again once the ORM has given a lost connection back by itself', async () => {
        const gateway = shop().module.get(TypeOrmGateway, { strict: false });
        let attempts = 0;
        const asked = gateway.within(
          { actor: { id: 'ada', tenant: 'acme' }, tenant: 'acme' },
          async (em) => {
            attempts += 1;
            if (attempts === 1) {
              await end(server());
              while (em.queryRunner?.isReleased !== true) await wait(5);
            }
            return em.query<unknown>('select count(*)::int as count from orders');
          },
        );
        await expect(asked).resolves.toEqual([{ count: 3 }]);
        expect(attempts).toBe(2);
      });
    });
  },
);

/** Ends connections to a database: those of open transactions, or all of them. */
function end({ url }: Server, which = `and state = 'idle in transaction'`): Promise<number> {
  const database = new URL(url).pathname.slice(1);
  return onServer(
    `select pg_terminate_backend(pid) from pg_stat_activity where datname = '${database}' and pid <> pg_backend_pid() ${which}`,
  );
}

function loseNoCall(
  storing: (durable: () => Promise<DurableOptions>) => Storing,
  more?: (server: () => Server, shop: () => Shop) => void,
): void {
  let server: Server;
  let shop: Shop;
  beforeAll(async () => {
    server = await createServerDatabase();
    shop = await Shop.start({
      storing: storing(() => Promise.resolve({ url: server.url })),
      resources: [InterruptedTools, CustomerTools],
      providers: [InterruptedPolicy],
    });
  });
  beforeEach(() => seed(shop));
  afterAll(async () => {
    await shop?.close();
    await server?.drop();
  });

  it('make a write once that is cut off in the middle', async () => {
    during = () => end(server);
    expect(await shop.read('orders__update', { id: 1, input: { note: 'x' } })).toMatchObject({
      note: 'x',
      version: 2,
    });
    expect(during).toBeUndefined();
  });

  it('read again what is cut off in the middle, and give each connection back', async () => {
    for (let loss = 0; loss < LOSSES; loss += 1) {
      during = () => end(server);
      expect(await shop.read('orders__recount')).toEqual([3, 3]);
    }
    expect(during).toBeUndefined();
  });

  more?.(
    () => server,
    () => shop,
  );

  it('lose no call and make none twice while connections end all the time', async () => {
    const over = new AbortController();
    const numbers = Array.from({ length: WRITES }, (_, index) => `n-${index}`);
    const answered: string[] = [];
    const calls = async (): Promise<void> => {
      for (const number of numbers) {
        const { record } = await shop.call('orders__create', { input: { number, total: '1' } });
        answered.push(number);
        expect(record).toMatchObject({ status: 'succeeded' });
        const filter: JsonObject = { number: { eq: number } };
        expect(await shop.read('orders__read', { result_type: 'count', filter })).toEqual({
          count: 1,
        });
        answered.push(number);
      }
    };
    const called = calls().finally(() => over.abort());
    let ended = 0;
    while (!over.signal.aborted) {
      // Each call loses its connections a few times and can end then: how much is done between two
      // losses is up to the machine.
      const before = answered.length;
      for (let loss = 0; loss < 3 && !over.signal.aborted; loss += 1) {
        ended += await end(server, '');
        await wait(10 + 20 * Math.random());
      }
      while (answered.length === before && !over.signal.aborted) await wait(5);
    }
    await called;
    expect(ended).toBeGreaterThan(WRITES / 2);
    const rows = await shop.sql<{ number: string }>(
      `select number from orders where number like 'n-%' order by id`,
    );
    expect(rows.map(({ number }) => number)).toEqual(numbers);
  });
}
