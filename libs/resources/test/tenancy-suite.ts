import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import {
  type JsonObject,
  LlmTool,
  type ToolCallContext,
  ToolContext,
  ToolParam,
} from '@toolloop/core';
import { ToolResource } from '@toolloop/resources';
import { Customer, CustomerTools, Order, seed, Shop } from './shop.js';
import { ShopStorage, type Storing } from './shop-storage.js';

/** A role of its own: roles belong to a whole server, and this one is made unsafe. */
const ROLE = 'toolloop_test_unsafe';

const SQL = { description: 'A statement.', type: 'string' } as const;

/** Does what a careless method of an application does. */
@Injectable()
@ToolResource(Order, {
  namespace: 'orders',
  actions: {
    read: true,
    create: true,
    update: { accept: ['note', 'customer'] },
    destroy: { identity: 'orders_number' },
  },
})
export class CarelessTools {
  constructor(private readonly storage: ShopStorage) {}

  @LlmTool({ description: 'Reads by SQL.', effect: 'read_only', reveal: 'all' })
  sql(
    @ToolParam('sql', SQL) sql: string,
    @ToolContext() context: ToolCallContext,
  ): Promise<unknown> {
    return this.storage.sqlWithin(context, sql);
  }

  @LlmTool({ description: 'Writes by SQL.', effect: 'state_change', reveal: 'all' })
  async write(
    @ToolParam('sql', SQL) sql: string,
    @ToolContext() context: ToolCallContext,
  ): Promise<unknown> {
    return (await this.storage.sqlWithin(context, sql)).length;
  }

  @LlmTool({
    description: 'Writes to a row that it did not look up.',
    effect: 'state_change',
    reveal: 'all',
  })
  overwrite(
    @ToolParam('id', { description: 'Its id', type: 'integer' }) id: number,
    @ToolContext() context: ToolCallContext,
  ): Promise<unknown> {
    return this.storage.overwrite(context, id);
  }
}

interface Row {
  readonly id: number;
  readonly tenant: string;
  readonly number: string;
  readonly customer_id: number | null;
  readonly version: number;
}

interface Loaded {
  readonly orders: readonly Pick<Row, 'number'>[];
}

/**
 * What keeps two tenants apart, on any database; with `hasRowSecurity` also where the application
 * itself is careless.
 */
export function keepsTenantsApart(storing: Storing, { hasRowSecurity = true } = {}): void {
  let shop: Shop;
  beforeAll(async () => {
    shop = await Shop.start({
      storing,
      resources: [CarelessTools, CustomerTools],
      gateway: { tenancy: { role: ROLE } },
    });
  });
  beforeEach(() => seed(shop));
  afterAll(() => shop?.close());

  const stored = (): Promise<Row[]> =>
    shop.sql('select id, tenant, number, customer_id, note, version from orders order by id');
  const foreign = async (): Promise<Row> =>
    (await stored()).find(({ tenant, number }) => tenant === 'globex' && number === 'o-1') as Row;
  const succeeded = async (tool: string, args: JsonObject): Promise<boolean> =>
    (await shop.call(tool, args)).record.status === 'succeeded';
  /** Creates an order under a request id that both tenants send. */
  const createdOnce = (tenant: string) =>
    shop.loop.call({
      tool: 'orders__create',
      args: { input: { number: 'o-77', total: '1', note: `of ${tenant}` } },
      argsOrigin: 'actor',
      actor: { id: 'ada', tenant },
      tenant,
      requestId: 'the same',
    });
  /** Makes a call that must change nothing of the other tenant, whatever it answers. */
  const unchanged = async (tool: string, args: JsonObject): Promise<void> => {
    const before = (await stored()).filter(({ tenant }) => tenant === 'globex');
    await shop.call(tool, args);
    expect((await stored()).filter(({ tenant }) => tenant === 'globex')).toEqual(before);
  };

  describe('a call of one tenant', () => {
    it.each<[string, JsonObject]>([
      ['every row', {}],
      ['ids', { filter: { id: { in: [1, 2, 3, 4, 5, 6, 7, 8] } } }],
      ['what is not its own', { filter: { not: { note: { contains: 'acme' } } } }],
      ['or', { filter: { or: [{ pieces: { gt: 50 } }, { pieces: { lte: 50 } }] } }],
      ['relations', { filter: { customer: { name: { contains: 'globex' } } } }],
      ['missing relations', { filter: { not: { customer: { name: { contains: 'nobody' } } } } }],
      ['a key', { get_by: { number: 'o-4' } }],
      ['an id', { get_by: { id: 4 } }],
      ['loads', { load: ['customer'] }],
      ['lists', { result_type: 'aggregate', aggregate: { kind: 'list', field: 'note' } }],
      [
        'greatest values',
        { result_type: 'aggregate', aggregate: { kind: 'max', field: 'pieces' } },
      ],
    ])('reads nothing of another by %s', async (_, args) => {
      const text = await shop.text('orders__read', args);
      expect(text).not.toMatch(/globex|o-4|"total":"1000|99/);
    });

    it('counts and sums its own rows', async () => {
      expect(await shop.read('orders__read', { result_type: 'count' })).toEqual({ count: 3 });
      expect(await shop.read('orders__read', { result_type: 'count' }, 'globex')).toEqual({
        count: 4,
      });
      expect(
        await shop.read('orders__read', { result_type: 'exists', filter: { pieces: { eq: 99 } } }),
      ).toEqual({ exists: false });
      expect(
        await shop.read('orders__read', {
          result_type: 'aggregate',
          aggregate: { kind: 'sum', field: 'total' },
        }),
      ).toEqual({
        value: '35.75',
      });
      expect(
        await shop.read('customers__read', {
          result_type: 'count',
          filter: { orders: { pieces: { eq: 99 } } },
        }),
      ).toEqual({
        count: 0,
      });
    });

    it('continues in its own rows with the cursor of another', async () => {
      const { cursor } = (await shop.read('orders__read', { limit: 1 }, 'globex')) as {
        readonly cursor: string;
      };
      expect(await shop.text('orders__read', { cursor })).not.toContain('globex');
    });

    it.each(['tenant', 'tenantId', 'actorId'])(
      'is refused where it says "%s" at any depth',
      async (name) => {
        const forged: JsonObject[] = [
          { [name]: 'globex' },
          { filter: { [name]: { eq: 'globex' } } },
          { get_by: { [name]: 'globex' } },
        ];
        for (const args of forged)
          expect(await shop.error('orders__read', args)).toMatchObject({ status: '400' });
        expect(
          await succeeded('orders__create', {
            input: { number: 'o-9', total: '1', [name]: 'globex' },
          }),
        ).toBe(false);
      },
    );

    it('names no row of another by an identity, and by no operator in its place', async () => {
      const { id } = await foreign();
      expect(await shop.error('orders__update', { id, input: { note: 'mine' } })).toMatchObject({
        code: 'invalid_args',
        source: { pointer: '/id' },
      });
      await unchanged('orders__update', { id: { $gt: 0 }, input: { note: 'mine' } });
      await unchanged('orders__update', { id: { $ne: null }, input: { note: 'mine' } });
      await unchanged('orders__destroy', { number: 'o-4' });
      await unchanged('orders__destroy', { number: { $like: '%' } });
      expect(await succeeded('orders__destroy', { number: 'o-1' })).toBe(true);
      expect((await stored()).map(({ tenant, number }) => `${tenant} ${number}`)).toEqual(
        expect.arrayContaining(['globex o-1']),
      );
    });

    it('relates no row to one of another, which a foreign key would allow', async () => {
      const { customer_id: customer } = await foreign();
      const pointer = '/input/customer';
      expect(
        await shop.error('orders__create', { input: { number: 'o-9', total: '1', customer } }),
      ).toMatchObject({ source: { pointer } });
      expect(await shop.error('orders__update', { id: 1, input: { customer } })).toMatchObject({
        source: { pointer },
      });
      expect(
        (await stored()).filter(
          ({ tenant, customer_id }) => tenant === 'acme' && customer_id === customer,
        ),
      ).toEqual([]);
    });

    it('follows no relation to a row of another that is there already', async () => {
      const { customer_id: customer } = await foreign();
      await shop.sql('update orders set customer_id = ? where id = 1', [customer]);
      const { rows } = (await shop.read('orders__read', {
        filter: { id: { eq: 1 } },
        load: ['customer'],
      })) as {
        readonly rows: readonly object[];
      };
      expect(rows).toMatchObject([{ customer: null }]);
      expect(
        await shop.read('orders__read', {
          result_type: 'count',
          filter: { id: { eq: 1 }, customer: { id: { gt: 0 } } },
        }),
      ).toEqual({
        count: 0,
      });
      expect(
        await shop.read('orders__read', {
          result_type: 'count',
          filter: { id: { eq: 1 }, not: { customer: { id: { gt: 0 } } } },
        }),
      ).toEqual({ count: 1 });
    });

    it('loads and counts no row of another that refers to one of its own', async () => {
      const { id } = await foreign();
      await shop.sql('update orders set customer_id = 1 where id = ?', [id]);
      const filter = { id: { eq: 1 } };
      const { rows } = (await shop.read('customers__read', { filter, load: ['orders'] })) as {
        readonly rows: readonly Loaded[];
      };
      expect(rows[0]?.orders.map(({ number }) => number).toSorted()).toEqual(['o-1', 'o-2']);
      expect(
        await shop.read('customers__read', {
          result_type: 'count',
          filter: { orders: { id: { eq: id } } },
        }),
      ).toEqual({ count: 0 });
    });

    it('reads of a row of another what it reads of none, whatever version it says', async () => {
      const { id, version } = await foreign();
      const said = [
        { id, version },
        { id, version: version + 7 },
        { id: 999_999, version: 1 },
      ];
      for (const key of said)
        expect(
          await shop.error('orders__update', { ...key, input: { note: 'mine' } }),
        ).toMatchObject({
          code: 'invalid_args',
          detail: 'There is no such Order.',
          source: { pointer: '/id' },
        });
    });

    it('is made for each tenant where both send the same request id, and neither reads what the other was told', async () => {
      for (const tenant of ['acme', 'globex'])
        expect((await createdOnce(tenant)).ui).toMatchObject({ note: `of ${tenant}` });
    });

    it.each(['ACME', 'acme ', 'acm\u00e9', '%', 'a_me', `acme' or '1'='1`])(
      'reads nothing as a tenant whose name is like its own: %j',
      async (name) => {
        expect(await shop.read('orders__read', { result_type: 'count' }, name)).toEqual({
          count: 0,
        });
        const before = await stored();
        expect(
          (await shop.call('orders__update', { id: 1, input: { note: 'mine' } }, name)).record
            .status,
        ).toBe('failed');
        expect((await shop.call('orders__destroy', { number: 'o-1' }, name)).record.status).toBe(
          'failed',
        );
        expect(await stored()).toEqual(before);
      },
    );

    it('invariant 9: sees its own rows however calls of two tenants interleave', async () => {
      const calls = Array.from({ length: 24 }, (_, index) => (index % 2 === 0 ? 'acme' : 'globex'));
      const found = await Promise.all(
        calls.map((tenant) => shop.read('orders__read', { result_type: 'count' }, tenant)),
      );
      expect(found).toEqual(calls.map((tenant) => ({ count: tenant === 'acme' ? 3 : 4 })));
    });

    it('finds an entity again in its own tenant alone', async () => {
      const session = await shop.loop.session({
        actor: { id: 'ada', tenant: 'acme' },
        tenant: 'acme',
      });
      await session.call('customers__read', {});
      expect((await session.call('customer_1_greet')).ui).toBe('Hello Ann of acme, of 2 orders');
      expect((await session.call('customer_3_greet')).record.error?.code).toBe('unknown_tool');
      await shop.sql(`update customers set tenant = 'globex', email = 'x' where id = 1`);
      expect((await session.call('customer_1_greet')).record.error?.code).toBe('tool_gone');
      await session.close();
    });
  });

  if (!hasRowSecurity) return;

  describe('a careless tool of the application', () => {
    it('reads and writes nothing of another by SQL of the application', async () => {
      expect(await shop.read('orders__sql', { sql: 'select distinct tenant from orders' })).toEqual(
        [{ tenant: 'acme' }],
      );
      expect(
        await shop.read('orders__sql', {
          sql: `select count(*)::int as n from customers where tenant <> 'acme'`,
        }),
      ).toEqual([{ n: 0 }]);
      await unchanged('orders__write', { sql: `update orders set note = 'mine'` });
      await unchanged('orders__write', { sql: `delete from orders where tenant = 'globex'` });
      await unchanged('orders__write', { sql: `update orders set tenant = 'globex' where id = 1` });
      await unchanged('orders__write', {
        sql: `insert into orders (tenant, number, total) values ('globex', 'o-9', 1)`,
      });
      await unchanged('orders__write', { sql: 'alter table orders disable row level security' });
      await unchanged('orders__write', { sql: 'drop policy toolloop_tenant on orders' });
    });

    it('writes to no row of another that was not looked up', async () => {
      const { id } = await foreign();
      await unchanged('orders__overwrite', { id });
      expect(await succeeded('orders__overwrite', { id: 1 })).toBe(true);
    });

    it('leaves neither its role nor its tenant on a connection', async () => {
      await shop.call('orders__write', {
        sql: `select set_config('toolloop.tenant', 'globex', false)`,
      });
      await shop.call('orders__write', { sql: 'set role none' });
      await Promise.all(
        ['acme', 'globex', 'acme'].map((tenant) => shop.call('orders__read', {}, tenant)),
      );
      await shop.call('orders__write', { sql: 'broken sql' });
      const [row] = await shop.sql<{ role: string; tenant: string | null }>(
        `select current_setting('role') as role, nullif(current_setting('toolloop.tenant', true), '') as tenant`,
      );
      expect(row).toEqual({ role: 'none', tenant: null });
    });
  });

  const starting = async (before: string): Promise<string> => {
    await shop.sql(before);
    const models = [Order, Customer].flatMap((entity) => shop.gateway.describe(entity) ?? []);
    const found = await shop.gateway.findings(models);
    return found.map(({ at, problem }) => `${at}: ${problem}`).join('\n');
  };

  describe('an application whose database does not keep tenants apart', () => {
    it('is told of a table without forced row level security', async () => {
      expect(await starting('alter table orders no force row level security')).toContain(
        'not enabled and forced',
      );
      expect(await starting('alter table orders force row level security')).toBe('');
    });

    it('is told of a role that is exempt, or owns a table', async () => {
      expect(await starting(`alter role ${ROLE} bypassrls`)).toContain('BYPASSRLS');
      expect(await starting(`alter role ${ROLE} nobypassrls`)).toBe('');
      expect(await starting(`alter role ${ROLE} superuser`)).toContain('superuser');
      expect(
        await starting(
          `alter role ${ROLE} nosuperuser; grant create on schema public to ${ROLE}; alter table orders owner to ${ROLE}`,
        ),
      ).toContain('owns it');
      await shop.sql(
        `alter table orders owner to current_user; revoke create on schema public from ${ROLE}`,
      );
    });

    it('is told of a table without a policy', async () => {
      expect(await starting('drop policy toolloop_tenant on customers')).toContain('no policy');
      for (const statement of shop.gateway.statements([Customer, Order])) await shop.sql(statement);
      expect(await starting('select 1')).toBe('');
    });
  });
}
