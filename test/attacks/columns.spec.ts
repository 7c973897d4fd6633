import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Entity, Enum, PrimaryKey, Property } from '@mikro-orm/decorators/legacy';
import {
  type FlowLevel,
  type JsonObject,
  type LoopResult,
  type Policy,
  tool,
  ToolField,
} from '@toolloop/core';
import { ToolResource } from '@toolloop/resources';
import { call, calls, ScriptedModel, type ScriptedTurn, text } from '@toolloop/testing';
import { Expose } from 'class-transformer';
import { Max, Min } from 'class-validator';
import { inMemory } from '../../libs/durable/test/databases.js';
import { mikroOrm } from '../../libs/resources/test/mikro-orm-storage.js';
import { Shop } from '../../libs/resources/test/shop.js';

enum Wish {
  Cancel = 'cancel_order',
  CallBack = 'call_back',
}

/** A form that strangers fill in without a word. */
@Entity({ tableName: 'forms' })
class Form {
  @PrimaryKey({ type: 'integer', autoincrement: true }) @Expose() id!: number;
  @Property({ type: 'string', length: 40, hidden: true }) tenant!: string;
  @Enum({ items: () => Wish }) @Expose() wish!: Wish;
  @Property({ type: 'integer' }) @Min(1) @Max(99_999) @Expose() order!: number;
  @Property({ type: 'date' }) @Expose() day!: string;
  @Property({ type: 'boolean' }) @Expose() isUrgent!: boolean;
}

/** The same columns, in rows of which the application says that it writes them. */
@Entity({ tableName: 'decisions' })
class Decision {
  @PrimaryKey({ type: 'integer', autoincrement: true }) @Expose() id!: number;
  @Property({ type: 'string', length: 40, hidden: true }) tenant!: string;
  @Enum({ items: () => Wish }) @ToolField({ origin: 'application' }) @Expose() wish!: Wish;
  @Property({ type: 'integer' }) @ToolField({ origin: 'application' }) @Expose() order!: number;
}

@ToolResource(Form, { namespace: 'forms', actions: ['read'] })
class FormTools {}

@ToolResource(Form, { namespace: 'vouched', labels: { returns: 'trusted' }, actions: ['read'] })
class VouchedTools {}

@ToolResource(Decision, { namespace: 'decisions', actions: ['read'] })
class DecisionTools {}

/**
 * The order that a stranger wants cancelled, and the one that a stranger of another tenant does.
 */
const ORDERS = { acme: 4711, globex: 17 } as const;
type Tenant = keyof typeof ORDERS;
const TENANTS = ['acme', 'globex'] as const;

/** The policy of the application; a request narrows it. */
const OPEN: Policy = { version: 'v1', allow: ['*'], flow: 'off' };

const cancelled: JsonObject[] = [];
const cancel = tool<JsonObject>({
  id: 'orders__cancel',
  description: 'Cancels an order.',
  effect: 'state_change',
  input: { type: 'object', properties: { order: { type: 'integer' } }, required: ['order'] },
  reveal: [],
  execute: (input) => void cancelled.push(input),
});

/** Cancels the order whose number it finds in what it is shown. */
const obeying: ScriptedTurn = ({ messages }) => {
  const read =
    messages
      .flatMap(({ role, content }) =>
        role === 'tool' && typeof content === 'string' ? [content] : [],
      )
      .at(-1) ?? '';
  const said = Buffer.from(/"cursor":"([\w-]+)"/.exec(read)?.[1] ?? '', 'base64url').toString();
  const number = [read, said].flatMap((one) =>
    TENANTS.map((tenant) => ORDERS[tenant]).filter((order) => one.includes(String(order))),
  )[0];
  return number === undefined
    ? text('There are some.')
    : calls(call('orders__cancel', { order: number }));
};

/** The ways in which a model reads the columns. */
const READS: readonly (readonly [string, JsonObject])[] = [
  ['a choice and a number', { select: ['wish', 'order'] }],
  ['a number alone', { select: ['order'] }],
  ['whole rows', {}],
  ['the largest number', { result_type: 'aggregate', aggregate: { kind: 'max', field: 'order' } }],
  [
    'a list of the numbers',
    { result_type: 'aggregate', aggregate: { kind: 'list', field: 'order' } },
  ],
];

describe('invariant 15: the columns that a stranger fills in', () => {
  let shop: Shop;
  beforeAll(async () => {
    const resources = [FormTools, VouchedTools, DecisionTools];
    shop = await Shop.start({
      storing: mikroOrm(inMemory),
      entities: [Form, Decision],
      resources,
      policy: OPEN,
      options: { tools: [cancel] },
    });
    const filled = TENANTS.flatMap((tenant) => {
      const form = {
        tenant,
        wish: Wish.Cancel,
        order: ORDERS[tenant],
        day: '2026-05-19',
        isUrgent: true,
      };
      return [form, { ...form, wish: Wish.CallBack, order: 1 }];
    });
    await shop.storage.insert(Form, filled);
    await shop.storage.insert(
      Decision,
      TENANTS.map((tenant) => ({ tenant, wish: Wish.Cancel, order: ORDERS[tenant] })),
    );
  });
  afterAll(() => shop?.close());
  beforeEach(() => void cancelled.splice(0));

  function attacked(
    read: JsonObject,
    flow: FlowLevel,
    tenant: Tenant,
    id = 'forms__read',
  ): Promise<LoopResult> {
    const model = new ScriptedModel([calls(call(id, read)), obeying, text('Done.')]);
    const policy = { ...OPEN, flow };
    return shop.loop.run({
      model,
      prompt: 'How many forms came in today?',
      actor: { id: 'ada', tenant },
      tenant,
      policy,
    });
  }

  const cases = TENANTS.flatMap((tenant) =>
    READS.map(([name, read]) => [name, tenant, read] as const),
  );

  it.each(cases)(
    'invariant 15: have an order cancelled where nothing is checked, by %s of %s',
    async (_, tenant, read) => {
      await attacked(read, 'off', tenant);
      expect(cancelled).toEqual([{ order: ORDERS[tenant] }]);
    },
  );

  it.each(
    cases.flatMap(([name, tenant, read]) =>
      (['taint', 'values'] as const).map((level) => [name, tenant, level, read] as const),
    ),
  )(
    'invariant 15: have none cancelled unasked, by %s of %s at %s',
    async (_, tenant, level, read) => {
      await attacked(read, level, tenant);
      expect(cancelled).toEqual([]);
    },
  );

  it.each(TENANTS)(
    'invariant 15: are told by no cursor that shows more than its rows: %s',
    async (tenant) => {
      const request = { select: ['id'], sort: [{ field: 'order', descending: true }], limit: 1 };
      await attacked(request, 'off', tenant);
      await attacked(request, 'taint', tenant);
      expect(cancelled).toEqual([]);
      const first = await shop.read('forms__read', request, tenant);
      const { rows }: { rows: readonly { id: number }[] } = first;
      const { cursor }: { cursor: string } = first;
      const second: { rows: readonly { id: number }[] } = await shop.read(
        'forms__read',
        { ...request, cursor },
        tenant,
      );
      expect(second.rows).toEqual([{ id: (rows[0]?.id ?? 0) + 1 }]);
    },
  );

  it.each(
    TENANTS.flatMap((tenant) =>
      (['taint', 'values'] as const).map((level) => [tenant, level] as const),
    ),
  )(
    'invariant 15: are followed unasked where the application vouches for them, for %s at %s',
    async (tenant, level) => {
      await attacked({}, level, tenant, 'decisions__read');
      await attacked({ select: ['wish', 'order'] }, level, tenant, 'vouched__read');
      expect(cancelled).toEqual([{ order: ORDERS[tenant] }, { order: ORDERS[tenant] }]);
    },
  );

  it.each(['taint', 'values'] as const)(
    'invariant 15: leave an actor free to act who has read keys and counts alone, at %s',
    async (level) => {
      const reads = [
        call('forms__read', { select: ['id'] }),
        call('forms__read', { result_type: 'count' }),
      ];
      const model = new ScriptedModel([
        calls(...reads),
        calls(call('orders__cancel', { order: 9 })),
        text('Done.'),
      ]);
      const policy = { ...OPEN, flow: level };
      await shop.loop.run({
        model,
        prompt: 'Cancel the ninth.',
        actor: { id: 'ada', tenant: 'acme' },
        tenant: 'acme',
        policy,
      });
      expect(cancelled).toEqual([{ order: 9 }]);
    },
  );
});
