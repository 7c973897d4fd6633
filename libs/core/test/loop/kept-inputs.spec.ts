import { describe, expect, it } from '@jest/globals';
import { type LoopRequest, type Message, RunElsewhereError, type RunHandle } from '@toolloop/core';
import { type RunEntry, RunOpener } from '@toolloop/core/internal';
import { ScriptedModel, call, calls, expectTranscriptValid, text, type ScriptedTurn } from '@toolloop/testing';
import { ask, openModule } from '../fixtures/shop.module.js';
import { KeptJournal } from '../sub-runs/kept-journal.js';

/** By the transcript alone: three answers, the first of which is overtaken where somebody has added something. */
const turn: ScriptedTurn = ({ messages }) => {
  const answers = messages.filter(({ role }) => role === 'assistant').length;
  return (
    [calls(call('probe__read', { key: 'a' })), calls(call('probe__read', { key: 'b' })), text('Done.')][answers] ?? text('Done again.')
  );
};

async function opened(journal: KeptJournal, request: Partial<LoopRequest> = {}): Promise<RunHandle> {
  const module = await openModule(new ScriptedModel(Array.from({ length: 9 }, () => turn)));
  const entries = [...journal.entries];
  return module.get<RunOpener>(RunOpener).openDurable(ask(request), { runId: 'run-1', loop: undefined, journal, entries });
}

const inputsIn = (messages: readonly Message[]): unknown[] => messages.filter(({ role }) => role === 'user').map(({ content }) => content);

describe('what a user adds to a run that is written down', () => {
  it('is kept when it is given, and is in the transcript once, whichever process continues after whichever entry', async () => {
    const whole = new KeptJournal();
    const given: Record<string, string> = { a: 'While a.', b: 'While b.' };
    const context = { act: (key: string) => (handle.addInput(given[key] ?? ''), `${key} done`) };
    const handle: RunHandle = await opened(whole, { context });
    handle.addInput('At once.');
    const { messages } = await handle.result;
    expect(inputsIn(messages)).toEqual(['Go on.', 'At once.', 'While a.', 'While b.']);
    const entries: readonly RunEntry[] = whole.flush();
    const keys = entries.map(({ key }) => key);
    for (let cut = 1; cut < entries.length; cut += 1) {
      const kept = keys.slice(0, cut).filter((key) => key.startsWith('input:')).length;
      const gone = await opened(new KeptJournal(entries.slice(0, cut)), { context: { act: (key: string) => `${key} done` } });
      const result = await gone.result;
      expectTranscriptValid(result.messages);
      expect([keys[cut - 1], inputsIn(result.messages)]).toEqual([keys[cut - 1], inputsIn(messages).slice(0, 1 + kept)]);
    }
  });

  it('stays counted in the next process', async () => {
    const journal = new KeptJournal();
    const context = { act: (key: string) => (handle.addInput('One.'), (journal.isOurs = false), `${key} done`) };
    const handle: RunHandle = await opened(journal, { context });
    await expect(handle.result).rejects.toThrow(RunElsewhereError);
    journal.isOurs = true;
    const next: RunHandle = await opened(journal, { context: { act: (key: string) => (next.addInput('Two.'), `${key} done`) } });
    const { messages } = await next.result;
    expect(inputsIn(messages)).toEqual(['Go on.', 'One.', 'Two.', 'Two.']);
    expect(
      journal
        .flush()
        .map(({ key }) => key)
        .filter((key) => key.startsWith('input:')),
    ).toEqual(['input:1', 'input:2', 'input:3']);
  });

  it('is not taken by a process that the run has left', async () => {
    const journal = new KeptJournal();
    const handle = await opened(journal);
    journal.isOurs = false;
    expect(() => handle.addInput('Too late.')).toThrow(RunElsewhereError);
  });
});
