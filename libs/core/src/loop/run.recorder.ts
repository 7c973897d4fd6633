import type { ToolOutcome } from '../execution/execution.scope.js';
import type { RunEntry, RunJournal } from '../protocol/run-journal.js';
import { savedTools } from '../injection/saved.tools.js';
import { toJsonObject } from '../schema/from-value.js';
import type { SavedRun } from './from-suspended-run.js';
import type { LiveRun } from './live.run.js';
import type { LoopState } from './loop.state.js';
import type { PendingStep } from './pending.step.js';
import { savedOutcome, savedParts, type SavedPlace } from './saved-run.js';

/** Writes a durable run down, each part once: an entry has what is new since the one before, so that a long run costs no more per step than a short one. */
export class RunRecorder {
  private messages: number;
  private records: number;
  private spent: number;
  /** The parts of the run beside its state, as they were last written. */
  private readonly written = new Map<string, { readonly part: unknown; readonly text: string }>();
  /** Whose tools were written last: to write them down takes as long as there are many. */
  private tools: Pick<LoopState, 'toolset' | 'injected'> | undefined;

  constructor(
    private readonly journal: RunJournal,
    private readonly live: LiveRun,
    private readonly place: () => SavedPlace,
    from: Pick<LoopState, 'messages' | 'records'>,
  ) {
    this.messages = from.messages.length;
    this.records = from.records.length;
    this.spent = live.spending.calls.length;
  }

  /** Whether another process goes on with the run. */
  get isElsewhere(): boolean {
    return !this.journal.isOurs;
  }

  /** What the run begins with, its conversation included. */
  begun(state: LoopState): Promise<void> {
    this.messages = 0;
    return this.journal.record(this.entry('begin', state));
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
    const { state: whole, pending: waiting, ...parts } = savedParts(state, pending, this.live);
    const changed = Object.entries({ ...this.place(), ...parts }).filter(([name, part]) => this.hasChanged(name, part));
    const value = {
      ...Object.fromEntries(changed),
      ...this.changedTools(state),
      ...this.counted(),
      state: { ...whole, messages: whole.messages.slice(this.messages), records: whole.records.slice(this.records) },
      ...(waiting && { pending: waiting }),
    };
    this.messages = whole.messages.length;
    this.records = whole.records.length;
    return { key, value: toJsonObject(value) };
  }

  private counted(): Pick<SavedRun, 'counts' | 'spent'> {
    const { counter, spending } = this.live;
    const spent = spending.calls.slice(this.spent);
    this.spent = spending.calls.length;
    return { counts: counter.takeChanged(), spent };
  }

  private changedTools({ toolset, injected }: LoopState): Partial<Pick<SavedRun, 'tools'>> {
    if (this.tools?.toolset === toolset && this.tools.injected === injected) return {};
    this.tools = { toolset, injected };
    return { tools: savedTools(toolset, injected) };
  }

  private hasChanged(name: string, part: unknown): boolean {
    const before = this.written.get(name);
    if (before && before.part === part) return false;
    const text = JSON.stringify(part);
    this.written.set(name, { part, text });
    return before?.text !== text;
  }
}
