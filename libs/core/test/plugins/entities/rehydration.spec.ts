import { describe, expect, it } from '@jest/globals';
import { ForbiddenException, NotFoundException } from '@nestjs/common';
import { type LoopRequest, type LoopResult, ToolError } from '@toolloop/core';
import { DataPolicyEngine } from '@toolloop/core/policy';
import { ScriptedModel, call, calls, eventsOf, text, type ScriptedTurn } from '@toolloop/testing';
import {
  Account,
  Bank,
  Deposit,
  openBank,
  type AccountRow,
  type BankOptions,
  type OpenBank,
} from '../../fixtures/accounts.js';
import { play, resultsIn, type PlayedRun } from '../../fixtures/played-run.js';

const alice = { actor: { id: 'alice' }, tenant: 'acme' };
const row = (id: string, more: Partial<AccountRow> = {}): AccountRow => ({
  id,
  tenant: 'acme',
  balance: 10,
  ...more,
});
const find = (id = 'a') => calls(call('bank__account', { id }));
const balance = (id = 'a') => calls(call(`account_${id}_getBalance`));
const close = calls(call('account_a_close'));

interface Played extends PlayedRun {
  readonly bank: Bank;
  readonly model: ScriptedModel;
}

type Step = (bank: Bank, opened: OpenBank) => ScriptedTurn;

/** Plays steps, each of which may change what is stored before the model answers. */
async function playBank(
  steps: readonly (ScriptedTurn | Step)[],
  options: BankOptions = {},
  request: Partial<LoopRequest> = {},
): Promise<Played> {
  const bank = new Bank(row('a'), row('b', { balance: 20 }));
  let opened: OpenBank | undefined;
  const script = [...steps, text('Done.')].map((step): ScriptedTurn => {
    if (typeof step !== 'function' || step.length < 1) return step as ScriptedTurn;
    return (asked) => {
      const turn = (step as Step)(bank, opened as OpenBank);
      return typeof turn === 'function' ? turn(asked) : turn;
    };
  });
  const model = new ScriptedModel(script);
  opened = await openBank(bank, model, options);
  const played = await play(opened.loop, { prompt: 'Go on.', ...alice, ...request });
  model.assertComplete();
  return { ...played, bank, model };
}

/** The next answer comes when something has changed. */
const when =
  (change: (bank: Bank, opened: OpenBank) => void, turn: ScriptedTurn): Step =>
  (bank, opened) => {
    change(bank, opened);
    return turn;
  };

const last = ({ result }: { readonly result: LoopResult }) => result.toolCalls.at(-1);

describe('an entity with a resolver', () => {
  it('is found anew before every call, so that none sees stale data', async () => {
    const changed = when((bank) => bank.put(row('a', { balance: 99 })), balance());
    const { result, bank } = await playBank([find(), balance(), changed]);
    expect(resultsIn(result.messages).slice(1)).toEqual([
      'acme a: 10, visit 1',
      'acme a: 99, visit 1',
    ]);
    expect(bank.asked.map(({ id }) => id)).toEqual(['a', 'a']);
  });

  it('is looked for in the name of whom the run acts for, with its context and a signal', async () => {
    const { bank } = await playBank([find(), balance()], {}, { context: { locale: 'de' } });
    const [asked] = bank.asked;
    expect(asked?.context).toMatchObject({
      ...alice,
      context: { locale: 'de' },
      runId: expect.any(String),
    });
    expect(asked?.context.signal).toBeInstanceOf(AbortSignal);
  });

  it('keeps its tool, its place and its bytes', async () => {
    const { model, events } = await playBank([find(), balance(), balance()]);
    expect(model.requests[3]?.tools).toBe(model.requests[1]?.tools);
    expect(eventsOf(events, 'tools-injected')).toHaveLength(1);
  });

  it('is asked as it is now whether it can be called', async () => {
    const emptied = when((bank) => bank.put(row('a', { balance: 0 })), close);
    const filled = when((bank) => bank.put(row('a', { balance: 5 })), close);
    const { result } = await playBank([find(), close, emptied, filled]);
    expect(result.toolCalls.slice(1).map(({ status, error }) => error?.code ?? status)).toEqual([
      'policy_denied',
      'succeeded',
      'policy_denied',
    ]);
  });

  it('is looked for once by calls that are made together, and anew by a write behind them', async () => {
    const empty = when((bank) => bank.put(row('a', { balance: 0 })), find());
    const together = calls(
      call('account_a_getBalance'),
      call('account_a_getBalance'),
      call('account_a_close'),
    );
    const { bank, result } = await playBank([empty, together]);
    expect(result.toolCalls.slice(1).map(({ status }) => status)).toEqual([
      'succeeded',
      'succeeded',
      'succeeded',
    ]);
    expect(bank.asked).toHaveLength(2);
  });

  it('is not looked for where policy denies the call', async () => {
    const denied = when(
      (_bank, { module }) =>
        module.get(DataPolicyEngine).replace({ allow: ['bank__*'], flow: 'off' }),
      balance(),
    );
    const played = await playBank([find(), denied]);
    expect(last(played)).toMatchObject({
      status: 'denied',
      error: { code: 'policy_denied' },
      declaredId: 'account_*_getBalance',
    });
    expect(played.bank.asked).toEqual([]);
  });
});

describe('an entity that is found anew', () => {
  it('is answered when it is gone, and the run continues', async () => {
    const gone = when((bank) => bank.close('acme', 'a'), balance());
    const played = await playBank([find(), gone, balance('a')]);
    const { error } = last(played) ?? {};
    expect(error).toMatchObject({
      code: 'tool_gone',
      safeMessage: expect.stringContaining('Call bank__account to see what there is now.'),
    });
    expect(played.result.finishReason).toBe('stop');
    expect(JSON.stringify(played.result.messages)).not.toContain('visit');
  });

  it('reads as if it were gone when it is no longer for this actor', async () => {
    const gone = await playBank([find(), when((bank) => bank.close('acme', 'a'), balance())]);
    const withheld = await playBank([
      find(),
      when((bank) => bank.put(row('a', { holders: ['mia'] })), balance()),
    ]);
    expect(resultsIn(withheld.result.messages).at(-1)).toBe(resultsIn(gone.result.messages).at(-1));
  });

  it('is called again when it is there again', async () => {
    const gone = when((bank) => bank.close('acme', 'a'), balance());
    const back = when((bank) => bank.put(row('a', { balance: 7 })), balance());
    const { result } = await playBank([find(), gone, back]);
    expect(resultsIn(result.messages).at(-1)).toBe('acme a: 7, visit 1');
  });

  it.each<[string, () => unknown, object]>([
    [
      'a ForbiddenException',
      () => {
        throw new ForbiddenException('Not your account.');
      },
      { status: 'denied', error: { code: 'forbidden', safeMessage: 'Not your account.' } },
    ],
    [
      'a NotFoundException',
      () => {
        throw new NotFoundException('secret');
      },
      { status: 'failed', error: { code: 'tool_gone', safeMessage: expect.any(String) } },
    ],
    ['null', () => null, { status: 'failed', error: { code: 'tool_gone' } }],
    [
      'a ToolError',
      () => {
        throw new ToolError('The bank is closed at night.');
      },
      { error: { code: 'execution_failed', safeMessage: 'The bank is closed at night.' } },
    ],
    [
      'any other error',
      () => {
        throw new Error('ECONNREFUSED 10.0.0.1');
      },
      {
        status: 'failed',
        error: { code: 'execution_failed', retryable: true, correlationId: expect.any(String) },
      },
    ],
    [
      'another id',
      () => new Account(row('b')),
      { status: 'failed', error: { code: 'execution_failed', correlationId: expect.any(String) } },
    ],
    [
      'another class',
      () => new Deposit(row('a')),
      { status: 'failed', error: { code: 'execution_failed', correlationId: expect.any(String) } },
    ],
    [
      'a row',
      () => row('a'),
      { status: 'failed', error: { code: 'execution_failed', correlationId: expect.any(String) } },
    ],
    [
      "another tenant's",
      () => new Account(row('a', { tenant: 'globex' })),
      { status: 'failed', error: { code: 'execution_failed', correlationId: expect.any(String) } },
    ],
  ])('is not called when its resolver gives %s', async (_what, answer, expected) => {
    const played = await playBank([find(), when((bank) => (bank.answer = answer), balance())]);
    expect(last(played)).toMatchObject(expected);
    expect(JSON.stringify([played.events, played.result])).not.toMatch(
      /visit|ECONNREFUSED|globex|secret/,
    );
    expect(played.result.finishReason).toBe('stop');
  });

  it('is resolved within the time of a call, after which the resolver is told to stop', async () => {
    const silent = when((bank) => (bank.answer = () => new Promise(() => undefined)), balance());
    const played = await playBank([find(), silent], {}, { limits: { toolCallMs: 20 } });
    expect(last(played)).toMatchObject({
      status: 'failed',
      error: { code: 'timeout', retryable: true },
    });
    expect(played.bank.asked[0]?.context.signal.aborted).toBe(true);
  });

  it('stays as long as the run lasts', async () => {
    const bank = new Bank(row('a'));
    const { loop } = await openBank(bank, new ScriptedModel([find(), balance()]));
    const handle = loop.open({ prompt: 'Go.', ...alice });
    bank.answer = () => {
      setImmediate(() => handle.cancel());
      return new Promise(() => undefined);
    };
    await expect(handle.result).rejects.toMatchObject({ result: { finishReason: 'aborted' } });
    expect(bank.asked[0]?.context.signal.aborted).toBe(true);
  });

  it('is resolved once more after a person was waited for', async () => {
    const bank = new Bank(row('a', { balance: 0 }));
    const policy = {
      allow: ['*'],
      flow: 'off',
      requireApproval: [{ tools: ['account_*_close'] }],
    } as const;
    const opened = await openBank(bank, new ScriptedModel([find(), close, text('Done.')]), {
      policy,
    });
    const running = opened.loop.run({ prompt: 'Go.', ...alice, approvals: 'wait' });
    while (bank.asked.length === 0) await new Promise((resolve) => setTimeout(resolve, 1));
    await new Promise((resolve) => setTimeout(resolve, 5));
    bank.put(row('a', { balance: 3 }));
    await opened.approve(alice);
    expect((await running).toolCalls.at(-1)).toMatchObject({
      status: 'denied',
      error: { code: 'policy_denied' },
    });
    expect(bank.asked).toHaveLength(2);
  });
});

describe('an entity whose call waited for a person in the same process', () => {
  it('is called as it is by then', async () => {
    const bank = new Bank(row('a'));
    const policy = {
      allow: ['*'],
      flow: 'off',
      requireApproval: [{ tools: ['account_*_getBalance'] }],
    } as const;
    const opened = await openBank(bank, new ScriptedModel([find(), balance(), text('Done.')]), {
      policy,
    });
    const running = opened.loop.run({ prompt: 'Go.', ...alice, approvals: 'wait' });
    while (bank.asked.length === 0) await new Promise((resolve) => setTimeout(resolve, 1));
    await new Promise((resolve) => setTimeout(resolve, 5));
    bank.put(row('a', { balance: 3 }));
    await opened.approve(alice);
    expect(resultsIn((await running).messages).at(-1)).toBe('acme a: 3, visit 1');
  });
});

describe('an entity that says whose it is', () => {
  it("brings no tools where it is another tenant's, and keeps nothing from the others", async () => {
    const bank = new Bank(row('a'), row('g', { tenant: 'globex' }));
    const { loop } = await openBank(
      bank,
      new ScriptedModel([calls(call('bank__everything')), text('Done.')]),
    );
    const { result, events } = await play(loop, { prompt: 'Go.', ...alice });
    expect(result.injectedTools.map(({ id }) => id)).toEqual([
      'account_a_getBalance',
      'account_a_close',
    ]);
    expect(eventsOf(events, 'warning')).toMatchObject([{ code: 'injection_failed' }]);
  });
});

describe('an entity that is found anew after a wait only', () => {
  it('keeps what it keeps between the calls of a run', async () => {
    const visit = calls(call('deposit_a_getBalance'));
    const { result, bank } = await playBank([
      calls(call('bank__deposit', { id: 'a' })),
      visit,
      visit,
    ]);
    expect(resultsIn(result.messages).slice(1)).toEqual([
      'acme a: 10, visit 1',
      'acme a: 10, visit 2',
    ]);
    expect(bank.asked).toEqual([]);
  });
});

/** Calls its own, and one that it never was given. */
const guessing = (id: string): ScriptedTurn[] => [
  find(),
  balance(),
  calls(call(`account_${id}_getBalance`), call('account_a_getBalance')),
  text('Done.'),
];

describe('two tenants at once', () => {
  it('invariant 9: each reaches its own instance of one id, and guesses none of the other', async () => {
    const bank = new Bank(
      row('a'),
      row('a', { tenant: 'globex', balance: 77 }),
      row('g', { tenant: 'globex' }),
    );
    const { loop } = await openBank(bank, new ScriptedModel([]), {});
    const [acme, globex] = await Promise.all([
      play(loop, { prompt: 'Go.', ...alice, model: new ScriptedModel(guessing('g')) }),
      play(loop, {
        prompt: 'Go.',
        actor: { id: 'bob' },
        tenant: 'globex',
        model: new ScriptedModel(guessing('b')),
      }),
    ]);
    expect(JSON.stringify([acme.result, acme.result.messages])).not.toMatch(/globex|: 77/);
    expect(resultsIn(globex.result.messages).at(-1)).toBe('globex a: 77, visit 1');
    for (const { result } of [acme, globex])
      expect(result.toolCalls[2]).toMatchObject({ error: { code: 'unknown_tool' } });
    for (const { id, context } of bank.asked)
      expect([id, (context.actor as { id: string }).id]).toEqual([
        'a',
        context.tenant === 'acme' ? 'alice' : 'bob',
      ]);
  });
});
