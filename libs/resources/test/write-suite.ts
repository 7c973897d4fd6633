import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { type JsonObject, PendingService, type RunContext } from '@toolloop/core';
import type { ToolWord } from '@toolloop/core/contracts';
import { RunService } from '@toolloop/core/runs';
import {
  ResourcePolicy,
  ResourceToolsModule,
  type ResourceWrite,
  ToolResource,
} from '@toolloop/resources';
import { call, calls, ScriptedModel, text } from '@toolloop/testing';
import { Customer, CustomerTools, Order, OrderTools, seed, Shop, type User } from './shop.js';
import type { Storing } from './shop-storage.js';

const FORBIDDEN_TOTAL = '666';

/**
 * Ada may read what is not cancelled, and writes to what is new; Eve may do nothing; Guy sees and
 * writes notes alone.
 */
@Injectable()
export class OrderPolicy extends ResourcePolicy<User, Order> {
  override readonly version = 'orders-7';

  override canRead({ actor }: RunContext<User>): ToolWord {
    return actor.id !== 'eve' || { rule: 'orders: no eve', reason: 'Eve is no clerk.' };
  }

  override canWrite({ actor }: RunContext<User>, { row, values }: ResourceWrite<Order>): ToolWord {
    if (actor.id === 'eve') return false;
    if (values?.['total'] === FORBIDDEN_TOTAL)
      return { rule: 'orders: totals', reason: 'No such totals.' };
    return (
      !row ||
      String(row.status) === 'new' || {
        rule: 'orders: new ones',
        reason: 'The order is not new any more.',
      }
    );
  }

  override rows({ actor }: RunContext<User>): JsonObject | undefined {
    return actor.id === 'guy' ? undefined : { status: { ne: 'cancelled' } };
  }

  override fields({ actor }: RunContext<User>): {
    read?: readonly string[];
    write?: readonly string[];
  } {
    return actor.id === 'guy' ? { read: ['id', 'number', 'note'], write: ['note'] } : {};
  }
}

@ToolResource(Order, {
  namespace: 'guarded',
  actions: ['read', 'create', 'update', 'destroy'],
  policy: OrderPolicy,
})
class GuardedTools {}

@ToolResource(Customer, { namespace: 'people', actions: ['read'] })
class PeopleTools {}

@ToolResource(Order, {
  namespace: 'bulk',
  actions: {
    create: {
      accept: ['number', 'total'],
      arguments: { vat: { type: 'integer', minimum: 0, maximum: 100 } },
      change: (values, { vat }) => ({
        ...values,
        total: String(Number(values['total']) * (1 + Number(vat ?? 0) / 100)),
        carrier: 'post',
      }),
      bulk: 3,
    },
    update: { identity: false, bulk: 2, accept: ['note'] },
    destroy: { identity: false },
  },
})
class BulkTools {}

@ToolResource(Order, {
  namespace: 'later',
  actions: {
    update: {
      identity: 'orders_number',
      accept: ['note'],
      locks: true,
      directive: { type: 'order.note', subject: '{number}', preview: 'required' },
    },
  },
})
class LaterTools {}

interface Stored {
  readonly number: string;
  readonly note: string | null;
  readonly [name: string]: unknown;
}

/** Stands for a case that a database cannot have: its writes do not join Toolloop's own. */
const noCase = (_title: string, _body: () => void): void => undefined;

/** What writes do, on any database. */
export function writesRows(storing: Storing, { joinsCalls = true } = {}): void {
  let shop: Shop;
  let guarded: Shop;
  beforeAll(async () => {
    shop = await Shop.start({
      storing,
      resources: [OrderTools, CustomerTools, BulkTools, LaterTools],
    });
    guarded = await Shop.start({
      storing,
      resources: [GuardedTools, PeopleTools],
      providers: [OrderPolicy],
    });
  });
  beforeEach(async () => {
    await seed(shop);
    await seed(guarded);
  });
  afterAll(async () => {
    await shop?.close();
    await guarded?.close();
  });
  const stored = (where = 'true', of = shop): Promise<Stored[]> =>
    of.sql(`select * from orders where tenant = 'acme' and ${where} order by id`);

  const recordOf = async (tool: string, args: JsonObject, actorId: string) =>
    (await guarded.call(tool, args, 'acme', actorId)).record;
  const asGuy = (args: JsonObject, tool = 'guarded__read') => guarded.text(tool, args, 'guy');

  describe('a create', () => {
    it('writes the accepted fields in the tenant of the run, and returns the row with what the database set', async () => {
      const row = await shop.read('orders__create', {
        input: { number: 'o-9', total: '7.50', customer: 1, shippedAt: '2026-04-01T10:00:00Z' },
      });
      expect(row).toMatchObject({
        number: 'o-9',
        total: '7.50',
        status: 'new',
        version: 1,
        currency: 'EUR',
        shippedAt: '2026-04-01T10:00:00.000Z',
      });
      expect(await stored(`number = 'o-9'`)).toMatchObject([{ tenant: 'acme', customer_id: 1 }]);
    });

    it.each<[string, JsonObject, string]>([
      ['a value that is taken', { number: 'o-1', total: '1' }, '/input/number'],
      [
        'a related row that is not there',
        { number: 'o-9', total: '1', customer: 999 },
        '/input/customer',
      ],
      [
        'a value of another kind',
        { number: 'o-9', total: '1', reference: 'no uuid' },
        '/input/reference',
      ],
      [
        'a hidden field',
        { number: 'o-9', total: '1', internalStatus: 'x' },
        '/input/internalStatus',
      ],
      ['a missing value', { total: '1' }, '/input'],
    ])('refuses %s at its place, and says nothing of the database', async (_, input, pointer) => {
      const error = await shop.error('orders__create', { input });
      expect(error).toMatchObject({
        status: '400',
        code: 'invalid_args',
        source: { pointer: expect.stringContaining(pointer) },
      });
      expect(error.detail).not.toMatch(/constraint|duplicate|violat|orders_|column/i);
      expect(await stored()).toHaveLength(3);
    });

    it('takes several inputs where it says so, of which all are written or none', async () => {
      expect(
        await shop.read('bulk__create', {
          inputs: [
            { number: 'b-1', total: '10', vat: 10 },
            { number: 'b-2', total: '1' },
          ],
        }),
      ).toMatchObject({
        count: 2,
        rows: [
          { number: 'b-1', total: expect.stringMatching(/^11(\.00)?$/), carrier: 'post' },
          { number: 'b-2' },
        ],
      });
      expect(
        await shop.error('bulk__create', {
          inputs: [
            { number: 'b-3', total: '1' },
            { number: 'o-1', total: '1' },
          ],
        }),
      ).toMatchObject({ status: '400' });
      expect(await stored(`number like 'b-%'`)).toHaveLength(2);
      const four = ['c-1', 'c-2', 'c-3', 'c-4'].map((number) => ({ number, total: '1' }));
      expect(await shop.error('bulk__create', { inputs: four })).toMatchObject({
        source: { pointer: '/inputs' },
      });
    });
  });

  describe('an update', () => {
    it('changes the row that its key names, and counts its versions', async () => {
      expect(
        await shop.read('orders__update', { id: 1, input: { note: 'x', customer: 2 }, version: 1 }),
      ).toMatchObject({
        id: 1,
        note: 'x',
        version: 2,
      });
      expect(await stored('id = 1')).toMatchObject([{ note: 'x', customer_id: 2, number: 'o-1' }]);
    });

    it.each<[string, string, JsonObject, string]>([
      [
        'an operator in the place of a key',
        'orders__update',
        { id: { $gt: 0 }, input: { note: 'x' } },
        '/id',
      ],
      ['a key of another kind', 'orders__destroy', { id: '1 or 1=1' }, '/id'],
      ['no key', 'orders__destroy', {}, '/id'],
      [
        'an operator in the place of a value',
        'orders__update',
        { id: 1, input: { note: { $ne: null } } },
        '/input/note',
      ],
      [
        'an operator in the place of a related key',
        'orders__update',
        { id: 1, input: { customer: { id: 3 } } },
        '/input/customer',
      ],
      [
        'a value that is none of the listed ones',
        'orders__update',
        { id: 1, input: { status: 'lost' } },
        '/input/status',
      ],
      [
        'a text that is too long',
        'orders__update',
        { id: 1, input: { country: 'Germany' } },
        '/input/country',
      ],
      [
        'a decimal that is no number',
        'orders__update',
        { id: 1, input: { total: '12,50' } },
        '/input/total',
      ],
      [
        'a day that does not exist',
        'orders__update',
        { id: 1, input: { placedOn: '2026-02-30' } },
        '/input/placedOn',
      ],
      [
        'the tenant',
        'orders__update',
        { id: 1, input: { tenantName: 'globex' } },
        '/input/tenantName',
      ],
      [
        'a value that cannot be removed',
        'orders__update',
        { id: 1, input: {}, clear: ['number'] },
        '/clear/0',
      ],
      [
        'a version of another kind',
        'orders__update',
        { id: 1, input: { note: 'x' }, version: 'newest' },
        '/version',
      ],
      [
        'a value that is taken',
        'orders__update',
        { id: 1, input: { number: 'o-2' } },
        '/input/number',
      ],
      [
        'a filter of a hidden field',
        'bulk__destroy',
        { filter: { margin: { eq: '1' } } },
        '/filter/margin',
      ],
      [
        'a filter by an operator of the ORM',
        'bulk__update',
        { filter: { number: { $ne: 'x' } }, input: { note: 'x' } },
        '/filter/number/$ne',
      ],
      [
        'one of several inputs',
        'bulk__create',
        {
          inputs: [
            { number: 'b-1', total: '1' },
            { number: 'b-2', total: 'x' },
          ],
        },
        '/inputs/1/total',
      ],
    ])('points to what is wrong in the place of writing: %s', async (_, tool, args, pointer) => {
      const before = await stored();
      expect(await shop.error(tool, args)).toMatchObject({
        status: '400',
        code: 'invalid_args',
        source: { pointer },
      });
      expect(await stored()).toEqual(before);
    });

    it('removes values by their names', async () => {
      await shop.read('orders__update', { id: 1, input: {}, clear: ['rating', 'customer'] });
      expect(await stored('id = 1')).toMatchObject([{ rating: null, customer_id: null }]);
    });

    it('is refused for a version that has changed, for no change, and for a row that is not there', async () => {
      expect(
        await shop.error('orders__update', { id: 1, input: { note: 'x' }, version: 7 }),
      ).toMatchObject({
        source: { pointer: '/version' },
      });
      expect(await shop.error('orders__update', { id: 1, input: {} })).toMatchObject({
        source: { pointer: '/input' },
      });
      expect(await shop.error('orders__update', { id: 999, input: { note: 'x' } })).toMatchObject({
        source: { pointer: '/id' },
      });
    });

    it('changes the rows of a filter where there is no identity, as many as it says and not one more', async () => {
      expect(
        await shop.read('bulk__update', {
          filter: { total: { lt: 15 } },
          input: { note: 'cheap' },
        }),
      ).toMatchObject({ count: 2 });
      expect(
        await shop.error('bulk__update', { filter: { total: { lt: 50 } }, input: { note: 'all' } }),
      ).toMatchObject({
        source: { pointer: '/filter' },
      });
      expect(
        await shop.error('bulk__update', { filter: {}, input: { note: 'all' } }),
      ).toMatchObject({ source: { pointer: '/filter' } });
      expect((await stored()).map(({ note }) => note)).toEqual([
        'cheap',
        'secret of acme',
        'cheap',
      ]);
    });
  });

  describe('a destroy', () => {
    it('deletes the row that its key names, and returns it', async () => {
      expect(await shop.read('orders__destroy', { id: 3 })).toMatchObject({ number: 'o-3' });
      expect((await stored()).map(({ number }) => number)).toEqual(['o-1', 'o-2']);
    });

    it('deletes one row of a filter unless it says that it is for many', async () => {
      expect(await shop.error('bulk__destroy', { filter: { total: { gt: 0 } } })).toMatchObject({
        source: { pointer: '/filter' },
      });
      expect(await shop.read('bulk__destroy', { filter: { number: { eq: 'o-2' } } })).toMatchObject(
        { count: 1 },
      );
    });
  });

  describe('a write', () => {
    it('invariant 13: is made once for a request that is sent twice', async () => {
      const request = {
        tool: 'orders__create',
        args: { input: { number: 'o-9', total: '1' } },
        requestId: 'once',
        argsOrigin: 'actor',
      } as const;
      const actor = { id: 'ada', tenant: 'acme' };
      const create = shop.loop.call.bind(shop.loop, { ...request, actor, tenant: 'acme' });
      const [first, second] = [await create(), await create()];
      expect([first.record.status, second.record.status]).toEqual(['succeeded', 'succeeded']);
      expect(second.ui).toEqual(first.ui);
      expect(await stored(`number = 'o-9'`)).toHaveLength(1);
    });

    const joined = joinsCalls ? it : noCase;
    joined('is committed together with the mark of its call', async () => {
      const marks = (number: string) =>
        shop.sql(`select 1 from toolloop.calls where effect::text like ?`, [
          `%"number":"${number}"%`,
        ]);
      await shop.read('orders__create', { input: { number: 'o-marked', total: '1' } });
      expect(await marks('o-marked')).toHaveLength(1);
      await shop.error('bulk__create', {
        inputs: [
          { number: 'o-undone', total: '1' },
          { number: 'o-1', total: '1' },
        ],
      });
      expect(await marks('o-undone')).toHaveLength(0);
    });

    it('shows a person the values before and after, and waits', async () => {
      const policy = {
        allow: ['*'],
        requireApproval: [{ tools: ['orders__*'], reason: 'Look at it.' }],
      };
      const actor = { id: 'ada', tenant: 'acme' };
      const { waiting, runId } = await shop.loop.call({
        tool: 'orders__update',
        args: { id: 1, input: { note: 'seen' } },
        argsOrigin: 'actor',
        actor,
        tenant: 'acme',
        policy,
      });
      expect(waiting).toBeDefined();
      const who = { actor, tenant: 'acme' };
      expect(JSON.stringify(await shop.module.get(PendingService).list(who))).toContain(
        'Changes Order 1.',
      );
      expect(await stored('id = 1')).toMatchObject([{ note: null }]);
      await shop.module.get(RunService).cancel(runId, who);
    });

    it('is asked for as a directive where it says so, and not made yet', async () => {
      const asked = await shop.read('later__update', {
        number: 'o-1',
        version: 1,
        input: { note: 'later' },
      });
      expect(asked).toMatchObject({
        ok: true,
        type: 'order.note.requested',
        result: { status: 'pending', subject: 'o-1' },
      });
      expect(
        await shop.error('later__update', { number: 'o-1', version: 9, input: { note: 'later' } }),
      ).toMatchObject({
        source: { pointer: '/version' },
      });
      expect(
        await shop.error('later__update', { number: 'o-1', input: { note: 'later' } }),
      ).toMatchObject({ code: 'invalid_args' });
    });
  });

  (joinsCalls ? describe : noCase)('a rehearsal', () => {
    const ada = { actor: { id: 'ada', tenant: 'acme' }, tenant: 'acme' };
    const WRITES = [
      calls(
        call('orders__update', { id: 1, input: { note: 'rehearsed' }, version: 1 }),
        call('orders__create', { input: { number: 'o-9', total: '7.50', customer: 1 } }),
        call('orders__destroy', { id: 3 }),
      ),
      calls(call('orders__read', { sort: [{ field: 'number' }] })),
      text('Done.'),
    ];

    async function rehearsed() {
      const desk = await Shop.start({ storing, options: { model: new ScriptedModel(WRITES) } });
      await seed(desk);
      const dump = async (): Promise<unknown> => [
        await desk.sql('select * from orders order by tenant, id'),
        await desk.sql('select * from customers order by tenant, id'),
      ];
      const before = await dump();
      const result = await desk.loop.run({ prompt: 'Go on.', ...ada, rehearse: true });
      const approved = async () => {
        const rehearsalId = (
          await desk.module.get(PendingService).inbox(ada, { kind: 'rehearsal' })
        )[0]?.id;
        await desk.module
          .get(RunService)
          .answer(result.runId, { rehearsalId, decision: 'approve' }, ada);
        return (await desk.loop.resume(result.runId, ada)).result;
      };
      return { desk, dump, before, result, approved };
    }

    it('lists the rows before and after, which later reads see, changes none, and performs it when approved', async () => {
      const { desk, dump, before, result, approved } = await rehearsed();
      expect(result).toMatchObject({ finishReason: 'waiting', waitingFor: 'rehearsal' });
      expect(result.toolCalls.map(({ status }) => status)).toEqual([
        'succeeded',
        'succeeded',
        'succeeded',
        'succeeded',
      ]);
      expect(result.toolCalls[3]?.result).toMatchObject({
        rows: [
          { number: 'o-1', note: 'rehearsed' },
          { number: 'o-2' },
          { number: 'o-9', total: '7.50' },
        ],
      });
      expect(result.rehearsal?.calls).toMatchObject([
        {
          as: 'rehearsed',
          preview: {
            sentence: 'Changes Order 1.',
            changes: [{ field: 'note', before: null, after: 'rehearsed' }],
          },
          result: { note: 'rehearsed', version: 2 },
        },
        {
          as: 'rehearsed',
          preview: { changes: expect.arrayContaining([{ field: 'number', after: 'o-9' }]) },
        },
        {
          as: 'rehearsed',
          preview: {
            sentence: 'Deletes Order 3.',
            changes: expect.arrayContaining([{ field: 'number', before: 'o-3' }]),
          },
        },
      ]);
      expect(await dump()).toEqual(before);
      expect(await approved()).toMatchObject({ rehearsal: { status: 'performed' } });
      const numbers = (tenant: string) =>
        desk.sql(
          `select number, note, version from orders where tenant = '${tenant}' order by number`,
        );
      expect(await numbers('acme')).toMatchObject([
        { number: 'o-1', note: 'rehearsed', version: 2 },
        { number: 'o-2' },
        { number: 'o-9' },
      ]);
      expect(await numbers('globex')).toHaveLength(4);
      await desk.close();
    });

    it('performs nothing where a row has changed since, and says which field', async () => {
      const { desk, dump, approved } = await rehearsed();
      await desk.sql(
        `update orders set rating = 1, version = version + 1 where tenant = 'acme' and number = 'o-3'`,
      );
      const before = await dump();
      expect(await approved()).toMatchObject({
        rehearsal: {
          status: 'changed',
          change: { declaredId: 'orders__destroy', field: '/Order 3/rating' },
        },
      });
      expect(await dump()).toEqual(before);
      await desk.close();
    });
  });

  describe('a policy of a resource', () => {
    it('refuses with its rule and its version in the record, at listing and at the call alike', async () => {
      const record = await recordOf('guarded__read', {}, 'eve');
      expect(record).toMatchObject({
        status: 'denied',
        error: { code: 'policy_denied' },
        decision: { kind: 'deny', rule: 'orders: no eve', policyVersion: 'orders-7' },
      });
      expect(await recordOf('guarded__destroy', { id: 2 }, 'eve')).toMatchObject({
        decision: { rule: 'OrderPolicy.canWrite', policyVersion: 'orders-7' },
      });
    });

    it('decides about the row and the input before anything is done', async () => {
      expect(
        await recordOf('guarded__update', { id: 1, input: { note: 'x' } }, 'ada'),
      ).toMatchObject({
        status: 'denied',
        decision: { rule: 'orders: new ones' },
      });
      expect(
        await recordOf('guarded__update', { id: 2, input: { note: 'x' } }, 'ada'),
      ).toMatchObject({ status: 'succeeded' });
      expect(
        await recordOf('guarded__create', { input: { number: 'o-9', total: '666' } }, 'ada'),
      ).toMatchObject({
        status: 'denied',
        decision: { rule: 'orders: totals' },
      });
      expect(await stored('note is not null', guarded)).toMatchObject([
        { number: 'o-2', note: 'x' },
      ]);
    });

    it('keeps rows from an actor: in reads, counts, keys, loads and relations', async () => {
      expect(await guarded.read('guarded__read', { result_type: 'count' })).toEqual({ count: 2 });
      expect(await guarded.text('guarded__read', { get_by: { number: 'o-3' } })).not.toContain(
        'o-3',
      );
      expect(await guarded.text('people__read', { load: ['orders'] })).not.toContain('o-3');
      expect(
        await guarded.read('people__read', {
          result_type: 'count',
          filter: { orders: { number: { eq: 'o-3' } } },
        }),
      ).toEqual({
        count: 0,
      });
      expect(await guarded.error('guarded__update', { id: 3, input: { note: 'x' } })).toMatchObject(
        { source: { pointer: '/id' } },
      );
      expect((await recordOf('guarded__read', { result_type: 'count' }, 'guy')).status).toBe(
        'succeeded',
      );
    });

    it('lets no write make a row that its actor would not see', async () => {
      const { record } = await guarded.call('guarded__update', {
        id: 2,
        input: { status: 'cancelled' },
      });
      expect(record.error?.code).toBe('forbidden');
      expect(await stored('id = 2', guarded)).toMatchObject([{ status: 'new' }]);
    });

    it('keeps fields from an actor: in results, filters, sorts, aggregates and inputs', async () => {
      expect(JSON.parse(await asGuy({ limit: 1 }))).toMatchObject({
        rows: [{ id: 1, number: 'o-1' }],
      });
      expect(await asGuy({})).not.toMatch(/total|status|pieces/);
      for (const args of [
        { filter: { total: { gt: 1 } } },
        { sort: [{ field: 'total' }] },
        { select: ['total'] },
        { load: ['customer'] },
      ] as JsonObject[])
        expect(await asGuy(args)).toContain('invalid_args');
      expect(await asGuy({ id: 2, input: { total: '1' } }, 'guarded__update')).toContain(
        '/input/total',
      );
    });
  });

  it('needs its policy among the providers', async () => {
    await expect(Shop.start({ storing, resources: [GuardedTools] })).rejects.toThrow(
      'OrderPolicy is no provider',
    );
    expect(ResourceToolsModule.forFeature([]).providers).toHaveLength(1);
  });
}
