import { afterEach, describe, expect, it } from '@jest/globals';
import { Injectable, type Type } from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import {
  ActorDirectory,
  type EntityContext,
  EntityResolver,
  LlmTool,
  type LoopRequest,
  type LoopResult,
  ToolContext,
  type ToolCallContext,
  ToolEntityResolver,
  ToolLoopModule,
  type ToolLoopOptions,
  ToolLoopService,
  ToolParam,
  ToolProvider,
} from '@toolloop/core';
import { DirectiveService, type PerformedDirective } from '@toolloop/core/directives';
import { DirectiveStore } from '@toolloop/core/stores';
import { call, calls, ScriptedModel, text, type ScriptedTurn } from '@toolloop/testing';
import { Expose } from 'class-transformer';
import { findingsOf, RecordingLogger, start } from '../../tools/application.js';
import { resultOf } from '../../fixtures/played-run.js';
import { alice, answerIn, bob, OPEN, until, world } from './bench.js';

/** The orders of all tenants, and what was done to them. */
class Warehouse {
  readonly orders = new Map<string, Order>(
    [
      new Order('o-1', 'acme', this),
      new Order('o-2', 'acme', this),
      new Order('g-1', 'globex', this),
    ].map((order) => [order.id, order]),
  );
  readonly done: string[] = [];
}

@ToolProvider({ prefix: 'order', tenantProperty: 'tenant' })
class Order {
  @Expose() readonly id: string;

  constructor(
    id: string,
    readonly tenant: string,
    private readonly warehouse: Pick<Warehouse, 'done'>,
  ) {
    this.id = id;
  }

  @LlmTool({
    description: 'Refunds the order.',
    effect: 'external_side_effect',
    reveal: 'all',
    preview: 'refundPreview',
    directive: {
      type: 'order.refund',
      subject: '{instanceId}',
      key: 'whole',
      compensate: 'undoRefund',
    },
  })
  refund(
    @ToolParam('amount', { description: 'How much.' }) amount: number,
    @ToolContext() { actor, tenant }: ToolCallContext,
  ): string {
    this.warehouse.done.push(`${this.id} ${amount} ${tenant} ${(actor as { id: string }).id}`);
    return 'refunded';
  }

  refundPreview({ amount }: { amount: number }): string {
    return `Refunds ${amount} of ${this.id}`;
  }

  undoRefund({ amount }: { amount: number }, performed: PerformedDirective): void {
    this.warehouse.done.push(`undone ${this.id} ${amount} ${performed.idempotencyKey}`);
  }
}

@ToolProvider({ namespace: 'desk' })
@Injectable()
class DeskTools {
  constructor(private readonly warehouse: Warehouse) {}

  @LlmTool({
    description: 'Gets an order.',
    effect: 'read_only',
    output: { type: Order, nullable: true },
  })
  get(@ToolParam('id', { description: 'Its id.' }) id: string): Order | null {
    return this.warehouse.orders.get(id) ?? null;
  }
}

@ToolEntityResolver(Order)
@Injectable()
class Orders extends EntityResolver<Order> {
  readonly asked: string[] = [];

  constructor(private readonly warehouse: Warehouse) {
    super();
  }

  override resolve(id: string, { tenant }: EntityContext): Promise<Order | undefined> {
    this.asked.push(`${tenant}/${id}`);
    const found = this.warehouse.orders.get(id);
    return Promise.resolve(found?.tenant === tenant ? found : undefined);
  }
}

/** Gives whatever has the id, whoever asks. */
@ToolEntityResolver(Order)
@Injectable()
class CarelessOrders extends EntityResolver<Order> {
  constructor(private readonly warehouse: Warehouse) {
    super();
  }

  override resolve(id: string): Promise<Order | undefined> {
    return Promise.resolve(this.warehouse.orders.get(id));
  }
}

let modules: TestingModule[] = [];

afterEach(async () => {
  for (const module of modules) await module.close();
  modules = [];
});

interface DeskOptions extends Partial<ToolLoopOptions> {
  readonly shared?: ReturnType<typeof world> & { readonly warehouse: Warehouse };
  readonly resolver?: Type;
}

const fresh = () => ({ ...world(), warehouse: new Warehouse() });

const refunding = (orderId: string, amount = 5): ScriptedTurn[] => [
  calls(call('desk__get', { id: orderId })),
  calls(call(`order_${orderId}_refund`, { amount })),
  text('Asked for.'),
];

/** An application whose orders are refunded by directives. */
async function desk(
  script: readonly ScriptedTurn[],
  { shared = fresh(), resolver = Orders, ...options }: DeskOptions = {},
) {
  const { directives = {}, ...others } = options;
  const module = await Test.createTestingModule({
    imports: [
      ToolLoopModule.forRoot({
        model: new ScriptedModel(script),
        policy: OPEN,
        surface: 'named',
        directives: { firstDelayMs: 5, longestDelayMs: 40, ...directives },
        ...others,
        providers: [
          { provide: ActorDirectory, useValue: shared.people },
          { provide: DirectiveStore, useValue: shared.directives },
        ],
      }),
      ToolLoopModule.forFeature({ entities: [Order] }),
    ],
    providers: [DeskTools, resolver, { provide: Warehouse, useValue: shared.warehouse }],
  })
    .setLogger(new RecordingLogger())
    .compile();
  modules.push(module);
  await module.init();
  const loop: ToolLoopService = module.get(ToolLoopService);
  const service: DirectiveService = module.get(DirectiveService);
  const run = (more: Partial<LoopRequest> = {}): Promise<LoopResult> =>
    resultOf(loop.open({ prompt: 'Refund it.', ...alice, ...more }));
  return { module, run, service, warehouse: shared.warehouse, shared };
}

const WAITING = { directives: { perform: false } };

/** Requested in one process; what happens in between is the test's, before another performs it. */
async function later(
  between: (shared: ReturnType<typeof fresh>) => void,
  options: DeskOptions = {},
) {
  const shared = fresh();
  const asking = await desk(refunding('o-1'), { ...options, ...WAITING, shared });
  await asking.run();
  await asking.module.close();
  between(shared);
  return desk([], { ...options, shared });
}

describe('a directive of an entity', () => {
  it('is requested about its instance and performed on the one that its resolver finds by then', async () => {
    const { run, service, warehouse, module } = await desk(refunding('o-1'));
    const answer = answerIn(await run());
    expect(answer).toMatchObject({
      ok: true,
      type: 'order.refund.requested',
      result: { subject: 'o-1', preview: { sentence: 'Refunds 5 of o-1' } },
    });
    await until(service, 'succeeded');
    expect(warehouse.done).toEqual(['o-1 5 acme alice']);
    expect(module.get(Orders).asked.at(-1)).toBe('acme/o-1');
  });

  it('is performed once by another process that has never seen the instance', async () => {
    const { service, warehouse } = await later(() => undefined);
    await until(service, 'succeeded');
    expect(warehouse.done).toEqual(['o-1 5 acme alice']);
  });

  it('is two directives for two instances, and one for the same instance asked again', async () => {
    const { run, service, warehouse } = await desk([
      ...refunding('o-1'),
      ...refunding('o-2'),
      ...refunding('o-1'),
    ]);
    for (const requestId of ['1', '2', '3']) await run({ requestId });
    expect((await service.list(alice)).map(({ subject }) => subject).toSorted()).toEqual([
      'o-1',
      'o-2',
    ]);
    await until(service, 'succeeded');
    expect(new Set(warehouse.done)).toEqual(new Set(['o-1 5 acme alice', 'o-2 5 acme alice']));
  });

  it('is undone on the instance as it is then', async () => {
    const { run, service, warehouse } = await desk(refunding('o-1'));
    await run();
    const { directiveId } = await until(service, 'succeeded');
    await service.cancel(directiveId, alice);
    await until(service, 'compensated');
    expect(warehouse.done.at(-1)).toMatch(/^undone o-1 5 order\.refund:acme:o-1:/);
  });

  it.each<[string, string, DeskOptions, (shared: ReturnType<typeof fresh>) => void]>([
    [
      'the instance is gone',
      'tool_gone',
      {},
      ({ warehouse }) => void warehouse.orders.delete('o-1'),
    ],
    [
      'the instance belongs to another tenant',
      'tool_gone',
      {},
      ({ warehouse }) => void warehouse.orders.set('o-1', new Order('o-1', 'globex', warehouse)),
    ],
    [
      "a careless resolver gives another tenant's instance",
      'execution_failed',
      { resolver: CarelessOrders },
      ({ warehouse }) => void warehouse.orders.set('o-1', new Order('o-1', 'globex', warehouse)),
    ],
    ['the actor is gone', 'forbidden', {}, ({ people }) => void people.known.delete('acme/alice')],
  ])('is dead and says why where %s', async (_, code, options, between) => {
    const { service, warehouse } = await later(between, options);
    expect((await until(service, 'dead')).failure).toMatchObject({ code });
    expect(warehouse.done).toEqual([]);
  });

  it("cannot be requested about another tenant's instance, nor seen by that tenant", async () => {
    const script = [
      calls(call('desk__get', { id: 'g-1' })),
      calls(call('order_g-1_refund', { amount: 5 })),
      text('No.'),
    ];
    const { run, service, warehouse } = await desk(script);
    const { toolCalls } = await run();
    expect(toolCalls.at(-1)).toMatchObject({ error: { code: 'unknown_tool' } });
    expect(await service.list(bob)).toEqual([]);
    expect(warehouse.done).toEqual([]);
  });

  it('stops the start where no resolver finds the instance again, or it never is', async () => {
    const problem = 'It has a directive, and nothing finds its Order again when that is performed.';
    const shared = world();
    const declared = {
      ports: [{ provide: ActorDirectory, useValue: shared.people }],
      imports: [ToolLoopModule.forFeature({ entities: [Order] })],
    };
    expect(await findingsOf(declared)).toMatchObject([{ at: 'Order.refund', problem }]);
  });
});

const warnings = (logger: RecordingLogger) =>
  logger.warnings().filter(({ message }) => String(message).includes('immediateEffects'));

describe('an external side effect that is no directive', () => {
  @ToolProvider({ namespace: 'mail' })
  class MailTools {
    @LlmTool({ description: 'Sends.', effect: 'external_side_effect', reveal: 'all' })
    send(): string {
      return 'sent';
    }
  }

  it('is a warning at start that names the tools', async () => {
    const logger = new RecordingLogger();
    modules.push(await start({ providers: [MailTools], logger }));
    expect(warnings(logger)).toMatchObject([
      { message: expect.stringContaining('MailTools.send: An external side effect') },
    ]);
  });

  it('is accepted or refused where the application says so', async () => {
    const logger = new RecordingLogger();
    modules.push(
      await start({
        providers: [MailTools],
        logger,
        options: { directives: { immediateEffects: 'allow' } },
      }),
    );
    expect(warnings(logger)).toEqual([]);
    const refused = await findingsOf({
      providers: [MailTools],
      options: { directives: { immediateEffects: 'refuse' } },
    });
    expect(refused).toMatchObject([
      { at: 'MailTools.send', problem: expect.stringContaining('mail__send') },
    ]);
  });
});
