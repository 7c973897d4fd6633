import { afterEach, expect, it } from '@jest/globals';
import type { Policy } from '@toolloop/core';
import type { DurableOptions } from '@toolloop/durable';
import { calls, type ScriptedTurn, text } from '@toolloop/testing';
import { balance, Bank, bob, mail, move, open, opens, type Surroundings, total } from './fixtures/bank.js';

/** A database that one test has to itself. */
export type Place = () => Promise<{ readonly durable: DurableOptions; readonly drop?: () => Promise<void> }>;

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

  async function bank(script: readonly ScriptedTurn[], policy: Policy = open, around?: Surroundings): Promise<Bank> {
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
        preview: { sentence: 'Moves 30 from a.', changes: [{ field: 'a', before: 100, after: 70 }] },
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
    const desk = await bank([calls(move('a', 'b', 1), mail('b'), balance('b')), text('Done.')], open, around);
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
      { status: 'failed', error: { code: 'execution_failed', safeMessage: expect.stringContaining('nothing of it was kept') } },
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
