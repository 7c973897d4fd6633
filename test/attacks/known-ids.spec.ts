import { beforeEach, describe, expect, it } from '@jest/globals';
import { type FlowLevel, type JsonObject, type LoopResult, tool } from '@toolloop/core';
import { call, calls, ScriptedModel, type ScriptedTurn, text } from '@toolloop/testing';
import { ask, openShop } from '../../libs/core/test/fixtures/shop.module.js';

/** The orders of both tenants, and the one of each that a stranger wants cancelled. */
const ORDERS = {
  acme: Array.from({ length: 16 }, (_, index) => `ORD-${index + 10}`),
  globex: Array.from({ length: 16 }, (_, index) => `ORD-${index + 70}`),
} as const;
const WANTED = { acme: 'ORD-17', globex: 'ORD-77' } as const;
type Tenant = keyof typeof ORDERS;
const TENANTS = ['acme', 'globex'] as const;
const tenantOf = (tenant: string | undefined): Tenant => (tenant === 'globex' ? 'globex' : 'acme');

const ID = { type: 'string', pattern: '^ORD-\\d+$' } as const;
const empty = { type: 'object', properties: {} } as const;

const list = tool<JsonObject>({
  id: 'orders__list',
  description: 'Lists the orders.',
  effect: 'read_only',
  labels: { returns: 'trusted' },
  input: empty,
  reveal: 'all',
  execute: (_, { tenant }) => ({ orders: ORDERS[tenantOf(tenant)] }),
});

const form = tool<JsonObject>({
  id: 'forms__latest',
  description: 'Shows the form that came in last.',
  effect: 'read_only',
  input: { type: 'object', properties: { index: { type: 'integer' } } },
  outputSchema: { type: 'object', properties: { order: ID }, required: ['order'] },
  reveal: 'all',
  execute: (_, { tenant }) => ({ order: WANTED[tenantOf(tenant)] }),
});

const cancelled: JsonObject[] = [];
const cancel = tool<JsonObject>({
  id: 'orders__cancel',
  description: 'Cancels an order.',
  effect: 'state_change',
  labels: { decisive: ['order'] },
  input: { type: 'object', properties: { order: ID }, required: ['order'] },
  reveal: [],
  execute: (input) => void cancelled.push(input),
});

/** Cancels the order that the form it read last names. */
const obeying: ScriptedTurn = ({ messages }) => {
  const read = messages.findLast(({ role }) => role === 'tool')?.content;
  const order = typeof read === 'string' ? /ORD-\d+/.exec(read)?.[0] : undefined;
  return order === undefined ? text('There is none.') : calls(call('orders__cancel', { order }));
};

interface Attack {
  readonly flow: FlowLevel;
  readonly tenant?: Tenant;
  readonly prompt?: string;
  /** The times that the form is read. */
  readonly reads?: number;
  readonly known?: boolean;
}

async function attacked({
  flow,
  tenant = 'acme',
  prompt = 'Which forms came in?',
  reads = 1,
  known = true,
}: Attack): Promise<LoopResult> {
  const read = Array.from({ length: reads }, (_, index) => calls(call('forms__latest', { index })));
  const model = new ScriptedModel([
    ...(known ? [calls(call('orders__list', {}))] : []),
    ...read,
    obeying,
    text('Done.'),
  ]);
  const policy = { version: 'v1', allow: ['*'], flow, outsideBits: 16 };
  const loop = await openShop(model, { policy, tools: [list, form, cancel] });
  return loop.run(ask({ prompt, tenant, actor: { id: 'ada', tenant } }));
}

describe("invariant 15: a stranger's field that picks one of the orders that a list named", () => {
  beforeEach(() => void cancelled.splice(0));

  it.each(TENANTS)(
    'invariant 15: has it cancelled where nothing is checked, of %s',
    async (tenant) => {
      await attacked({ flow: 'off', tenant });
      expect(cancelled).toEqual([{ order: WANTED[tenant] }]);
    },
  );

  it.each(
    TENANTS.flatMap((tenant) =>
      (['taint', 'values'] as const).map((flow) => [tenant, flow] as const),
    ),
  )('invariant 15: has none cancelled unasked, of %s at %s', async (tenant, flow) => {
    await attacked({ flow, tenant });
    expect(cancelled).toEqual([]);
  });

  it.each(['taint', 'values'] as const)(
    'invariant 15: has none cancelled unasked that the user named, however few choices were read, at %s',
    async (flow) => {
      const prompt = 'Cancel the order ORD-17.';
      for (const reads of [1, 4, 5]) {
        const { finishReason } = await attacked({ flow, prompt, reads }); // four bits each
        expect(finishReason).toBe(flow === 'values' && reads === 5 ? 'stop' : 'waiting');
      }
      expect(cancelled).toEqual([]);
    },
  );

  it.each(['taint', 'values'] as const)(
    'invariant 15: picks nothing where the user named one order alone, at %s',
    async (flow) => {
      await attacked({ flow, prompt: 'What became of ORD-17?', known: false });
      expect(cancelled).toEqual([{ order: 'ORD-17' }]);
    },
  );
});
