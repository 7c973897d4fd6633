import { describe, expect, it } from '@jest/globals';
import { type LoopEvent, LoopEventSink, type LoopRequest, RunElsewhereError } from '@toolloop/core';
import { type RunEntry, type RunJournal, RunOpener } from '@toolloop/core/internal';
import { MemoryUsageStore, UsageStore } from '@toolloop/core/stores';
import {
  ScriptedModel,
  call,
  calls,
  expectTranscriptValid,
  text,
  type ScriptedTurn,
} from '@toolloop/testing';
import { UsageLedger } from '../../src/plugins/usage/usage-ledger.js';
import { ask, openModule } from '../fixtures/shop.module.js';

const script: readonly ScriptedTurn[] = [
  calls(
    call('probe__read', { key: 'r1' }),
    call('probe__write', { key: 'w1' }),
    call('probe__write', { key: 'w2' }),
  ),
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

  kept(): Promise<void> {
    if (this.isOurs) this.entries.push(...this.noted.splice(0));
    return Promise.resolve();
  }

  record(entry: RunEntry): Promise<void> {
    this.livesFor -= 1;
    if (this.livesFor < 0) this.isOurs = false;
    if (!this.isOurs) return Promise.reject(new Error('the process is gone'));
    this.entries.push(...this.noted, structuredClone(entry));
    this.noted = [];
    return Promise.resolve();
  }

  owe(): void {}

  note(entry: RunEntry): void {
    this.noted.push(structuredClone(entry));
  }

  handOver(): void {
    this.isOurs = false;
  }

  cancel(): void {}
}

async function shop(turns: readonly ScriptedTurn[], usage = new MemoryUsageStore()) {
  const model = new ScriptedModel(turns);
  const module = await openModule(model, {
    policy: { allow: ['*'], flow: 'off' },
    providers: [{ provide: UsageStore, useValue: usage }],
  });
  return { runs: module.get<RunOpener>(RunOpener), module, model };
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
      await runs
        .openDurable(request, { runId: 'run-1', loop: undefined, journal: first })
        .result.catch((error: unknown) => {
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
      expect({
        crashAt,
        ...result,
        writes: effects.filter((key) => key.startsWith('w')),
      }).toMatchObject({
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

  it('counts each call once in the usage of its tenant, and each answer that a model gave, wherever its process dies', async () => {
    const request: LoopRequest = ask();
    for (let crashAt = 0; ; crashAt += 1) {
      const usage = new MemoryUsageStore();
      const entries: RunEntry[] = [];
      const [first, second] = [await shop(script, usage), await shop([], usage)];
      const dying = new MortalJournal(entries, crashAt);
      await first.runs
        .openDurable(request, { runId: 'run-1', loop: undefined, journal: dying })
        .result.catch(() => undefined);
      // the worst moment: all that it noted is kept, and its run is not
      await first.module.get(UsageLedger).flush();
      const model = new ScriptedModel(
        script.slice(entries.filter(({ key }) => key.startsWith('model:')).length),
      );
      const journal = new MortalJournal(entries);
      if (!dying.isOurs)
        await second.runs.openDurable(
          { ...request, model },
          { runId: 'run-1', loop: undefined, journal, entries: [...entries] },
        ).result;
      await second.module.close();
      const day = new Date().toISOString().slice(0, 10);
      const [sum] = await usage.report({
        tenant: 'acme',
        from: '2000-01-01',
        to: day,
        groupBy: [],
        limit: 1,
      });
      expect({ crashAt, calls: sum?.calls }).toEqual({ crashAt, calls: 5 });
      expect(sum?.answers).toBe(first.model.requests.length + model.requests.length);
      await first.module.close();
      if (dying.isOurs) return;
    }
  });

  it('calls nothing that the step it continues in was not offered', async () => {
    const entries: RunEntry[] = [];
    const effects: string[] = [];
    const act = (key: string) => void effects.push(key);
    const request = ask({
      context: { act },
      prepareStep: ({ step }) => (step === 1 ? { tools: ['probe__read'] } : {}),
    });
    const turns = [
      calls(call('probe__read', { key: 'r' }), call('probe__write', { key: 'w1' })),
      calls(call('probe__write', { key: 'w2' })),
    ];
    const first = (await shop(turns)).runs.openDurable(request, {
      runId: 'run-1',
      loop: undefined,
      journal: new MortalJournal(entries, 1),
    });
    await expect(first.result).rejects.toThrow(RunElsewhereError);
    expect(entries.map(({ key }) => key)).toEqual(['begin', 'model:1']);
    const { runs } = await shop([...turns.slice(1), text('Done.')]);
    const journal = new MortalJournal([...entries]);
    const result = await runs.openDurable(request, {
      runId: 'run-1',
      loop: undefined,
      journal,
      entries,
    }).result;
    expect(result.toolCalls.map(({ id, error }) => [id, error?.code])).toEqual([
      ['probe__read', undefined],
      ['probe__write', 'unknown_tool'],
      ['probe__write', undefined],
    ]);
    expect(effects).toEqual(['r', 'r', 'w2']);
  });
});
