import { describe, expect, it } from '@jest/globals';
import { type Limits, type Policy, subRunTool, type ToolInvocationRecord } from '@toolloop/core';
import { type RunEntry, RunOpener } from '@toolloop/core/internal';
import {
  PendingStore,
  CallJournal,
  MemoryPendingStore,
  MemoryCallJournal,
} from '@toolloop/core/stores';
import {
  ScriptedModel,
  call,
  calls,
  text,
  type ScriptedAnswer,
  type ScriptedTurn,
} from '@toolloop/testing';
import { Bank, openBank } from '../../fixtures/accounts.js';
import { KeptJournal } from './kept-journal.js';
import { read, research, stage, write, type Script } from './stage.js';

/** Stores that all processes share. */
const stores = () => [
  { provide: PendingStore, useValue: new MemoryPendingStore() },
  { provide: CallJournal, useValue: new MemoryCallJournal() },
];

/** Answers by the transcript alone, as a model does: whichever process asks. */
function byTranscript(...answers: readonly ScriptedAnswer[]): readonly ScriptedTurn[] {
  const turn: ScriptedTurn = ({ messages }) =>
    answers[messages.filter(({ role }) => role === 'assistant').length] ?? text('More?');
  return Array.from({ length: 50 }, () => turn);
}

interface Cut extends Pick<Script, 'inner' | 'outer' | 'subRun'> {
  readonly limits?: Partial<Limits>;
  readonly rules?: Pick<Policy, 'requireApproval' | 'runBudgets'>;
}

const RUNS: readonly (readonly [string, Cut])[] = [
  [
    'with effects',
    { inner: byTranscript(calls(write('w1')), calls(read('r'), write('w2')), text('Written.')) },
  ],
  [
    'beside others, twice',
    {
      outer: byTranscript(
        calls(
          call('research', { prompt: 'One.' }),
          call('research', { prompt: 'Two.' }),
          write('w'),
        ),
        calls(call('research', { prompt: 'Three.' })),
        text('Told.'),
      ),
      inner: byTranscript(calls(read('r')), calls(write('w')), text('So.')),
    },
  ],
  [
    'within a sub-run',
    {
      limits: { subRunDepth: 2 },
      subRun: { tools: ['*'] },
      inner: Array.from({ length: 50 }, (): ScriptedTurn => ({ messages }) => {
        const answers = messages.filter(({ role }) => role === 'assistant').length;
        if (JSON.stringify(messages[0]).includes('Deeper'))
          return [calls(write('w')), text('Deep.')][answers] ?? text('More?');
        return (
          [
            calls(read('r'), call('research', { prompt: 'Deeper.' })),
            calls(read('s')),
            text('So.'),
          ][answers] ?? text('More?')
        );
      }),
    },
  ],
  [
    'that shares its steps',
    {
      limits: { steps: 4 },
      inner: byTranscript(calls(read('1')), calls(read('2')), calls(read('3')), text('Never.')),
    },
  ],
  [
    'that shares a limit with it',
    {
      limits: { callsPerTool: 2 },
      outer: byTranscript(calls(read('a')), research(), text('Told.')),
      inner: byTranscript(calls(read('b')), calls(read('c')), text('So.')),
    },
  ],
  [
    'that waited for a person',
    {
      inner: byTranscript(calls(read('r'), write('w')), calls(read('s')), text('So.')),
      rules: { requireApproval: [{ tools: ['probe__write'] }] },
    },
  ],
  [
    'that has a budget of a policy with it',
    {
      rules: { runBudgets: [{ tools: ['probe__write'], calls: 2 }] },
      outer: byTranscript(calls(write('w0')), research(), text('Told.')),
      // the third is one too many
      inner: byTranscript(calls(write('w1')), calls(write('w2')), text('So.')),
    },
  ],
];

describe('a run that is taken over', () => {
  it.each(RUNS)(
    'comes, after any of its entries, to the same result with a sub-run %s',
    async (_name, { limits = {}, rules = {}, ...script }) => {
      const policy: Policy = { version: 'v1', allow: ['*'], flow: 'off', ...rules };
      const options = { policy, providers: stores() };
      const outer = script.outer ?? byTranscript(research(), text('Told.'));
      const play = async (entries: readonly RunEntry[]) => {
        const process = await stage({ ...script, outer, options });
        const journal = new KeptJournal([...entries]);
        const opened = process.module.get<RunOpener>(RunOpener);
        const { result } = opened.openDurable(process.request({ limits }), {
          runId: 'run-1',
          loop: undefined,
          journal,
          entries,
        });
        return { ...process, journal, result: await result };
      };
      let whole = await play([]);
      if (rules.requireApproval) {
        await whole.decide('approve');
        whole = await play(whole.journal.flush());
      }
      const entries = whole.journal.flush();
      expect(whole.result.finishReason).toBe('stop');
      const { text: said, usage, toolCalls, steps } = whole.result;
      const decided = entries.findIndex(({ key }) => key.startsWith('wait:')) + 1;
      for (let cut = Math.max(1, decided); cut < entries.length; cut += 1) {
        // the limit is met again by the next call
        if (JSON.stringify(entries[cut - 1]).includes('budget_exceeded')) continue;
        const { result, done, inner } = await play(entries.slice(0, cut));
        const at = entries[cut - 1]?.key;
        expect([at, result.finishReason, result.text, result.steps]).toEqual([
          at,
          'stop',
          said,
          steps,
        ]);
        expect([at, result.usage]).toEqual([at, usage]);
        expect([at, answersIn(entries.slice(0, cut)) + inner.requests.length]).toEqual([
          at,
          answersIn(entries),
        ]);
        expect([at, result.toolCalls.map(shapeOf)]).toEqual([at, toolCalls.map(shapeOf)]);
        // the journal knows
        expect([at, done.filter((key) => key.startsWith('w'))]).toEqual([at, []]);
      }
    },
  );
});

/**
 * How many answers of the models of sub-runs are in what was written down: those with calls by
 * themselves, the last ones with the call of the sub-run.
 */
function answersIn(entries: readonly RunEntry[]): number {
  const ends = entries.filter(isSubRun);
  return entries.filter(({ key }) => /\/model:/.test(key)).length + ends.length;
}

/**
 * Whether an outcome, of this run or of one within it, is that of a sub-run that said the last word
 * itself.
 */
function isSubRun(entry: RunEntry): boolean {
  if (entry.type === 'sub-run') return isSubRun(entry.entry);
  const { record } = entry.type === 'tool' ? entry.value : {};
  return (
    typeof record === 'object' &&
    record !== null &&
    JSON.stringify(Reflect.get(record, 'subRun') ?? '').includes('"finishReason":"stop"')
  );
}

/** What of a record is the same in every process. */
function shapeOf({ id, status, step, index, result, subRun }: ToolInvocationRecord): unknown {
  return {
    id,
    status,
    step,
    index,
    result,
    ...(subRun && {
      steps: subRun.steps,
      usage: subRun.usage,
      calls: subRun.toolCalls?.map(shapeOf),
    }),
  };
}

const inquiry = (prompt: string) => call('research', { prompt });
const find = (id: string) => calls(call('bank__account', { id }));

describe('an entity that a sub-run has found', () => {
  it('has the name by which it was called in the next process, too', async () => {
    const [one, other] = ['a'.repeat(40), 'b'.repeat(40)];
    const bank = new Bank(
      { id: one, tenant: 'acme', balance: 10 },
      { id: other, tenant: 'acme', balance: 20 },
    );
    const play = async (inner: ScriptedModel, outer: ScriptedModel, journal: KeptJournal) => {
      const tools = [
        subRunTool({ id: 'research', description: 'Finds out.', tools: ['*'], model: inner }),
      ];
      const { module } = await openBank(bank, outer, { tools });
      const who = { actor: { id: 'alice' }, tenant: 'acme' };
      const kept = { runId: 'run-1', loop: undefined, journal, entries: [...journal.entries] };
      return module.get<RunOpener>(RunOpener).openDurable({ prompt: 'Go on.', ...who }, kept)
        .result;
    };
    const written = new KeptJournal();
    const first = new ScriptedModel([
      find(one),
      text('One.'),
      find(other),
      calls(call('account_h2_getBalance')),
      text('Two.'),
    ]);
    await play(
      first,
      new ScriptedModel([calls(inquiry('One.'), inquiry('Two.')), text('Told.')]),
      written,
    );
    // the second sub-run calls
    const upTo = written.flush().findIndex(({ key }) => key.endsWith('/model:2')) + 1;
    const second = new ScriptedModel([text('Two.')]);
    await play(
      second,
      new ScriptedModel([text('Told.')]),
      new KeptJournal(written.entries.slice(0, upTo)),
    );
    expect(second.requests[0]?.messages.at(-1)).toMatchObject({
      toolName: 'account_h2_getBalance',
      content: expect.stringContaining(': 20'),
    });
  });
});
