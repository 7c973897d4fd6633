import { untilRunCloses } from '../execution/store-calls.js';
import type { ToolOutcome } from '../execution/execution.scope.js';
import type { RunEntry } from '../protocol/run-journal.js';
import { savedTools } from '../injection/saved.tools.js';
import { toJsonObject } from '../schema/from-value.js';
import { SAVED_RUN_VERSION, type SavedRun } from './from-suspended-run.js';
import type { LiveRun } from './live.run.js';
import type { LoopState } from './loop.state.js';
import type { SubRunPlace } from './from-sub-run-entry.js';
import type { RunInputs } from './run.inputs.js';
import type { PendingStep } from './pending.step.js';
import { savedOutcome, savedParts, type SavedPlace } from './saved-run.js';
import { SubRunJournal, type EntryJournal } from './sub.run.journal.js';

/** Writes a durable run down, each part once: an entry has what is new since the one before, so that a long run costs no more per step than a short one. */
export class RunRecorder {
  private messages: number;
  private records: number;
  /** The parts of the run beside its state, as they were last written. */
  private readonly written = new Map<string, { readonly part: unknown; readonly text: string }>();
  /** Whose tools were written last: to write them down takes as long as there are many. */
  private tools: Pick<LoopState, 'toolset' | 'injected'> | undefined;

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

  /** Writes what the run begins with, its conversation included, where it does begin; and from then on what the user adds, as soon as it is given. */
  async start(inputs: RunInputs, begun: LoopState | undefined): Promise<void> {
    if (begun) this.messages = 0;
    if (begun) await this.kept(this.begin(begun));
    // Where that is impossible the run is somebody else's, and is not ended for it here.
    inputs.keepBy((number, content) => {
      void this.journal.record({ key: `input:${number}`, value: { content } }).catch(() => undefined);
    });
  }

  /** An answer with calls, before any of them is made: the model is not asked again. */
  answered(state: LoopState, pending: PendingStep): Promise<void> {
    return this.kept(this.entry(`model:${state.step}`, state, pending));
  }

  /**
   * What became of a call, and with it what it counts for in the budgets of policies. A read may be made again, so the run waits for it only where it
   * `mustBeKept`, with all reads noted before.
   */
  called(outcome: ToolOutcome, mustBeKept: boolean): Promise<void> | void {
    const { toolCallId, effect } = outcome.record;
    const key = `tool:${toolCallId}`;
    if (effect === 'read_only' && !mustBeKept) return this.journal.note({ key, value: toJsonObject(savedOutcome(outcome)) });
    return this.kept({ key, value: toJsonObject({ ...savedOutcome(outcome), spent: this.live.spending.takeNew() }) });
  }

  /** How a step ended. It is kept with whatever comes next; where that is the run's end, or a wait, together with it and not before. */
  stepped(state: LoopState): void {
    const { pending, finish, step } = state;
    const key = finish ? `${finish.reason === 'waiting' ? 'wait' : 'end'}:${step}:${this.place().sequence}` : `step:${step}`;
    this.journal.note(this.entry(key, state, pending));
  }

  private kept(entry: RunEntry): Promise<void> {
    return untilRunCloses(`The entry ${entry.key} of a run`, this.journal.record(entry));
  }

  private begin(begun: LoopState): RunEntry {
    const { key, value } = this.entry('begin', begun);
    return { key, value: { version: SAVED_RUN_VERSION, ...value } };
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
    return { counts: counter.takeChanged(), spent: spending.takeNew() };
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
