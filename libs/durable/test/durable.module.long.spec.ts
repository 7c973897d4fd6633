import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { Logger, Module } from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import {
  PendingService,
  type LoopResult,
  type Policy,
  tool,
  ToolLoopModule,
  ToolLoopService,
} from '@toolloop/core';
import { AuditTrail, verifyAudit } from '@toolloop/core/audit';
import {
  CallJournal,
  DirectiveStore,
  MemoryCallJournal,
  ToolLoopStores,
} from '@toolloop/core/stores';
import {
  Database,
  DurableModule,
  SqlCallJournal,
  SqlDirectiveStore,
  SqlStores,
  type DurableOptions,
} from '@toolloop/durable';
import { StorageUnavailableError } from '@toolloop/protocol';
import { ScriptedModel, call, calls, text, type ScriptedTurn } from '@toolloop/testing';
import { Pool } from 'pg';
import { RetentionSweep } from '../src/retention.js';
import {
  createDatabaseFolder,
  createServerDatabase,
  describePostgres,
  inMemory,
  openInMemory,
} from './databases.js';

// PGlite makes a database in seconds, and takes all of a busy machine for it.
const KEY = 'a key of more than thirty-two bytes, for tests';
const alice = { actor: { id: 'alice' }, tenant: 'acme' };
const ASK: Policy = {
  version: 'v1',
  allow: ['*'],
  flow: 'off',
  requireApproval: [{ tools: ['bank__pay'] }],
};
const ALLOW: Policy = { version: 'v1', allow: ['*'], flow: 'off' };

const cleanUps: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).toReversed()) await cleanUp();
});

/** What was paid, by any application. */
const paid: unknown[] = [];
const pay = tool({
  id: 'bank__pay',
  description: 'Pays.',
  effect: 'external_side_effect',
  reveal: 'all',
  input: { type: 'object', properties: { amount: { type: 'number' } } },
  idempotencyKey: (args) => `refund ${JSON.stringify(args)}`,
  execute: (args) => paid.push(args),
});

async function start(
  durable: DurableOptions,
  script: readonly ScriptedTurn[],
  policy: Policy = ASK,
): Promise<TestingModule> {
  paid.length = 0;
  const module = await Test.createTestingModule({
    imports: [
      ToolLoopModule.forRoot({
        model: new ScriptedModel(script),
        policy,
        tools: [pay],
        audit: { key: KEY },
      }),
      DurableModule.forRoot(durable),
    ],
  }).compile();
  module.useLogger(false);
  await module.init();
  cleanUps.push(() => module.close());
  return module;
}

const loopOf = (module: TestingModule): ToolLoopService => module.get(ToolLoopService);

async function approve(module: TestingModule): Promise<void> {
  const approvals: PendingService = module.get(PendingService);
  const [request] = await approvals.list(alice);
  await approvals.decide({ approvalId: request?.approvalId ?? '', decision: 'approve' }, alice);
}

async function assertAudited(module: TestingModule): Promise<void> {
  const entries = await module.get(SqlStores).audit.read('acme', { from: 1, limit: 1_000 });
  const verification = await verifyAudit(entries, { keys: KEY });
  expect(verification).toMatchObject({ valid: true });
  expect(module.get(AuditTrail)).toBeInstanceOf(AuditTrail);
}

async function resumed(module: TestingModule, runId: string): Promise<LoopResult> {
  return (await loopOf(module).resume(runId, alice)).result;
}

describe('a run that waits for an approval', () => {
  it('continues in another process, which opens the folder after the first is gone', async () => {
    const folder = await createDatabaseFolder();
    cleanUps.push(folder.drop);
    const one = await start({ dataDir: folder.dataDir }, [calls(call('bank__pay', { amount: 5 }))]);
    const first = await loopOf(one).run({ prompt: 'Pay.', conversationId: 'c', ...alice });
    expect(first.finishReason).toBe('waiting');
    await one.close();

    const two = await start({ dataDir: folder.dataDir }, [text('Paid.')]);
    await approve(two);
    expect(await resumed(two, first.runId)).toMatchObject({ finishReason: 'stop', text: 'Paid.' });
    expect(paid).toEqual([{ amount: 5 }]);
    await expect(resumed(two, first.runId)).rejects.toThrow(/waits for a decision/);
    await assertAudited(two);
  });

  it('is visible to its own actor alone', async () => {
    const module = await start(await inMemory(), [calls(call('bank__pay', { amount: 5 }))]);
    const first = await loopOf(module).run({ prompt: 'Pay.', ...alice });
    for (const other of [
      { ...alice, tenant: 'globex' },
      { ...alice, actor: { id: 'bob' } },
    ])
      await expect(loopOf(module).resume(first.runId, other)).rejects.toThrow(/No run/);
  });
});

/** Applications on one server, started at once. */
async function openTwo(
  one: readonly ScriptedTurn[],
  two: readonly ScriptedTurn[],
  policy?: Policy,
): Promise<TestingModule[]> {
  const { url, drop } = await createServerDatabase();
  cleanUps.push(drop);
  return Promise.all([one, two].map((script) => start({ url }, script, policy)));
}

const refund: ScriptedTurn = (request) =>
  request.messages.some(({ role }) => role === 'tool')
    ? text('Done.')
    : calls(call('bank__pay', { amount: 5 }));

/**
 * Asks for the refund until it is answered: a busy machine may have no time for the database within
 * the limits of a store, and the run is told so.
 */
async function refunded(app: TestingModule): Promise<LoopResult> {
  for (;;)
    try {
      return await loopOf(app).run({ prompt: 'Refund.', ...alice });
    } catch (error) {
      if (!StorageUnavailableError.in(error)) throw error;
    }
}

async function saidAtStart(options: object): Promise<unknown> {
  @Module({
    imports: [
      DurableModule.forRoot(options as DurableOptions),
      ToolLoopModule.forRoot({ model: new ScriptedModel([]), policy: ALLOW }),
    ],
  })
  class AppModule {}
  return Test.createTestingModule({ imports: [AppModule] })
    .compile()
    .then(
      () => 'started',
      (error: Error) => error.message,
    );
}

describePostgres('two applications on one server', () => {
  it("they start at once on an empty database, approve for each other and continue each other's runs", async () => {
    const [one, two] = await openTwo([calls(call('bank__pay', { amount: 5 }))], [text('Paid.')]);
    if (!one || !two) throw new Error('They did not start.');
    const first = await loopOf(one).run({ prompt: 'Pay.', ...alice });
    await approve(two);
    expect(await resumed(two, first.runId)).toMatchObject({ finishReason: 'stop' });
    expect(paid).toEqual([{ amount: 5 }]);
    await expect(resumed(one, first.runId)).rejects.toThrow(/waits for a decision/);
    await assertAudited(one);
  });

  it('tell each other of an answer that a run waits for', async () => {
    const [one, two] = await openTwo([calls(call('bank__pay', { amount: 5 })), text('Paid.')], []);
    if (!one || !two) throw new Error('They did not start.');
    const run = loopOf(one).run({ prompt: 'Pay.', approvals: 'wait', ...alice });
    while ((await two.get<PendingService>(PendingService).list(alice)).length === 0)
      await new Promise((resolve) => setTimeout(resolve, 5));
    await approve(two);
    expect(await run).toMatchObject({ finishReason: 'stop', text: 'Paid.' });
  });

  it('perform one refund of 500 that are asked for at once', async () => {
    const script = Array.from({ length: 10_000 }, () => refund);
    const apps = await openTwo(script, script, ALLOW);
    const runs = apps.flatMap((app) => Array.from({ length: 250 }, () => refunded(app)));
    const records = (await Promise.all(runs)).flatMap(({ toolCalls }) => toolCalls);
    expect(paid).toEqual([{ amount: 5 }]);
    expect(records).toHaveLength(500);
    // Who came while it was under way cannot know; who came later is told what became of it.
    expect(
      records.filter(
        ({ status, error }) => status !== 'succeeded' && error?.code !== 'unknown_outcome',
      ),
    ).toEqual([]);
    await Promise.all(apps.map(assertAudited));
  });
});

describe('the module', () => {
  it('puts its stores in the place of those in memory, and the application’s in the place of both', async () => {
    const journal = new MemoryCallJournal();
    const module = await Test.createTestingModule({
      imports: [
        DurableModule.forRootAsync({ useFactory: inMemory }),
        ToolLoopModule.forRoot({
          model: new ScriptedModel([]),
          policy: ALLOW,
          providers: [{ provide: CallJournal, useValue: journal }],
        }),
      ],
    }).compile();
    cleanUps.push(() => module.close());
    expect(module.get(CallJournal, { strict: false })).toBe(journal);
    const stores = module.get(ToolLoopStores, { strict: false });
    expect(stores).toBeInstanceOf(SqlStores);
    expect(stores.journal).toBeInstanceOf(SqlCallJournal);
    expect(module.get(DirectiveStore, { strict: false })).toBeInstanceOf(SqlDirectiveStore);
  });

  it('closes the database after everybody else', async () => {
    const module = await start(await inMemory(), []);
    const database = module.get(Database);
    await module.close();
    expect(database.isClosed).toBe(true);
    await expect(database.query('select 1')).rejects.toThrow(/closed/i);
  });

  it.each<[string, object, RegExp]>([
    ['no place', {}, /says nothing of where.*\n.*Give one of url/],
    ['two places', { url: 'postgres://localhost/a', memory: true }, /says url and memory/],
    [
      'an address of something else',
      { url: 'mysql://ann:s3cret@localhost/a' },
      /not an address of the form postgres/,
    ],
    ['no address', { url: 's3cret' }, /not an address of the form postgres/],
    [
      'a password that is not encoded',
      { url: 'postgres://ann:12/s3cret@localhost/a' },
      /not percent-encoded/,
    ],
    ['an option that does not exist', { memory: true, retain: 1 }, /no option "retain"/],
    [
      'a retention of nothing',
      { memory: true, retention: { calls: 0, audit: 3 } },
      /no option "audit"[^]*retention\.calls: It is not a number of days/,
    ],
    [
      'no connections',
      { url: 'postgres://localhost/a', connections: 0 },
      /not a whole number above 0/,
    ],
    [
      'connections of what has none',
      { memory: true, connections: 3 },
      /connections: It says something about url/,
    ],
    ['a number for an address', { url: 5 }, /not an address of the form postgres/],
    ['a folder that no system can have', { dataDir: 'a\0b' }, /dataDir: It is not a path/],
    ['a template that is none', { memory: true, template: 'x' }, /template: It is not a Blob/],
    [
      'options that are none',
      { memory: true, runs: 5, retention: null },
      /retention: It is not an object[^]*runs: It is not an object/,
    ],
    [
      'days that are none',
      {
        memory: true,
        retention: {
          runs: true,
          calls: 'week',
          pending: null,
          directives: '7',
          conversations: 1e300,
        },
      },
      /5 problems[^]*retention\.calls:[^]*retention\.conversations:[^]*retention\.directives:[^]*retention\.pending:[^]*retention\.runs:/,
    ],
    [
      'numbers of runs that are none, all at once',
      {
        memory: true,
        runs: { concurrency: null, heartbeatMs: 1e12, takeoverMs: '300', drainMs: true },
      },
      /4 problems[^]*runs concurrency:[^]*runs heartbeatMs:.*\n.*from 1 to 2147483647[^]*runs takeoverMs:[^]*runs drainMs:/,
    ],
    [
      'half a run at once',
      { memory: true, runs: { concurrency: 1.5 } },
      /runs concurrency: It is not a number/,
    ],
    [
      'a run that is taken from a process that is well',
      { memory: true, runs: { heartbeatMs: 20_000 } },
      /less than two heartbeats of 20000/,
    ],
    [
      'an option of runs that does not exist',
      { memory: true, runs: { heartBeatMs: 5 } },
      /no option "heartBeatMs"/,
    ],
  ])('refuses %s', async (_, options, message) => {
    const said = await saidAtStart(options);
    expect(said).toMatch(message);
    expect(said).not.toContain('s3cret');
  });

  it.each([undefined, null, 5])('refuses %s in the place of options', async (options) => {
    const imports = [
      DurableModule.forRootAsync({ useFactory: () => options as never }),
      ToolLoopModule.forRoot({ model: new ScriptedModel([]), policy: ALLOW }),
    ];
    await expect(Test.createTestingModule({ imports }).compile()).rejects.toThrow(
      /DurableModule: Its options are (undefined|null|5)\./,
    );
  });

  it('does not fall back to memory where the server does not answer, and never tells the password', async () => {
    const said = await saidAtStart({ url: 'postgres://ann:s3cret@127.0.0.1:1/shop' });
    expect(said).toMatch(
      /PostgreSQL at 127\.0\.0\.1:1, database "shop", user "ann" cannot be used: .*ECONNREFUSED/,
    );
    expect(said).toMatch(/Start the server/);
    expect(said).not.toContain('s3cret');
  });
});

describe('a database', () => {
  it('shows its connection to those who share it', async () => {
    const database = await openInMemory();
    cleanUps.push(() => database.close());
    const pool = new Pool(database.connection);
    expect((await pool.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
    await pool.end();
    expect(await database.query('select 2 as two')).toEqual([{ two: 2 }]);
  });
});

describe('a start without retention', () => {
  it.each([
    ['says in one line that nothing is ever deleted', undefined, 1],
    ['says so where the retention names nothing', {}, 1],
    ['says nothing where a retention is given', { runs: 30 }, 0],
  ])('%s', async (_, retention, lines) => {
    const warned = jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined);
    const database = await openInMemory();
    const sweep = new RetentionSweep(database, retention);
    sweep.onApplicationBootstrap();
    const told = warned.mock.calls.filter(([message]) =>
      String(message).includes('Nothing is ever deleted'),
    );
    warned.mockRestore();
    await sweep.beforeApplicationShutdown();
    await database.close();
    expect(told).toHaveLength(lines);
    expect(told.every(([message]) => !String(message).includes('\n'))).toBe(true);
  });
});
