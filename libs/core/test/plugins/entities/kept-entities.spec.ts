import { describe, expect, it } from '@jest/globals';
import { LoopEventSink } from '@toolloop/core';
import { type RunEntry, type RunJournal, RunOpener } from '@toolloop/core/internal';
import { ScriptedModel, call, calls, text, type ScriptedTurn } from '@toolloop/testing';
import { Bank, openBank } from '../../fixtures/accounts.js';
import { resultsIn } from '../../fixtures/played-run.js';

const script: readonly ScriptedTurn[] = [
  calls(call('bank__account', { id: 'x/1' }), call('bank__deposit', { id: 'a' })),
  calls(call('account_h1_getBalance')),
  calls(call('deposit_a_getBalance'), call('bank__note', { text: 'x' })),
  text('Done.'),
];

class Silent extends LoopEventSink {
  override write(): void {}
}

function ignore(): void {}

/** Keeps whatever is written, in the order in which it is. */
function journalOf(entries: RunEntry[]): RunJournal {
  const keep = (entry: RunEntry): void => void entries.push(structuredClone(entry));
  return {
    sink: new Silent(),
    isOurs: true,
    note: keep,
    record: (entry) => Promise.resolve(keep(entry)),
    kept: () => Promise.resolve(),
    owe: ignore,
    handOver: ignore,
    cancel: ignore,
  };
}

/** A process that begins the run, or goes on with what was written of it. */
async function process(
  bank: Bank,
  turns: readonly ScriptedTurn[],
  entries: RunEntry[],
  before?: readonly RunEntry[],
) {
  const { module } = await openBank(bank, new ScriptedModel(turns));
  const runs: RunOpener = module.get(RunOpener);
  const request = {
    prompt: 'Go.',
    actor: { id: 'alice' },
    tenant: 'acme',
    limits: { injectedInstances: 2 },
  };
  const kept = {
    runId: 'run-1',
    loop: undefined,
    journal: journalOf(entries),
    ...(before && { entries: before, lastSequence: 100 }),
  };
  const result = await runs.openDurable(request, kept).result;
  await module.close();
  return result;
}

describe('a run that is written down', () => {
  it('has the tools of its entities wherever it continues, behind any of its entries', async () => {
    const bank = new Bank(
      { id: 'x/1', tenant: 'acme', balance: 30 },
      { id: 'a', tenant: 'acme', balance: 10 },
    );
    const written: RunEntry[] = [];
    const whole = await process(bank, script, written);
    for (let count = 1; count < written.length; count += 1) {
      const before = written.slice(0, count);
      const answered = before.filter(({ key }) => key.startsWith('model:')).length;
      const result = await process(bank, script.slice(answered), [], before);
      expect({ count, results: resultsIn(result.messages) }).toEqual({
        count,
        results: resultsIn(whole.messages),
      });
      expect(result.injectedTools).toEqual(whole.injectedTools);
    }
    expect(resultsIn(whole.messages)).toContain('acme x/1: 30, visit 1');
  });

  it('removes the same entities wherever it continues: a use before its process ended still counts', async () => {
    const turns = [
      calls(call('bank__account', { id: 'a' }), call('bank__account', { id: 'b' })),
      calls(call('account_a_getBalance'), call('bank__note', { text: 'x' })),
      calls(call('bank__account', { id: 'c' })),
      calls(call('account_a_getBalance'), call('account_b_getBalance')),
      text('Done.'),
    ];
    const bank = new Bank(...['a', 'b', 'c'].map((id) => ({ id, tenant: 'acme', balance: 1 })));
    const written: RunEntry[] = [];
    const whole = await process(bank, turns, written);
    expect(whole.toolCalls.slice(-2).map(({ error }) => error?.code)).toEqual([
      undefined,
      'tool_gone',
    ]);
    for (let count = 1; count < written.length; count += 1) {
      const before = written.slice(0, count);
      const answered = before.filter(({ key }) => key.startsWith('model:')).length;
      const result = await process(bank, turns.slice(answered), [], before);
      expect({ count, results: resultsIn(result.messages) }).toEqual({
        count,
        results: resultsIn(whole.messages),
      });
    }
  });
});
