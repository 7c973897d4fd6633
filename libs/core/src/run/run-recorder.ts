import { isGuarded } from '../call/effect-guard.js';
import { Interruption } from '../contracts/interruption.js';
import type { ToolOutcome } from '../call/outcome.js';
import { untilRunCloses } from '../call/store-calls.js';
import type { Toolset } from '../catalog/toolset.js';
import type { RunEntry, RunJournal, RunStateEntry, SubRunPlace } from '../contracts/run-log.js';
import type { LoopState, PendingStep } from '../loop/loop-state.js';
import { savedTools } from '../plugins/injection/saved-tools.js';
import { SubRunJournal } from '../plugins/sub-runs/sub-run-journal.js';
import { toJsonObject } from '../schema/canonical-json.js';
import type { RunInputs } from './run-inputs.js';
import { SAVED_RUN_VERSION } from './saved-run-reader.js';
import {
  type SavableRun,
  savedOutcome,
  savedParts,
  type SavedPlace,
  type SavedRun,
} from './saved-run.js';

/**
 * Writes a durable run down, each part once: an entry has what is new since the one before, so that
 * a long run costs no more per step than a short one.
 */
export class RunRecorder {
  private messages: number;
  private records: number;
  /** The parts of the run beside its state, as they were last written. */
  private readonly written = new Map<string, { readonly part: unknown; readonly text: string }>();
  /** Whose tools were written last: to write them down takes as long as there are many. */
  private tools: Toolset | undefined;

  constructor(
    private readonly journal: EntryJournal,
    private readonly run: SavableRun,
    private readonly place: () => SavedPlace,
    from: Pick<LoopState, 'messages' | 'records'>,
  ) {
    this.messages = from.messages.length;
    this.records = from.records.length;
  }

  /** Set once another process continues the run. */
  get isElsewhere(): boolean {
    return !this.journal.isOurs;
  }

  /** Returns the journal of a sub-run of one of its calls. */
  within(place: SubRunPlace): EntryJournal {
    return new SubRunJournal(this.journal, place);
  }

  /**
   * Notes what the run begins with, its conversation included, where it does begin; and from then
   * on writes what the user adds, as soon as it is given. Nothing has happened before the first
   * answer of the model: a process that finds no beginning begins the run anew. In a conversation
   * it is written: a run that begins anew has no turn there.
   */
  async start(inputs: RunInputs, begun: LoopState | undefined): Promise<void> {
    if (begun) this.messages = 0;
    if (begun) this.journal.note(this.begin(begun));
    if (begun && this.run.plan.conversation)
      await untilRunCloses('The beginning of a run', this.journal.kept());
    inputs.keepBy((input) =>
      this.journal.record({ type: 'input', key: `input:${input.number}`, ...input }),
    );
  }

  /**
   * An answer with calls, before any of them is made: the model is not asked again. It is kept with
   * the key of the first call, where nothing of that can be seen before.
   */
  async answered(state: LoopState, pending: PendingStep): Promise<void> {
    const entry = this.entry('model', `model:${state.step}`, state, pending);
    const isKeptWithKey =
      this.journal.calls !== undefined && !this.run.rehearsal && beginsWithKey(pending);
    if (isKeptWithKey) this.journal.note(entry);
    else await this.kept(entry);
  }

  /**
   * Stores the outcome of a call, and with it its count in the budgets of policies. A read may be
   * made again, so the run waits for it only if it `mustBeKept`, with all reads noted before.
   */
  async called(outcome: ToolOutcome, mustBeKept: boolean): Promise<void> {
    const { toolCallId, effect } = outcome.record;
    const key = `tool:${toolCallId}`;
    const saved = savedOutcome(outcome);
    if (effect === 'read_only' && !mustBeKept)
      return this.journal.note({ type: 'tool', key, value: toJsonObject(saved) });
    const value = toJsonObject({ ...saved, spent: this.run.spending.takeNew() });
    try {
      await this.kept({ type: 'tool', key, value });
    } catch (error) {
      // a run that was interrupted ends with the outcome of a call that is still being written: its
      // end is written behind it
      if (!(error instanceof Interruption)) throw error;
    }
  }

  /**
   * Keeps the values of plugins that have changed since they were written, before the effect of a
   * call: with its key if the log keeps that, and else at once.
   */
  async keepValues(callId: string): Promise<void> {
    const slots = this.run.plugins.save();
    if (slots === undefined || !this.hasChanged('slots', slots)) return;
    const value = toJsonObject({ slots });
    const entry: RunEntry = { type: 'values', key: `values:${callId}`, value };
    if (this.journal.calls) this.journal.note(entry);
    else await this.kept(entry);
  }

  /**
   * Notes the end of a step. It is stored with the next entry; with the run's end, or a wait, in
   * one write and not before.
   */
  stepped(state: LoopState): void {
    const { pending, finish, step } = state;
    const type = finish ? (finish.reason === 'waiting' ? 'wait' : 'end') : 'step';
    const key = finish ? `${type}:${step}:${this.place().sequence}` : `step:${step}`;
    this.journal.note(this.entry(type, key, state, pending));
  }

  private kept(entry: RunEntry): Promise<void> {
    return untilRunCloses(`The entry ${entry.key} of a run`, this.journal.record(entry));
  }

  private begin(begun: LoopState): RunEntry {
    const { value, ...entry } = this.entry('begin', 'begin', begun);
    return { ...entry, value: { version: SAVED_RUN_VERSION, ...value } };
  }

  private entry(
    type: RunStateEntry['type'],
    key: string,
    state: LoopState,
    pending?: PendingStep,
  ): RunStateEntry {
    const { state: whole, pending: waiting, ...parts } = savedParts(state, pending, this.run);
    const changed = Object.entries({ ...this.place(), ...parts }).filter(([name, part]) =>
      this.hasChanged(name, part),
    );
    const value = {
      ...Object.fromEntries(changed),
      ...this.changedTools(state),
      spent: this.run.spending.takeNew(),
      state: {
        ...whole,
        messages: whole.messages.slice(this.messages),
        records: whole.records.slice(this.records),
      },
      ...(waiting && { pending: waiting }),
    };
    this.messages = whole.messages.length;
    this.records = whole.records.length;
    return { type, key, value: toJsonObject(value) };
  }

  private changedTools({ toolset }: LoopState): Partial<Pick<SavedRun, 'tools'>> {
    if (this.tools === toolset) return {};
    this.tools = toolset;
    return { tools: savedTools(toolset) };
  }

  private hasChanged(name: string, part: unknown): boolean {
    const before = this.written.get(name);
    if (before && before.part === part) return false;
    const text = JSON.stringify(part);
    this.written.set(name, { part, text });
    return before?.text !== text;
  }
}

/**
 * Tells if the key of the first call is taken before anything happens in its name: before a
 * directive is requested, or a person or a client asked, the answer must be kept.
 */
function beginsWithKey({ answer, offered }: PendingStep): boolean {
  const [first] = answer.toolCalls;
  const tool = first && offered.find(first.name);
  return (
    tool !== undefined &&
    isGuarded(tool) &&
    !tool.directive &&
    !tool.client &&
    !tool.questions &&
    !tool.surface
  );
}

/** The journal into which a run writes its entries. */
export type EntryJournal = Omit<RunJournal, 'sink' | 'handOver' | 'cancel'>;
