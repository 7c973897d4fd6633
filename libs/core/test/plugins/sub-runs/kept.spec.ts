import { describe, expect, it } from '@jest/globals';
import { type LoopResult, type Policy, RunElsewhereError } from '@toolloop/core';
import { type RunEntry, RunOpener } from '@toolloop/core/internal';
import {
  PendingStore,
  CallJournal,
  MemoryPendingStore,
  MemoryCallJournal,
} from '@toolloop/core/stores';
import { calls, text } from '@toolloop/testing';
import { KeptJournal } from './kept-journal.js';
import { read, research, stage, toldOf, write, type Stage } from './stage.js';

function keep(
  { module, request }: Stage,
  journal: KeptJournal,
  entries: readonly RunEntry[] = [],
): Promise<LoopResult> {
  const handle = module
    .get<RunOpener>(RunOpener)
    .openDurable(request(), { runId: 'run-1', loop: undefined, journal, entries });
  return handle.result;
}

/** Stores that two processes share. */
const stores = () => [
  { provide: PendingStore, useValue: new MemoryPendingStore() },
  { provide: CallJournal, useValue: new MemoryCallJournal() },
];

describe('a sub-run of a run that is written down', () => {
  it('continues in another process where it waited', async () => {
    const policy: Policy = {
      version: 'v1',
      allow: ['*'],
      flow: 'off',
      requireApproval: [{ tools: ['probe__write'] }],
    };
    const options = { policy, providers: stores() };
    const first = await stage({
      inner: [calls(read('r'), write('w'))],
      outer: [research()],
      options,
    });
    const journal = new KeptJournal();
    expect(await keep(first, journal)).toMatchObject({ finishReason: 'waiting' });
    await first.decide('approve');
    const second = await stage({ inner: [text('Written.')], outer: [text('Told.')], options });
    const result = await keep(second, new KeptJournal(), journal.flush());
    expect(result).toMatchObject({ finishReason: 'stop', text: 'Told.' });
    expect(toldOf(result)).toMatchObject({ summary: 'Written.', toolCalls: 2 });
    expect([first.done, second.done]).toEqual([['r'], ['w']]);
  });

  it('continues where it was when its process is gone: no model is asked again, and no effect happens twice', async () => {
    const options = { providers: stores() };
    const first = await stage({
      inner: [calls(write('w1')), calls(write('w2'))],
      outer: [research()],
      options,
    });
    const journal = new KeptJournal();
    const context = first.request().context as { act: (key: string) => unknown };
    const { act } = context;
    context.act = (key) => {
      if (key === 'w2') journal.isOurs = false;
      return act(key);
    };
    const opened = first.module.get<RunOpener>(RunOpener);
    const request = { ...first.request(), context };
    await expect(
      opened.openDurable(request, { runId: 'run-1', loop: undefined, journal }).result,
    ).rejects.toThrow(RunElsewhereError);
    const second = await stage({ inner: [text('Written.')], outer: [text('Told.')], options });
    const result = await keep(second, new KeptJournal(), journal.entries);
    expect([...first.done, ...second.done]).toEqual(['w1', 'w2']);
    expect(toldOf(result)).toMatchObject({ summary: 'Written.', steps: 3, toolCalls: 2 });
    expect(result).toMatchObject({
      finishReason: 'stop',
      usage: { inputTokens: 50, outputTokens: 25 },
    });
    second.inner.assertComplete();
  });
});
