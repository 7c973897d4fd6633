import { setTimeout as wait } from 'node:timers/promises';
import { afterEach, describe, expect, it } from '@jest/globals';
import { Test, type TestingModule } from '@nestjs/testing';
import {
  LlmTool,
  type ToolCallContext,
  ToolContext,
  ToolLoopModule,
  ToolLoopService,
  ToolParam,
  ToolProvider,
} from '@toolloop/core';
import { Database, DurableModule, type DurableOptions } from '@toolloop/durable';
import { TransactionScope } from '../src/database/transaction-scope.js';
import { createServerDatabase, describePostgres, inMemory } from './databases.js';
import { ScriptedModel } from '@toolloop/testing';

const alice = { actor: { id: 'alice' }, tenant: 'acme' };
const never = (): Promise<never> => new Promise(() => undefined);

/** What the tool does within the transaction of its call. */
type Work = (database: Database, context: ToolCallContext) => Promise<unknown>;

const cleanUps: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).toReversed()) await cleanUp();
});

async function start(
  durable: DurableOptions,
  during: Work,
): Promise<{
  readonly module: TestingModule;
  readonly statusOf: (tool: string) => Promise<unknown>;
}> {
  @ToolProvider({ namespace: 'desk' })
  class DeskTools {
    constructor(private readonly database: Database) {}

    @LlmTool({ description: 'Acts.', effect: 'state_change', reveal: 'all' })
    act(@ToolParam('key', { description: 'On what' }) key: string): string {
      return key;
    }

    @LlmTool({ description: 'Hangs.', effect: 'state_change', reveal: 'all', timeoutMs: 200 })
    async hang(
      @ToolParam('key', { description: 'On what' }) _key: string,
      @ToolContext() context: ToolCallContext,
    ): Promise<unknown> {
      return during(this.database, context);
    }
  }
  const module = await Test.createTestingModule({
    imports: [
      DurableModule.forRoot(durable),
      ToolLoopModule.forRoot({
        model: new ScriptedModel([]),
        policy: { version: 'v1', allow: ['*'], flow: 'off' },
      }),
    ],
    providers: [DeskTools],
  }).compile();
  module.useLogger(false);
  await module.init();
  cleanUps.push(() => module.close());
  await module.get(Database).query('create table if not exists booked (key text)');
  const loop: ToolLoopService = module.get(ToolLoopService);
  const statusOf = async (tool: string): Promise<unknown> => {
    const { record } = await loop.call({ ...alice, tool, args: { key: 'k' } });
    return record.error?.code ?? record.status;
  };
  return { module, statusOf };
}

const booking = (database: Database): Promise<unknown> =>
  database.query("insert into booked values ('k')");

const WORKS: readonly (readonly [what: string, work: Work])[] = [
  [
    'hangs in its transaction',
    (database, { transaction }) => transaction!(() => booking(database).then(never)),
  ],
  [
    'returns without awaiting its transaction, which hangs',
    (database, { transaction }) => {
      transaction!(() => booking(database).then(never)).catch(() => undefined);
      return wait(50, 'returned');
    },
  ],
];

function suite(open: () => Promise<DurableOptions>): void {
  it.each(WORKS)(
    'is over with its call where its tool %s: nothing of it is kept, and others do not wait',
    async (what, work) => {
      const { module, statusOf } = await start(await open(), work);
      const told = what.startsWith('returns') ? 'succeeded' : 'unknown_outcome';
      for (let count = 0; count < 4; count += 1) expect(await statusOf('desk__hang')).toBe(told);
      expect(await statusOf('desk__act')).toBe('succeeded');
      expect(await module.get(Database).query('select key from booked')).toEqual([]);
    },
  );
}

describe('a transaction of a call on PGlite', () => {
  suite(() => inMemory());
});

async function openServer(): Promise<DurableOptions> {
  const server = await createServerDatabase();
  cleanUps.push(() => server.drop());
  return { url: server.url, connections: 2 };
}

describePostgres('a transaction of a call on PostgreSQL', () => {
  suite(openServer);

  it('gives its connection up where a statement of it does not end', async () => {
    const { module, statusOf } = await start(await openServer(), (database, { transaction }) =>
      transaction!(() => database.query('select pg_sleep(3600)').then(() => undefined)),
    );
    for (let count = 0; count < 3; count += 1)
      expect(await statusOf('desk__hang')).toBe('unknown_outcome');
    expect(await statusOf('desk__act')).toBe('succeeded');
    expect(await module.get(Database).query('select 1 as one')).toEqual([{ one: 1 }]);
  });
});

describe('a transaction that stands still', () => {
  const session = { query: () => Promise.resolve([]), ask: () => Promise.resolve([]) };

  it('rejects, and takes no statement any more; one whose statements come and go does not', async () => {
    const still = new TransactionScope(session, undefined, 20);
    await expect(still.complete(never)).rejects.toThrow('stood still');
    await expect(still.query('select 1', [])).rejects.toThrow('The transaction is over.');
    const moving = new TransactionScope({ ...session, query: () => wait(100, []) }, undefined, 50);
    await expect(
      moving.complete((scope) => scope.query('select 1', []).then(() => 'done')),
    ).resolves.toBe('done');
  });
});
