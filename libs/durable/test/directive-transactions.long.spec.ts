import { EventEmitter, once } from 'node:events';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import {
  ActorDirectory,
  LlmTool,
  type ToolCallContext,
  ToolContext,
  ToolLoopModule,
  ToolParam,
  ToolProvider,
} from '@toolloop/core';
import { DirectiveService } from '@toolloop/core/directives';
import { DirectiveStore, versionOf } from '@toolloop/core/stores';
import { Database, DurableModule, type DurableOptions } from '@toolloop/durable';
import { ScriptedModel, call, calls, text } from '@toolloop/testing';
import { createServerDatabase, describePostgres, inMemory } from './databases.js';
import { alice, askFor, untilAll } from './fixtures/refund.desk.js';

const cleanUps: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).toReversed()) await cleanUp();
});

/** What happens to who performs a refund, after its commit. */
interface Fate {
  readonly afterwards: () => Promise<void>;
  readonly isGone?: () => boolean;
  readonly attempts?: number;
}

const REFUNDS = 'create table if not exists refunds (order_id text)';

/**
 * Its tool does all that it does in a transaction, which is committed, and then meets with its
 * fate.
 */
async function start(
  durable: DurableOptions,
  { afterwards, isGone = () => false, attempts = 3 }: Fate,
): Promise<TestingModule> {
  @ToolProvider({ namespace: 'bank' })
  class BankTools {
    constructor(private readonly database: Database) {}

    @LlmTool({
      description: 'Refunds an order.',
      effect: 'external_side_effect',
      reveal: 'all',
      directive: { type: 'order.refund', subject: '{orderId}', attempts },
    })
    async refund(
      @ToolParam('orderId', { description: 'Order' }) orderId: string,
      @ToolContext() { transaction }: ToolCallContext,
    ): Promise<unknown> {
      const kept = await transaction!(async () => {
        await this.database.query('insert into refunds values ($1)', [orderId]);
        return { refunded: orderId };
      });
      await afterwards();
      return kept;
    }
  }
  @Injectable()
  class Staff extends ActorDirectory<{ readonly id: string }> {
    override find(id: string) {
      return Promise.resolve(isGone() ? undefined : { id });
    }
  }
  const model = new ScriptedModel([
    calls(call('bank__refund', { orderId: 'o-1' })),
    text('Asked for.'),
  ]);
  const module = await Test.createTestingModule({
    imports: [
      DurableModule.forRoot(durable),
      ToolLoopModule.forRoot({
        model,
        policy: { version: 'v1', allow: ['*'], flow: 'off' },
      }),
    ],
    providers: [BankTools, Staff],
  }).compile();
  module.useLogger(false);
  await module.init();
  cleanUps.push(() => module.close());
  await module.get(Database).query(REFUNDS);
  return module;
}

const refunds = async (desk: TestingModule): Promise<number> =>
  (await desk.get(Database).query('select 1 from refunds')).length;

/** The lease of who performs it is over, as after their silence, and it is anybody's at once. */
async function silence(desk: TestingModule): Promise<void> {
  const directives: DirectiveService = desk.get(DirectiveService);
  const [one] = await directives.list(alice);
  const store: DirectiveStore = desk.get(DirectiveStore);
  const performing = await store.find({
    tenant: alice.tenant,
    directiveId: one?.directiveId ?? '',
  });
  expect(performing).toMatchObject({ status: 'performing', epoch: 1 });
  const given =
    performing &&
    (await store.change(versionOf(performing), {
      event: 'retried',
      status: 'pending',
      dueInMs: 0,
    }));
  expect(given).toBeDefined();
}

/** The first to perform one gets no further, until it is let go on. */
function lost() {
  const fate = new EventEmitter();
  const [reached, stuck] = [once(fate, 'reached'), once(fate, 'goes on')];
  const goOn = (): unknown => fate.emit('goes on');
  let times = 0;
  const afterwards = async (): Promise<void> => {
    fate.emit('reached');
    if ((times += 1) === 1) await stuck;
  };
  return { afterwards, reached, goOn, times: () => times };
}

function suite(open: () => Promise<DurableOptions>): void {
  it('stands as succeeded, with what was kept, where the process was gone before it could say so', async () => {
    const { afterwards, reached, times, goOn } = lost();
    const desk = await start(await open(), { afterwards });
    await askFor(desk, 1);
    await reached;
    await silence(desk);
    const told = [{ status: 'succeeded', attempts: 2, result: { refunded: 'o-1' } }];
    expect(await untilAll(desk, 'succeeded')).toMatchObject(told);
    goOn();
    await new Promise((resolve) => setTimeout(resolve, 200)); // what comes late changes nothing
    expect(await untilAll(desk, 'succeeded')).toMatchObject(told);
    expect([await refunds(desk), times()]).toEqual([1, 1]);
  });

  it.each([
    ['may not ask for it any more', {}],
    ['had its last attempt', { attempts: 1 }],
  ] as const)('stays succeeded though its requester %s', async (_, more) => {
    const { afterwards, reached, goOn } = lost();
    let isGone = false;
    const desk = await start(await open(), { afterwards, isGone: () => isGone, ...more });
    await askFor(desk, 1);
    await reached;
    isGone = true;
    await silence(desk);
    expect(await untilAll(desk, 'succeeded')).toHaveLength(1);
    expect(await refunds(desk)).toBe(1);
    goOn();
  });

  it('is not made again where it failed afterwards, and a person has it tried again', async () => {
    const desk = await start(await open(), {
      afterwards: () => Promise.reject(new Error('The line was cut.')),
    });
    await askFor(desk, 1);
    const [unknown] = await untilAll(desk, 'unknown_outcome');
    const directives: DirectiveService = desk.get(DirectiveService);
    await directives.redrive(unknown?.directiveId ?? '', alice, { tookPlace: false });
    expect(await untilAll(desk, 'succeeded')).toMatchObject([{ result: { refunded: 'o-1' } }]);
    expect(await refunds(desk)).toBe(1);
  });
}

describe('a directive whose transaction was committed, on PGlite', () => {
  suite(inMemory);
});

describePostgres('a directive whose transaction was committed, on PostgreSQL', () => {
  suite(async () => {
    const { url, drop } = await createServerDatabase();
    cleanUps.push(drop);
    return { url };
  });
});
