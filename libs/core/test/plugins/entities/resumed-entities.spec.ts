import { describe, expect, it } from '@jest/globals';
import { Inject, Injectable, Scope } from '@nestjs/common';
import { REQUEST } from '@nestjs/core';
import {
  type EntityContext,
  EntityResolver,
  type LoopResult,
  type Policy,
  type ResumeRequest,
  type RunContext,
  ToolEntityResolver,
} from '@toolloop/core';
import { unlock } from '@toolloop/core/strategies';
import { ScriptedModel, call, calls, text, type ScriptedTurn } from '@toolloop/testing';
import {
  Account,
  Bank,
  DepositResolver,
  openBank,
  sharedStores,
  type BankOptions,
} from '../../fixtures/accounts.js';
import { resultOf, resultsIn } from '../../fixtures/played-run.js';

const alice = { actor: { id: 'alice' }, tenant: 'acme' };
const policy: Policy = {
  allow: ['*'],
  flow: 'off',
  requireApproval: [{ tools: ['bank__note', 'account_*_close', 'vault_*_close'] }],
};
const note = call('bank__note', { text: 'x' });
const find = (kind: string, id = 'a') => calls(call(`bank__${kind}`, { id }));
const row = (id: string, balance = 10, tenant = 'acme') => ({ id, balance, tenant });

interface Told {
  readonly first: LoopResult;
  readonly result: LoopResult;
  readonly before: ScriptedModel;
  readonly after: ScriptedModel;
  readonly bank: Bank;
}

interface Resumption extends BankOptions {
  /** What happens while the run waits. */
  readonly meanwhile?: (bank: Bank) => void;
  /** In the process that began it. @default another */
  readonly sameProcess?: boolean;
  readonly request?: ResumeRequest;
}

/** A run that waits for a yes, and goes on behind it, in another process that shares the stores. */
async function resumed(
  before: readonly ScriptedTurn[],
  after: readonly ScriptedTurn[],
  options: Resumption = {},
): Promise<Told> {
  const { meanwhile, sameProcess = false, request = alice, ...more } = options;
  const bank = new Bank(row('a'), row('b', 20), row('x/1', 30), row('e', 0));
  const models = [new ScriptedModel(before), new ScriptedModel([...after, text('Done.')])] as const;
  const stores = sharedStores();
  const one = await openBank(bank, models[0], { policy, stores, ...more });
  const first = await resultOf(one.loop.open({ prompt: 'Go.', ...alice }));
  expect(first.finishReason).toBe('waiting');
  await one.approve(alice);
  meanwhile?.(bank);
  const two = sameProcess ? one : await openBank(bank, models[1], { policy, stores, ...more });
  const result = await resultOf(
    await two.loop.resume(first.runId, { ...request, model: models[1] }),
  );
  models[1].assertComplete();
  return { first, result, before: models[0], after: models[1], bank };
}

const codes = ({ result }: Told) =>
  result.toolCalls.map(({ status, error }) => error?.code ?? status);
const toolsOf = (model: ScriptedModel) => JSON.stringify(model.requests.at(-1)?.tools);

/** One account is closed, the other is Mia's from now on. */
function withdraw(bank: Bank): void {
  bank.close('acme', 'a');
  bank.put({ ...row('b'), holders: ['mia'] });
}

const visitOf = (id: string) =>
  new ScriptedModel([calls(call(`account_${id}_getBalance`)), text('Done.')]);
const scopedFor: unknown[] = [];

@Injectable({ scope: Scope.REQUEST })
@ToolEntityResolver(Account)
class ScopedResolver extends EntityResolver<Account> {
  constructor(
    private readonly bank: Bank,
    @Inject(REQUEST) run: RunContext,
  ) {
    super();
    scopedFor.push(run.actor);
  }

  override resolve(id: string, { tenant, actor }: EntityContext): Account | undefined {
    const found = this.bank.find(tenant, id, actor);
    return found && new Account(found);
  }
}

describe.each([true, false])(
  'a run that waited and continues (same process: %s)',
  (sameProcess) => {
    it.each(['account', 'deposit'])(
      'has the tools of its %ss again, with the same bytes in the same order',
      async (kind) => {
        const begin = [find(kind, 'b'), find(kind, 'x/1'), find(kind, 'a'), calls(note)];
        const { before, after, first, result, bank } = await resumed(begin, [], { sameProcess });
        expect(toolsOf(after)).toBe(toolsOf(before));
        expect(result.injectedTools).toEqual(first.injectedTools);
        expect(bank.asked).toEqual([]); // nothing is looked for until it is called
      },
    );

    it('keeps the order of tools that came in different ways', async () => {
      const begin = [find('account', 'b'), find('vault'), find('deposit'), calls(note)];
      const injection = [unlock({ after: 'bank__vault', tools: ['bank__everything'] })];
      const { before, after } = await resumed(begin, [], { sameProcess, injection });
      const had = before.requests.at(-1)?.toolIds ?? [];
      expect(had.indexOf('bank__everything')).toBeGreaterThan(had.indexOf('account_b_close'));
      expect(after.requests.at(-1)?.toolIds).toEqual(
        sameProcess ? had : had.filter((id) => !id.startsWith('vault')),
      );
    });

    it('finds an instance when its tool is called, as it is now', async () => {
      const filled = { sameProcess, meanwhile: (bank: Bank) => bank.put(row('a', 99)) };
      const told = await resumed(
        [find('deposit'), calls(note)],
        [calls(call('deposit_a_getBalance'))],
        filled,
      );
      expect(resultsIn(told.result.messages).at(-1)).toBe('acme a: 99, visit 1');
      expect(told.result.toolCalls.at(-1)).toMatchObject({
        entity: { provider: 'Deposit', instanceId: 'a', depth: 1 },
      });
    });

    it('keeps what was found once, where that is wanted', async () => {
      const visit = calls(call('deposit_a_getBalance'));
      const told = await resumed([find('deposit'), calls(note)], [visit, visit], { sameProcess });
      expect(resultsIn(told.result.messages).slice(-2)).toEqual([
        'acme a: 10, visit 1',
        'acme a: 10, visit 2',
      ]);
      expect(told.bank.asked).toHaveLength(1);
    });

    it('finds it by the handle that stands for it', async () => {
      const told = await resumed(
        [find('account', 'x/1'), calls(note)],
        [calls(call('account_h1_getBalance'))],
        { sameProcess },
      );
      expect(resultsIn(told.result.messages).at(-1)).toBe('acme x/1: 30, visit 1');
    });

    it('does not call what is gone, or not for this actor any more', async () => {
      const both = calls(call('account_a_getBalance'), call('account_b_getBalance'));
      const told = await resumed([calls(call('bank__accounts')), calls(note)], [both], {
        meanwhile: withdraw,
        sameProcess,
      });
      expect(codes(told).slice(-2)).toEqual(['tool_gone', 'tool_gone']);
      expect(JSON.stringify(told.result.messages)).not.toContain('visit');
    });

    it("asks under the actor that it continues for, with the actor's current roles", async () => {
      const request = { actor: { id: 'alice', roles: ['former'] }, tenant: 'acme' };
      const told = await resumed(
        [find('account'), calls(note)],
        [calls(call('account_a_getBalance'))],
        { request, sameProcess },
      );
      expect(told.bank.asked[0]?.context.actor).toEqual(request.actor);
    });

    it('decides on the call that waited by the instance as it is now', async () => {
      const begin = [find('account', 'e'), calls(call('account_e_close'), note)];
      const full = await resumed(begin, [], {
        sameProcess,
        meanwhile: (bank) => bank.put(row('e', 5)),
      });
      const empty = await resumed(begin, [], { sameProcess });
      expect([codes(full), codes(empty)]).toEqual([
        ['succeeded', 'policy_denied', 'succeeded'],
        ['succeeded', 'succeeded', 'succeeded'],
      ]);
    });

    it('has the tools of what was found in the very step that waited', async () => {
      const begin = [calls(call('bank__accounts'), note)];
      const told = await resumed(begin, [calls(call('account_b_getBalance'))], { sameProcess });
      expect(resultsIn(told.result.messages).at(-1)).toBe('acme b: 20, visit 1');
      expect(told.result.toolCalls.at(-1)).toMatchObject({ entity: { depth: 1 } });
    });

    it('keeps out what it excludes from now on', async () => {
      const request = { ...alice, exclude: [Account] };
      const told = await resumed(
        [find('account'), calls(note)],
        [calls(call('account_a_getBalance'))],
        { request, sameProcess },
      );
      expect(codes(told).at(-1)).toBe('unknown_tool');
      expect(told.bank.asked).toEqual([]);
    });

    it('makes a request-scoped resolver anew, for the actor it continues for', async () => {
      const request = { actor: { id: 'alice', roles: ['former'] }, tenant: 'acme' };
      scopedFor.length = 0;
      const visit = calls(call('account_a_getBalance'));
      await resumed([find('account'), visit, visit, calls(note)], [visit], {
        request,
        sameProcess,
        resolvers: [ScopedResolver, DepositResolver],
      });
      expect(scopedFor).toEqual([alice.actor, request.actor]);
    });

    it('counts the tools it has again against the cap', async () => {
      const limits = { injectedTools: 2 };
      const told = await resumed(
        [find('account'), calls(note)],
        [find('account', 'b'), calls(call('account_b_getBalance'))],
        {
          sameProcess,
          limits,
        },
      );
      expect(codes(told).at(-1)).toBe('unknown_tool');
    });
  },
);

describe('a run that continues without its entities', () => {
  it('answers a call of one without a resolver with the way back, and takes it', async () => {
    const visit = calls(call('vault_a_getBalance'));
    const told = await resumed([find('vault'), calls(note)], [visit, find('vault'), visit]);
    expect(codes(told).slice(2)).toEqual(['tool_gone', 'succeeded', 'succeeded']);
    expect(resultsIn(told.result.messages)[2]).toContain('To get it back, call bank__vault again.');
  });

  it('answers the very call that waited so', async () => {
    const told = await resumed([find('vault', 'e'), calls(call('vault_e_close'), note)], []);
    expect(codes(told)).toEqual(['succeeded', 'tool_gone', 'succeeded']);
  });

  it('says nothing of an id, which may be anybody’s words', async () => {
    const told = await resumed(
      [find('vault', 'x/1'), calls(note)],
      [calls(call('vault_h1_getBalance'))],
    );
    expect(codes(told).at(-1)).toBe('tool_gone');
    expect(resultsIn(told.result.messages).at(-1)).not.toContain('x/1');
  });

  it('remembers through a second wait in a third process', async () => {
    const bank = new Bank(row('a'), row('b'));
    const stores = sharedStores();
    let runId = '';
    const parts: ScriptedTurn[][] = [
      [find('account'), find('vault', 'b'), calls(note)],
      [calls(call('bank__note', { text: 'y' }))],
      [calls(call('account_a_getBalance'), call('vault_b_getBalance')), text('Done.')],
    ];
    let last: LoopResult | undefined;
    for (const part of parts) {
      const process = await openBank(bank, new ScriptedModel(part), { policy, stores });
      last = await resultOf(
        runId === ''
          ? process.loop.open({ prompt: 'Go.', ...alice })
          : await process.loop.resume(runId, alice),
      );
      runId = last.runId;
      await process.approve(alice);
    }
    expect(last?.toolCalls.slice(-2).map(({ status, error }) => error?.code ?? status)).toEqual([
      'succeeded',
      'tool_gone',
    ]);
  });

  it('invariant 9: finds nothing of another tenant, though its ids are the same', async () => {
    const bank = new Bank(row('a'), row('a', 77, 'globex'));
    const stores = sharedStores();
    const one = await openBank(bank, new ScriptedModel([]), { policy, stores });
    const who = [alice, { actor: { id: 'bob' }, tenant: 'globex' }];
    const begun = await Promise.all(
      who.map((whose) =>
        resultOf(
          one.loop.open({
            prompt: 'Go.',
            ...whose,
            model: new ScriptedModel([find('account'), calls(note)]),
          }),
        ),
      ),
    );
    for (const whose of who) await one.approve(whose);
    const two = await openBank(bank, new ScriptedModel([]), { policy, stores });
    const ended = await Promise.all(
      who.map(async (whose, index) =>
        resultOf(
          await two.loop.resume(begun[index]?.runId ?? '', { ...whose, model: visitOf('a') }),
        ),
      ),
    );
    expect(ended.map(({ messages }) => resultsIn(messages).at(-1))).toEqual([
      'acme a: 10, visit 1',
      'globex a: 77, visit 1',
    ]);
    await expect(
      two.loop.resume(begun[0]?.runId ?? '', { actor: { id: 'bob' }, tenant: 'globex' }),
    ).rejects.toMatchObject({
      code: 'unknown_run',
    });
  });

  it('lists them without asking each whether it can be called: that is asked at the call', async () => {
    const told = await resumed(
      [calls(call('bank__accounts')), calls(note)],
      [calls(call('account_a_close'), call('account_e_close'))],
      {
        strictListing: true,
        meanwhile: (bank) => [row('a', 0), row('e', 5)].forEach((one) => bank.put(one)),
      },
    );
    // What was not listed when it was found, for want of its own yes, is not listed now.
    expect(codes(told).slice(-2)).toEqual(['unknown_tool', 'policy_denied']);
    expect(told.bank.asked.map(({ id }) => id)).toEqual(['e']);
  });
});
