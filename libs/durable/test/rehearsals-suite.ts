import { afterEach, expect, it } from '@jest/globals';
import { type LoopEvent, PendingError, type Policy } from '@toolloop/core';
import type { RunView } from '@toolloop/core/runs';
import type { DurableOptions, RunOptions } from '@toolloop/durable';
import { calls, type ScriptedTurn, text } from '@toolloop/testing';
import { lastValueFrom } from 'rxjs';
import {
  alice,
  ann,
  balance,
  Bank,
  bob,
  guarded,
  mail,
  mia,
  move,
  open,
  opens,
  type Surroundings,
  tom,
  total,
} from './fixtures/bank.js';

/** A database that one test has to itself. */
export type Place = () => Promise<{
  readonly durable: DurableOptions;
  readonly drop?: () => Promise<void>;
}>;

/** Plays for as many runs as ask, each from where it is. */
const play: ScriptedTurn = ({ messages }) => {
  const answered = messages.filter(({ role }) => role === 'assistant').length;
  return [calls(move('a', 'b', 5)), calls(balance('a'), balance('b'))][answered] ?? text('Done.');
};

/** What rehearsals do in the database of an application. */
export function rehearsesInTransactions(place: Place): void {
  const started: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const end of started.splice(0).toReversed()) await end();
  });

  async function bank(
    script: readonly ScriptedTurn[],
    policy: Policy = open,
    around?: Surroundings,
  ): Promise<Bank> {
    const { durable, drop } = await place();
    if (drop) started.push(drop);
    const made = await Bank.start(durable, script, policy, around);
    started.push(() => made.close());
    await made.seed();
    return made;
  }

  it('shows what calls would change, to the calls behind them as well, and leaves every table as it was', async () => {
    const desk = await bank([
      calls(balance('a'), move('a', 'b', 30)),
      calls(balance('a'), balance('b'), total()),
      calls(move('b', 'a', 10), opens('c')),
      calls(move('a', 'c', 5), balance('c')),
      text('Done.'),
    ]);
    const before = await desk.dump();
    const { toolCalls, rehearsal } = await desk.rehearse();
    expect(toolCalls.map(({ result }) => result)).toMatchObject([
      { balance: 100 },
      { from: 70, to: 30 },
      { balance: 70 },
      { balance: 30 },
      { total: 100 },
      { from: 20, to: 80 },
      { name: 'c' },
      { from: 75, to: 5 },
      { balance: 5 },
    ]);
    expect(new Set(toolCalls.map((one) => one.rehearsal))).toEqual(new Set(['rehearsed']));
    expect(rehearsal?.calls).toMatchObject([
      {
        as: 'rehearsed',
        result: { from: 70 },
        preview: {
          sentence: 'Moves 30 from a.',
          changes: [{ field: 'a', before: 100, after: 70 }],
        },
      },
      { as: 'rehearsed', preview: { changes: [{ field: 'b', before: 30, after: 20 }] } },
      { as: 'rehearsed', declaredId: 'bank__open' },
      { as: 'rehearsed', preview: { changes: [{ field: 'a', before: 80, after: 75 }] } },
    ]);
    expect(await desk.dump()).toEqual(before);
    expect(Object.keys(before)).toEqual(['public.accounts', 'public.entries']);
    expect(await desk.database.query('select key_hash from toolloop.calls')).toEqual([]);
  });

  it('makes no call that leaves the database, and tells what it would do', async () => {
    const around: Surroundings = { mails: [] };
    const desk = await bank(
      [calls(move('a', 'b', 1), mail('b'), balance('b')), text('Done.')],
      open,
      around,
    );
    const { toolCalls, rehearsal } = await desk.rehearse();
    expect(around.mails).toEqual([]);
    expect(toolCalls.map((one) => one.rehearsal)).toEqual(['rehearsed', 'previewed', 'rehearsed']);
    expect(rehearsal?.calls.map(({ as }) => as)).toEqual(['rehearsed', 'previewed']);
  });

  it('tells the failure of a call, and continues without it', async () => {
    const desk = await bank([
      calls(move('a', 'b', 1_000)),
      calls(move('a', 'nobody', 1)),
      calls(move('a', 'b', 1), balance('b')),
      text('Done.'),
    ]);
    const before = await desk.dump();
    const { toolCalls, rehearsal } = await desk.rehearse();
    expect(toolCalls).toMatchObject([
      { status: 'failed', error: { code: 'execution_failed' } },
      { status: 'failed', error: { safeMessage: 'There is no account nobody.' } },
      { status: 'succeeded' },
      { result: { balance: 1 } },
    ]);
    expect(rehearsal?.calls).toHaveLength(1);
    expect(await desk.dump()).toEqual(before);
  });

  it('holds no transaction while the model is asked: everything else continues', async () => {
    const asked: Promise<unknown>[] = [];
    let desk: Bank | undefined;
    const look = (): void => {
      if (desk) asked.push(desk.database.query('select count(*)::int as sum from accounts'));
    };
    const script = [calls(move('a', 'b', 1)), calls(balance('b')), text('Done.')];
    desk = await bank(script.map((turn) => () => (look(), turn)));
    await desk.rehearse();
    expect(await Promise.all(asked)).toEqual([[{ sum: 4 }], [{ sum: 4 }], [{ sum: 4 }]]);
  });

  it('says of a call that does not end that nothing of it was kept', async () => {
    const around: Surroundings = { mails: [], moved: () => new Promise(() => undefined) };
    const desk = await bank([calls(move('a', 'b', 1)), text('Done.')], open, around);
    const before = await desk.dump();
    const { toolCalls } = await desk.rehearse({ limits: { toolCallMs: 150 } });
    expect(toolCalls).toMatchObject([
      {
        status: 'failed',
        error: {
          code: 'execution_failed',
          safeMessage: expect.stringContaining('nothing of it was kept'),
        },
      },
    ]);
    expect(await desk.dump()).toEqual(before);
  });

  it('sees the rows of its own tenant alone, also of two tenants at once', async () => {
    const desk = await bank(Array.from({ length: 6 }, () => play));
    const both = await Promise.all([desk.rehearse(), desk.rehearse(bob)]);
    const seen = both.map(({ toolCalls }) => toolCalls.slice(1).map(({ result }) => result));
    expect(seen).toMatchObject([
      [{ balance: 95 }, { balance: 5 }],
      [{ balance: 2 }, { balance: 5 }],
    ]);
    expect([await desk.balances(), await desk.balances('globex')]).toEqual([
      { a: 100, b: 0 },
      { a: 7, b: 0 },
    ]);
  });
}

/** What becomes of a rehearsal once people have been asked. */
export function performsWhatWasApproved(place: Place): void {
  const started: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const end of started.splice(0).toReversed()) await end();
  });

  async function rehearsed(
    script: readonly ScriptedTurn[],
    policy: Policy = open,
    around: Surroundings = { mails: [] },
  ) {
    const { durable, drop } = await place();
    if (drop) started.push(drop);
    const desk = await Bank.start(durable, script, policy, around);
    started.push(() => desk.close());
    await desk.seed();
    const { runId, rehearsal, finishReason, waitingFor } = await desk.rehearse();
    expect([finishReason, waitingFor, rehearsal?.status]).toEqual([
      'waiting',
      'rehearsal',
      'waiting',
    ]);
    const [asked] = await desk.pending.inbox(alice, { kind: 'rehearsal' });
    const rehearsalId = asked?.id ?? '';
    const said = (decision: 'approve' | 'deny' | 'withdraw', person: typeof alice, on = runId) =>
      desk.runs.answer(on, { rehearsalId, decision }, person).then(
        () => 'taken',
        (error: unknown) => (error instanceof PendingError ? error.code : String(error)),
      );
    const resumed = async () => (await desk.loop.resume(runId, alice)).result;
    return { desk, durable, around, runId, rehearsalId, asked, said, resumed };
  }

  const TRANSFER = [
    calls(balance('a'), move('a', 'b', 30)),
    calls(opens('c'), mail('b')),
    calls(move('b', 'c', 10)),
    text('Done.'),
  ];

  it('is performed once it is approved: every call once, in their order, as any call is', async () => {
    const { desk, around, said, resumed, asked } = await rehearsed(TRANSFER);
    expect(asked).toMatchObject({
      request: {
        calls: [{ as: 'rehearsed' }, { as: 'rehearsed' }, { as: 'previewed' }, { as: 'rehearsed' }],
      },
    });
    expect(await said('approve', alice)).toBe('taken');
    const before = desk.model.requests.length;
    const result = await resumed();
    expect(result).toMatchObject({
      finishReason: 'stop',
      text: 'Done.',
      rehearsal: { status: 'performed' },
    });
    expect(result.rehearsal?.calls.map(({ outcome }) => outcome)).toEqual([
      'performed',
      'performed',
      'performed',
      'performed',
    ]);
    expect(result.toolCalls.filter(({ rehearsal }) => rehearsal === undefined)).toMatchObject([
      { declaredId: 'bank__move', result: { from: 70, to: 30 } },
      { declaredId: 'bank__open' },
      { declaredId: 'bank__mail' },
      { declaredId: 'bank__move', result: { from: 20, to: 10 } },
    ]);
    expect(await desk.balances()).toEqual({ a: 70, b: 20, c: 10 });
    expect(around.mails).toHaveLength(1);
    expect(desk.model.requests).toHaveLength(before); // no model is asked
    expect(await said('approve', alice)).toBe('already_answered');
    await expect(resumed()).rejects.toThrow(/waits for a decision/);
  });

  it('performs nothing where it is denied or withdrawn', async () => {
    for (const [decision, status] of [
      ['deny', 'denied'],
      ['withdraw', 'withdrawn'],
    ] as const) {
      const { desk, said, resumed } = await rehearsed(TRANSFER);
      const before = await desk.dump();
      expect(await said(decision, alice)).toBe('taken');
      expect(await resumed()).toMatchObject({ finishReason: 'stop', rehearsal: { status } });
      expect(await desk.dump()).toEqual(before);
    }
  });

  it('invariant 12: is approved by people whom the rules of every call in it admit, and by no forged answer', async () => {
    const { desk, said, resumed, rehearsalId, runId } = await rehearsed(TRANSFER, guarded);
    const before = await desk.dump();
    for (const person of [mia, tom])
      expect(await said('approve', person)).toMatch(/not_permitted|not_found/);
    expect(await said('approve', alice)).toBe('not_permitted');
    expect(await said('approve', bob)).toBe('not_found');
    expect(await said('approve', ann, 'another-run')).toBe('not_found');
    for (const forged of [
      { approvalId: rehearsalId, decision: 'approve' },
      { questionId: rehearsalId, answer: true },
      { rehearsalId, decision: 'yes' },
      { rehearsalId, answer: true },
    ])
      await expect(desk.runs.answer(runId, forged, ann)).rejects.toThrow(PendingError);
    expect(await resumed()).toMatchObject({ finishReason: 'waiting', waitingFor: 'rehearsal' });
    expect(await desk.dump()).toEqual(before);
    expect(await said('approve', ann)).toBe('taken');
    expect(await resumed()).toMatchObject({ rehearsal: { status: 'performed' } });
  });

  it('asks policy again about every call', async () => {
    const { desk, said, runId } = await rehearsed(TRANSFER);
    await said('approve', alice);
    const narrower: Policy = {
      ...open,
      version: 'v2',
      runBudgets: [{ tools: ['bank__move'], calls: 1 }],
    };
    const result = await (await desk.loop.resume(runId, { ...alice, policy: narrower })).result;
    expect(result).toMatchObject({
      finishReason: 'tool_error',
      rehearsal: { status: 'incomplete' },
    });
    expect(result.rehearsal?.calls.map(({ outcome }) => outcome)).toEqual([
      'performed',
      'performed',
      'performed',
      'failed',
    ]);
    expect(await desk.balances()).toEqual({ a: 70, b: 30, c: 0 });
  });

  it('performs nothing where a tool of one of its calls is not permitted any more', async () => {
    const { desk, said, runId } = await rehearsed(TRANSFER);
    await said('approve', alice);
    const before = await desk.dump();
    const result = await (
      await desk.loop.resume(runId, {
        ...alice,
        policy: { ...open, version: 'v2', deny: ['bank__open'] },
      })
    ).result;
    expect(result).toMatchObject({
      rehearsal: { status: 'changed', change: { declaredId: 'bank__open' } },
    });
    expect(await desk.dump()).toEqual(before);
  });

  it('makes no call behind one that fails, and says what took place', async () => {
    const around: Surroundings = { mails: [] };
    const { desk, said, resumed } = await rehearsed(
      [calls(move('a', 'b', 1)), calls(move('a', 'b', 2)), calls(mail('b')), text('Done.')],
      open,
      around,
    );
    await said('approve', alice);
    let made = 0; // both are compared before the first is made
    around.moved = () =>
      (made += 1) === 4 ? Promise.reject(new Error('The second one fails.')) : Promise.resolve();
    const result = await resumed();
    expect(result).toMatchObject({
      finishReason: 'tool_error',
      finishDetail:
        '1 of 3 calls took place; bank__move did not, and those behind it were not made.',
    });
    expect(result.rehearsal?.calls.map(({ outcome }) => outcome)).toEqual([
      'performed',
      'failed',
      'not_made',
    ]);
    expect([await desk.balances(), around.mails]).toEqual([{ a: 99, b: 1 }, []]);
  });

  it.each([
    [
      'what a read returned',
      `update accounts set balance = 90 where tenant = 'acme' and name = 'a'`,
      { declaredId: 'bank__balance', field: '/balance' },
    ],
    [
      'the version of a row',
      `update accounts set version = 9 where tenant = 'acme' and name = 'b'`,
      { declaredId: 'bank__move', field: '/Account b/version' },
    ],
    [
      'the possibility of a call',
      `insert into accounts (tenant, name, balance) values ('acme', 'c', 0)`,
      { declaredId: 'bank__open' },
    ],
  ])(
    'performs nothing where something has changed, and says which call and field: %s',
    async (_what, statement, change) => {
      const { desk, said, resumed, around } = await rehearsed(TRANSFER);
      await said('approve', alice);
      await desk.database.query(statement);
      const before = await desk.dump();
      const result = await resumed();
      expect(result).toMatchObject({
        finishReason: 'stop',
        rehearsal: { status: 'changed', change },
      });
      expect(result.rehearsal?.calls.map(({ outcome }) => outcome)).toEqual([
        'not_made',
        'not_made',
        'not_made',
        'not_made',
      ]);
      expect(await desk.dump()).toEqual(before);
      expect(around.mails).toEqual([]);
    },
  );

  it('performs nothing that changed in another tenant, and is not kept from it by that', async () => {
    const { desk, said, resumed } = await rehearsed(TRANSFER);
    await said('approve', alice);
    await desk.database.query(
      `update accounts set balance = 5, version = 4 where tenant = 'globex'`,
    );
    expect(await resumed()).toMatchObject({ rehearsal: { status: 'performed' } });
    expect(await desk.balances('globex')).toEqual({ a: 5, b: 5 });
  });
}

const QUICK = { heartbeatMs: 20, takeoverMs: 250, drainMs: 300 };
const DYING = { ...QUICK, heartbeatMs: 1e9, concurrency: 0 };

const until = async (desk: Bank, runId: string, status: string): Promise<RunView> => {
  for (;;) {
    const run = await desk.runs.get(runId, alice);
    if (run.status === status) return run;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
};

const approved = async (desk: Bank, runId: string): Promise<void> => {
  const [asked] = await desk.pending.inbox(alice, { kind: 'rehearsal', runId });
  await desk.runs.answer(runId, { rehearsalId: asked?.id, decision: 'approve' }, alice);
};

const endOf = async (desk: Bank, runId: string): Promise<LoopEvent | undefined> => {
  await until(desk, runId, 'ended');
  return lastValueFrom(desk.runs.events(runId, alice));
};

/**
 * What becomes of a durable rehearsal whose process is gone. The place is one that several
 * processes can open.
 */
export function outlivesItsProcess(place: Place): void {
  const started: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const end of started.splice(0).toReversed()) await end();
  });

  async function shared() {
    const { durable, drop } = await place();
    if (drop) started.push(drop);
    return async (
      script: readonly ScriptedTurn[],
      runs: RunOptions,
      around?: Surroundings,
    ): Promise<Bank> => {
      const desk = await Bank.start({ ...durable, runs }, script, open, around);
      started.push(() => desk.close());
      return desk;
    };
  }

  it('is performed by another process once it is approved', async () => {
    const start = await shared();
    const first = await start(
      [calls(balance('a'), move('a', 'b', 30)), calls(balance('b')), text('Done.')],
      DYING,
    );
    await first.seed();
    const { runId } = await first.rehearse({ durable: true });
    await first.close();
    const second = await start([], QUICK);
    expect(await until(second, runId, 'waiting')).toMatchObject({ waitingFor: 'rehearsal' });
    await approved(second, runId);
    expect(await endOf(second, runId)).toMatchObject({
      finishReason: 'stop',
      rehearsal: { status: 'performed' },
    });
    expect(await second.balances()).toEqual({ a: 70, b: 30 });
  });

  it('is rehearsed on by another process, which sees what was rehearsed before', async () => {
    const start = await shared();
    let isAsked: (() => void) | undefined;
    const asking = new Promise<void>((resolve) => (isAsked = resolve));
    const never = (): Promise<never> => (isAsked?.(), new Promise(() => undefined));
    const first = await start([calls(move('a', 'b', 30)), never], DYING);
    await first.seed();
    const handle = first.loop.open({ prompt: 'Go on.', ...alice, rehearse: true, durable: true });
    void handle.result.catch(() => undefined);
    await asking;
    const second = await start([calls(balance('b')), text('Done.')], QUICK);
    expect(await until(second, handle.runId, 'waiting')).toMatchObject({ waitingFor: 'rehearsal' });
    expect(JSON.stringify(second.model.requests[1]?.messages)).toContain(
      String.raw`\"balance\":30`,
    );
    expect(await second.balances()).toEqual({ a: 100, b: 0 });
  });

  it('invariant 13: makes each of its calls once, though the process dies between two of them', async () => {
    const start = await shared();
    const around: Surroundings = { mails: [] };
    const first = await start(
      [calls(move('a', 'b', 1), mail('b')), calls(move('a', 'b', 2)), text('Done.')],
      DYING,
      around,
    );
    await first.seed();
    const { runId } = await first.rehearse({ durable: true, approvals: 'suspend' });
    await approved(first, runId);
    await first.close();
    let hasMoved: (() => void) | undefined;
    const moving = new Promise<void>((resolve) => (hasMoved = resolve));
    let times = 0;
    const done = (): Promise<void> => {
      times += 1;
      if (times < 3) return Promise.resolve(); // both are compared before the first is made
      hasMoved?.();
      return new Promise(() => undefined);
    };
    await start([], { ...QUICK, heartbeatMs: 1e9 }, { ...around, done });
    await moving;
    const third = await start([], QUICK, around);
    expect(await endOf(third, runId)).toMatchObject({ rehearsal: { status: 'performed' } });
    expect(await third.balances()).toEqual({ a: 97, b: 3 });
    expect(around.mails).toHaveLength(1);
  });
}
