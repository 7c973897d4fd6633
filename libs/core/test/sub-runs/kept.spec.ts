import { describe, expect, it } from '@jest/globals';
import {
  ApprovalStore,
  CallJournal,
  LoopEventSink,
  MemoryApprovalStore,
  MemoryCallJournal,
  RunElsewhereError,
  RunOpener,
  type LoopResult,
  type Policy,
  type RunEntry,
  type RunJournal,
} from '@toolloop/core';
import { calls, text } from '@toolloop/testing';
import { read, research, stage, toldOf, write, type Stage } from './stage.js';

class SilentSink extends LoopEventSink {
  override readonly critical = true;
  override write(): void {
    // nobody watches
  }
}

/** Keeps what is written down, for as long as the run is its process's. */
class KeptJournal implements RunJournal {
  readonly sink = new SilentSink();
  isOurs = true;
  private noted: RunEntry[] = [];

  constructor(readonly entries: RunEntry[] = []) {}

  record(entry: RunEntry): Promise<void> {
    if (!this.isOurs) return Promise.reject(new Error('It goes on elsewhere.'));
    this.entries.push(...this.noted.splice(0), structuredClone(entry));
    return Promise.resolve();
  }

  note(entry: RunEntry): void {
    this.noted.push(structuredClone(entry));
  }

  flush(): readonly RunEntry[] {
    this.entries.push(...this.noted.splice(0));
    return [...this.entries];
  }
}

function keep({ module, request }: Stage, journal: KeptJournal, entries: readonly RunEntry[] = []): Promise<LoopResult> {
  const handle = module.get<RunOpener>(RunOpener).openKept(request(), { runId: 'run-1', loop: undefined, journal, entries });
  return handle.result;
}

/** Stores that two processes share. */
const stores = () => [
  { provide: ApprovalStore, useValue: new MemoryApprovalStore() },
  { provide: CallJournal, useValue: new MemoryCallJournal() },
];

describe('a sub-run of a run that is written down', () => {
  it('goes on in another process where it waited', async () => {
    const policy: Policy = { version: 'v1', allow: ['*'], flow: 'off', requireApproval: [{ tools: ['probe__write'] }] };
    const options = { policy, providers: stores() };
    const first = await stage({ inner: [calls(read('r'), write('w'))], outer: [research()], options });
    const journal = new KeptJournal();
    expect(await keep(first, journal)).toMatchObject({ finishReason: 'waiting' });
    await first.decide('approve');
    const second = await stage({ inner: [text('Written.')], outer: [text('Told.')], options });
    const result = await keep(second, new KeptJournal(), journal.flush());
    expect(result).toMatchObject({ finishReason: 'stop', text: 'Told.' });
    expect(toldOf(result)).toMatchObject({ summary: 'Written.', toolCalls: 2 });
    expect([first.done, second.done]).toEqual([['r'], ['w']]);
  });

  it('begins anew where its process is gone, and does no effect twice', async () => {
    const options = { providers: stores() };
    const inner = [calls(write('w1')), calls(write('w2')), text('Written.')];
    const first = await stage({ inner, outer: [research()], options });
    const journal = new KeptJournal();
    const context = first.request().context as { act: (key: string) => unknown };
    const { act } = context;
    context.act = (key) => {
      if (key === 'w2') journal.isOurs = false;
      return act(key);
    };
    const opened = first.module.get<RunOpener>(RunOpener);
    const request = { ...first.request(), context };
    await expect(opened.openKept(request, { runId: 'run-1', loop: undefined, journal }).result).rejects.toThrow(RunElsewhereError);
    const second = await stage({ inner, outer: [text('Told.')], options });
    const result = await keep(second, new KeptJournal(), journal.entries);
    expect([...first.done, ...second.done]).toEqual(['w1', 'w2']);
    expect(toldOf(result)).toMatchObject({ summary: 'Written.', toolCalls: 2 });
    expect(first.inner.requests).toHaveLength(2);
  });
});
