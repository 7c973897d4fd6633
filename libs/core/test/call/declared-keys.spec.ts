import { beforeEach, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import {
  LlmTool,
  policies,
  rawTool,
  tool,
  type Tool,
  type ToolCallContext,
  ToolContext,
  ToolError,
  ToolInput,
  ToolLoopService,
  ToolProvider,
} from '@toolloop/core';
import { ScriptedModel, call, calls, text } from '@toolloop/testing';
import { Expose } from 'class-transformer';
import { IsInt, IsString } from 'class-validator';
import { Toolset } from '../../src/catalog/toolset.js';
import { start } from '../tools/application.js';
import { toolOf } from '../tools/tools.js';
import { Bench, errorOf, type RunOfCalls, type RunOptions } from './bench.js';

class Refund {
  @IsString() orderId!: string;
  @IsInt() amount!: number;
}

const effects: unknown[] = [];
const keys: string[] = [];

function refunded(
  { orderId, amount }: Refund,
  { tenant, idempotencyKey }: ToolCallContext,
): string {
  keys.push(idempotencyKey);
  effects.push(`${tenant}:${orderId}:${amount}`);
  if (amount < 0) throw new ToolError('No money.');
  return `refund ${effects.length}`;
}

@Injectable()
@ToolProvider({ namespace: 'pay' })
class PayTools {
  @LlmTool({
    description: 'Refunds.',
    effect: 'external_side_effect',
    reveal: 'all',
    idempotencyKey: ({ orderId }: Refund) => orderId,
  })
  refund(@ToolInput() input: Refund, @ToolContext() context: ToolCallContext): string {
    return refunded(input, context);
  }

  @LlmTool({
    description: 'Repays.',
    effect: 'external_side_effect',
    reveal: 'all',
    idempotencyKey: ({ orderId }: Refund) => orderId,
  })
  repay(@ToolInput() input: Refund, @ToolContext() context: ToolCallContext): string {
    return refunded(input, context);
  }
}

@Injectable()
@ToolProvider({ namespace: 'team' })
class TeamTools {
  @LlmTool({
    description: 'Refunds, whoever asks.',
    effect: 'external_side_effect',
    reveal: 'all',
    idempotencyKey: ({ orderId }: Refund) => orderId,
    idempotencyScope: 'tenant',
  })
  refund(@ToolInput() input: Refund, @ToolContext() context: ToolCallContext): string {
    return refunded(input, context);
  }
}

class Repayer {
  call(): string {
    return `raw ${effects.push('raw')}`;
  }
}

const refund = { orderId: 'o1', amount: 5 };
const elsewhere = { step: 4, index: 2 };

let bench: Bench;
beforeEach(async () => {
  effects.length = 0;
  keys.length = 0;
  const order = {
    input: Refund,
    effect: 'state_change',
    description: 'Orders.',
    reveal: 'all',
  } as const;
  bench = await Bench.start({
    providers: [PayTools, TeamTools],
    options: {
      tools: [
        tool({
          ...order,
          id: 'raw_tool',
          idempotencyKey: ({ orderId }) => orderId,
          execute: () => effects.push('raw'),
        }),
        rawTool(Repayer, { ...order, as: 'raw_class', idempotencyKey: () => 'always' }),
      ],
    },
  });
});

describe('invariant 13: a tool that declares its idempotency key', () => {
  it.each<[string, string, RunOptions]>([
    ['another step', 'pay__refund', {}],
    ['another run', 'pay__refund', { runId: 'run_2' }],
    [
      'another actor, where the tenant shares it',
      'team__refund',
      { runId: 'run_2', actorId: 'bob' },
    ],
    [
      'an actor without an id, where the tenant shares it',
      'team__refund',
      { runId: 'run_2', actorId: undefined },
    ],
  ])(
    'invariant 13: has its effect once, and answers %s with the outcome that was kept',
    async (_, name, options) => {
      const one = await bench.run().exec(name, refund);
      const other = await bench.run(options).exec(name, refund, elsewhere);
      expect(effects).toEqual(['acme:o1:5']);
      expect([one.content, other.content]).toEqual(['refund 1', 'refund 1']);
      expect(other.record).toMatchObject({ status: 'succeeded', result: 'refund 1' });
      expect(other).not.toHaveProperty('live');
    },
  );

  it.each<[string, string, unknown, RunOptions]>([
    ['key', 'pay__refund', { ...refund, orderId: 'o2' }, {}],
    ['tenant', 'pay__refund', refund, { tenant: 'globex' }],
    ['actor', 'pay__refund', refund, { actorId: 'bob' }],
    ['actor, who has no id', 'pay__refund', refund, { actorId: undefined }],
    ['tool', 'pay__repay', refund, {}],
  ])('invariant 13: never answers another %s with it', async (_, name, args, options) => {
    await bench.run().exec('pay__refund', refund);
    const outcome = await bench.run(options).exec(name, args);
    expect(outcome.content).toBe('refund 2');
    expect(new Set(keys).size).toBe(2);
  });

  it('invariant 13: never answers another instance with it', async () => {
    const keyed: Tool = {
      ...toolOf({ id: 'bill', effect: 'state_change', invoke: () => effects.push('bill') }),
      idempotencyKey: () => 'k',
    };
    const of = (instanceId: string): Tool => ({
      ...keyed,
      entity: { provider: 'Customer', instanceId, depth: 1 },
    });
    for (const id of ['c1', 'c2', 'c1'])
      await bench
        .run({ policies: [{ allow: ['bill'] }], toolset: Toolset.of([of(id)]) })
        .exec('bill');
    expect(effects).toEqual(['bill', 'bill']);
  });

  it('invariant 13: refuses other arguments under the same key', async () => {
    await bench.run().exec('pay__refund', refund);
    const outcome = await bench
      .run({ runId: 'run_2' })
      .exec('pay__refund', { ...refund, amount: 500 });
    expect(effects).toEqual(['acme:o1:5']);
    expect(errorOf(outcome).detail).toBe(
      'This was already done with other arguments, so the call was not made. Check what was done before.',
    );
  });

  it('invariant 13: keeps a failure too', async () => {
    const failing = { orderId: 'o1', amount: -1 };
    const details = [
      await bench.run().exec('pay__refund', failing),
      await bench.run({ runId: 'run_2' }).exec('pay__refund', failing),
    ];
    expect(effects).toHaveLength(1);
    expect(details.map((outcome) => errorOf(outcome).detail)).toEqual(['No money.', 'No money.']);
  });

  it('invariant 13: hands its method a key that is the same for the same effect, and no other tenant has', async () => {
    await bench.run().exec('pay__refund', refund);
    await bench.run({ tenant: 'globex' }).exec('pay__refund', refund);
    await bench.run().exec('team__refund', refund);
    expect(keys).toEqual([
      '["acme","ada","pay__refund",null,"o1"]',
      '["globex","ada","pay__refund",null,"o1"]',
      '["acme","team__refund",null,"o1"]',
    ]);
  });

  it.each(['raw_tool', 'raw_class'])('invariant 13: may be a raw one: %s', async (id) => {
    await bench.run().exec(id, refund);
    await bench.run({ runId: 'run_2' }).exec(id, refund);
    expect(effects).toEqual(['raw']);
  });

  it('invariant 13: has its effect once when it is asked for many times at once', async () => {
    const outcomes = await Promise.all(
      [1, 2, 3].map((n) => bench.run({ runId: `run_${n}` }).exec('pay__refund', refund)),
    );
    expect(effects).toHaveLength(1);
    expect(outcomes.map(({ content }) => content)).toEqual(['refund 1', 'refund 1', 'refund 1']);
  });

  it('invariant 13: has its effect once for a model that repeats itself in a run', async () => {
    const [first, second] = ['a', 'b'].map((id) => calls(call('pay__refund', refund, { id })));
    const model = new ScriptedModel([first, second, text('Done.')]);
    const module = await start({
      providers: [PayTools],
      options: { model, policy: policies.allowAll },
    });
    const result = await module
      .get(ToolLoopService)
      .run({ prompt: 'Refund o1.', actor: { id: 'ada' }, tenant: 'acme' });
    expect(effects).toEqual(['acme:o1:5']);
    expect(result.toolCalls.map((record) => record.result)).toEqual(['refund 1', 'refund 1']);
  });
});

@ToolProvider({ prefix: 'ticket' })
class Ticket {
  @Expose() readonly id: string;
  constructor(id: string) {
    this.id = id;
  }

  @LlmTool({
    description: 'Closes.',
    effect: 'state_change',
    reveal: 'all',
    idempotencyKey: () => 'close',
    concurrency: 1,
  })
  close(): string {
    return `${effects.push(this.id)}`;
  }
}

@Injectable()
@ToolProvider({ namespace: 'desk' })
class DeskTools {
  @LlmTool({ description: 'Finds.', effect: 'read_only', output: [Ticket] })
  find(): Ticket[] {
    return [new Ticket('t1'), new Ticket('t2')];
  }
}

describe('invariant 13: an entity tool that declares its idempotency key', () => {
  it('invariant 13: has its effect once for each instance', async () => {
    const closing = ['t1', 't2', 't1'].map((id, index) =>
      call(`ticket_${id}_close`, {}, { id: `call${index}` }),
    );
    const model = new ScriptedModel([
      calls(call('desk__find', {})),
      calls(...closing),
      text('Done.'),
    ]);
    const module = await start({ providers: [DeskTools], options: { model } });
    await module
      .get(ToolLoopService)
      .run({ prompt: 'Close them.', actor: { id: 'ada' }, tenant: 'acme' });
    expect(effects).toEqual(['t1', 't2']);
  });
});

const asked: unknown[] = [];
function keyedBy(idempotencyKey: unknown, options: RunOptions = {}): RunOfCalls {
  const written = toolOf({
    id: 'write',
    effect: 'state_change',
    invoke: () => effects.push('write'),
  });
  return bench.run({
    tools: [{ ...written, idempotencyKey } as Tool],
    policies: [{ allow: ['write'] }],
    ...options,
  });
}

function refuseKey(): never {
  throw new ToolError('secret');
}

describe('the function that makes the key', () => {
  it.each<[string, unknown]>([
    ['throws', () => JSON.parse('secret') as unknown],
    ['throws for the model', refuseKey],
    ['is rejected', () => Promise.reject(new ToolError('secret'))],
    ['gives nothing', () => undefined],
    ['gives a number', () => 5],
    ['gives an empty text', () => ''],
    ['gives a text without end', () => 'x'.repeat(513)],
    ['is asynchronous', () => Promise.resolve('k')],
  ])(
    'keeps the call from being made when it %s, and only the log says why',
    async (_, idempotencyKey) => {
      const outcome = await keyedBy(idempotencyKey).exec('write');
      expect(effects).toEqual([]);
      expect(errorOf(outcome).code).toBe('execution_failed');
      expect(outcome.content).not.toContain('secret');
      expect(bench.logger.errors()).toHaveLength(1);
    },
  );

  it('is not asked for what is refused before', async () => {
    const key = () => asked.push('key');
    await keyedBy(key, {
      policies: [{ allow: ['write'], requireApproval: [{ effects: ['state_change'] }] }],
    }).exec('write');
    await keyedBy(key, { policies: [{ allow: [] }] }).exec('write');
    await keyedBy(key).exec('write', 'no json');
    await keyedBy(key).exec(
      'write',
      {},
      { refusal: { code: 'budget_exceeded', safeMessage: 'x' } },
    );
    await keyedBy(key, { signal: AbortSignal.abort() }).exec('write');
    expect(asked).toEqual([]);
  });

  it('is handed what the method receives, and whose run it is', async () => {
    const key = (...seen: unknown[]): string => {
      asked.push(seen);
      return 'k';
    };
    await keyedBy(key, { tenant: 'globex' }).exec('write', { a: 1 });
    expect(asked).toMatchObject([[{ a: 1 }, { tenant: 'globex', runId: 'run_1' }]]);
  });
});
