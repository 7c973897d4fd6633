import type { ToolOutcome } from '../execution/execution.scope.js';
import type { RunEntry } from '../protocol/run-journal.js';
import { toJsonObject } from '../schema/from-value.js';
import type { LiveRun } from './live.run.js';
import type { LoopState } from './loop.state.js';
import type { SubRunPlace } from './from-sub-run-entry.js';
import type { RunInputs } from './run.inputs.js';
import type { PendingStep } from './pending.step.js';
import { savedOutcome, savedRun, type SavedPlace } from './saved-run.js';
import { SubRunJournal, type EntryJournal } from './sub.run.journal.js';

/** Writes a durable run down, each part once: an entry has what is new since the one before, so that a long run costs no more per step than a short one. */
export class RunRecorder {
  private messages: number;
  private records: number;
  /** The parts of the run beside its state, as they were last written. */
  private readonly written = new Map<string, string>();

  constructor(
    private readonly journal: EntryJournal,
    private readonly live: LiveRun,
    private readonly place: () => SavedPlace,
    from: Pick<LoopState, 'messages' | 'records'>,
  ) {
    this.messages = from.messages.length;
    this.records = from.records.length;
  }

  /** Whether another process goes on with the run. */
  get isElsewhere(): boolean {
    return !this.journal.isOurs;
  }

  /** Where a sub-run of one of its calls is written down. */
  within(place: SubRunPlace): EntryJournal {
    return new SubRunJournal(this.journal, place);
  }

  /** What the run begins with, its conversation included. */
  begun(state: LoopState): Promise<void> {
    this.messages = 0;
    return this.journal.record(this.entry('begin', state));
  }

  /** What the user adds, as soon as it is given. Where that is impossible the run is somebody else's, and is not ended for it here. */
  keep(inputs: RunInputs): void {
    inputs.keepBy((number, content) => {
      void this.journal.record({ key: `input:${number}`, value: { content } }).catch(() => undefined);
    });
  }

  /** An answer with calls, before any of them is made: the model is not asked again. */
  answered(state: LoopState, pending: PendingStep): Promise<void> {
    return this.journal.record(this.entry(`model:${state.step}`, state, pending));
  }

  /** What became of a call. A read may be made again, so nobody waits for it. */
  called(outcome: ToolOutcome): Promise<void> | void {
    const { toolCallId, effect } = outcome.record;
    const entry = { key: `tool:${toolCallId}`, value: toJsonObject(savedOutcome(outcome)) };
    return effect === 'read_only' ? this.journal.note(entry) : this.journal.record(entry);
  }

  /** How a step ended. It is kept with whatever comes next; where that is the run's end, or a wait, together with it and not before. */
  stepped(state: LoopState): void {
    const { pending, finish, step } = state;
    const key = finish ? `${finish.reason === 'waiting' ? 'wait' : 'end'}:${step}:${this.place().sequence}` : `step:${step}`;
    this.journal.note(this.entry(key, state, pending));
  }

  private entry(key: string, state: LoopState, pending?: PendingStep): RunEntry {
    const { state: whole, pending: waiting, ...parts } = savedRun(state, pending, this.live, this.place());
    const added = { ...whole, messages: whole.messages.slice(this.messages), records: whole.records.slice(this.records) };
    this.messages = whole.messages.length;
    this.records = whole.records.length;
    const changed = Object.entries(parts).filter(([name, part]) => this.hasChanged(name, part));
    const value = { ...Object.fromEntries(changed), state: added, ...(waiting && { pending: waiting }) };
    return { key, value: toJsonObject(value) };
  }

  private hasChanged(name: string, part: unknown): boolean {
    const text = JSON.stringify(part);
    if (this.written.get(name) === text) return false;
    this.written.set(name, text);
    return true;
  }
}
