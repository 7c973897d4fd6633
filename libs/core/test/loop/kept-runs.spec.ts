import { describe, expect, it } from '@jest/globals';
import { type LoopEvent, LoopEventSink, type LoopRequest, RunElsewhereError } from '@toolloop/core';
import { type RunEntry, type RunJournal, RunOpener } from '@toolloop/core/internal';
import { ScriptedModel, call, calls, expectTranscriptValid, text, type ScriptedTurn } from '@toolloop/testing';
import { ask, openModule } from '../fixtures/shop.module.js';

const script: readonly ScriptedTurn[] = [
  calls(call('probe__read', { key: 'r1' }), call('probe__write', { key: 'w1' }), call('probe__write', { key: 'w2' })),
  calls(call('probe__read', { key: 'r2' })),
  calls(call('probe__write', { key: 'w3' })),
  text('Done.'),
];

/** Keeps what is written until its process "dies" at one of the writes. */
class MortalJournal implements RunJournal {
  readonly sink: LoopEventSink;
  readonly events: LoopEvent[] = [];
  isOurs = true;
  private noted: RunEntry[] = [];

  constructor(
    private readonly entries: RunEntry[],
    private livesFor = Number.POSITIVE_INFINITY,
  ) {
    const write = (event: LoopEvent): void => void (this.isOurs && this.events.push(event));
    this.sink = new (class extends LoopEventSink {
      override readonly critical = true;
      override readonly write = write;
    })();
  }

  record(entry: RunEntry): Promise<void> {
    this.livesFor -= 1;
    if (this.livesFor < 0) this.isOurs = false;
    if (!this.isOurs) return Promise.reject(new Error('the process is gone'));
    this.entries.push(...this.noted, structuredClone(entry));
    this.noted = [];
    return Promise.resolve();
  }

  note(entry: RunEntry): void {
    this.noted.push(structuredClone(entry));
  }

  handOver(): void {
    this.isOurs = false;
  }
}

async function shop(turns: readonly ScriptedTurn[]) {
  const module = await openModule(new ScriptedModel(turns), { policy: { allow: ['*'], flow: 'off' } });
  return { runs: module.get<RunOpener>(RunOpener), module };
}

describe('a run that is written down', () => {
  it('continues after a crash at any of its writes, repeats no answered request to a model, and has no effect twice', async () => {
    for (let crashAt = 0; crashAt < 9; crashAt += 1) {
      const entries: RunEntry[] = [];
      const effects: string[] = [];
      const context = { act: (key: string) => (effects.push(key), `${key} done`) };
      const request: LoopRequest = ask({ context });
      const { runs, module } = await shop(script);
      const first = new MortalJournal(entries, crashAt);
      await runs.openDurable(request, { runId: 'run-1', loop: undefined, journal: first }).result.catch((error: unknown) => {
        if (!(error instanceof RunElsewhereError)) throw error;
      });
      if (first.isOurs) return;
      const answered = entries.filter(({ key }) => key.startsWith('model:')).length;
      const model = new ScriptedModel(script.slice(answered));
      const journal = new MortalJournal(entries);
      const handle = runs.openDurable(
        { ...request, model },
        { runId: 'run-1', loop: undefined, journal, entries: [...entries], lastSequence: 100 },
      );
      const result = await handle.result;
      expect({ crashAt, ...result, writes: effects.filter((key) => key.startsWith('w')) }).toMatchObject({
        finishReason: 'stop',
        text: 'Done.',
        steps: 4,
        writes: ['w1', 'w2', 'w3'],
      });
      expectTranscriptValid(result.messages);
      expect(result.toolCalls.map(({ toolCallId }) => toolCallId)).toHaveLength(5);
      expect(journal.events[0]?.sequence).toBe(101);
      await module.close();
    }
  });

  it('calls nothing that the step it continues in was not offered', async () => {
    const entries: RunEntry[] = [];
    const effects: string[] = [];
    const act = (key: string) => void effects.push(key);
    const request = ask({ context: { act }, prepareStep: ({ step }) => (step === 1 ? { tools: ['probe__read'] } : {}) });
    const turns = [
      calls(call('probe__read', { key: 'r' }), call('probe__write', { key: 'w1' })),
      calls(call('probe__write', { key: 'w2' })),
    ];
    const first = (await shop(turns)).runs.openDurable(request, {
      runId: 'run-1',
      loop: undefined,
      journal: new MortalJournal(entries, 2),
    });
    await expect(first.result).rejects.toThrow(RunElsewhereError);
    expect(entries.map(({ key }) => key)).toEqual(['begin', 'model:1']);
    const { runs } = await shop([...turns.slice(1), text('Done.')]);
    const journal = new MortalJournal([...entries]);
    const result = await runs.openDurable(request, { runId: 'run-1', loop: undefined, journal, entries }).result;
    expect(result.toolCalls.map(({ id, error }) => [id, error?.code])).toEqual([
      ['probe__read', undefined],
      ['probe__write', 'unknown_tool'],
      ['probe__write', undefined],
    ]);
    expect(effects).toEqual(['r', 'r', 'w2']);
  });
});
