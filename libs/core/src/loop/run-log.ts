import {
  addUsage,
  type JsonObject,
  NO_USAGE,
  type SubRunRecord,
  usageSince,
} from '@toolloop/protocol';
import type {
  RunEntry,
  RunInputEntry,
  RunJournal,
  RunStateEntry,
  SubRunEntry,
  SubRunPlace,
} from '../contracts/stores.js';
import type { ToolOutcome } from '../execution/call.js';
import { Interruption } from '../execution/call-failure.js';
import { isGuarded } from '../execution/effect-guard.js';
import { untilRunCloses } from '../execution/store-calls.js';
import type { Toolset } from '../catalog/toolset.js';
import { savedTools } from '../injection/saved-tools.js';
import { toJsonObject } from '../schema/canonical-json.js';
import type { RunInputs, SavedInputs } from './event-outlet.js';
import type { LoopState, PendingStep } from './loop-state.js';
import type { SavedCounts } from './run-accounts.js';
import {
  assertVersion,
  fromSavedJson,
  SAVED_RUN_VERSION,
  unreadable,
  wrongInEntry,
} from './saved-run-reader.js';
import {
  type SavedOutcome,
  savedOutcome,
  savedParts,
  type SavableRun,
  type SavedPlace,
  type SavedRun,
} from './saved-run.js';

/**
 * The parts of a saved run in an entry: parts that did not change are left out; lists have what was
 * added, and counts what was counted.
 */
type SavedPart = Partial<SavedRun> & Pick<SavedRun, 'state' | 'counts'>;

/**
 * The parts that a run and its sub-runs share. The latest handles are all of them; of the calls
 * each entry has those that no earlier one has.
 */
type SharedParts = Pick<SavedRun, 'spent'> & Partial<Pick<SavedRun, 'handles' | 'hasUnknownCost'>>;

/** The outcome of a call, with its count in budgets. */
type SavedCall = SavedOutcome & Partial<Pick<SavedRun, 'spent'>>;

type PendingRun = NonNullable<SavedRun['pending']>;

type RunCheckpoint = NonNullable<PendingRun['checkpoints']>[number];

/** A sub-run of the step that is not over. */
interface InnerRun {
  readonly runId: string;
  readonly toolCallId: string;
  readonly args: JsonObject;
  readonly entries: RunEntry[];
  /** So many of them are in what the run around it has written since. */
  counted: number;
}

/**
 * Puts a run together from its entries, in the order in which they were written. Undefined where it
 * had not begun.
 *
 * @throws {InvalidRequestError} `unreadable_run` for entries of another version, and for those that
 *   are not what we write.
 */
export function fromRunEntries(runId: string, entries: readonly RunEntry[]): SavedRun | undefined {
  const [first] = entries;
  if (first?.type === 'wait') return fromSuspended(runId, first);
  const reading = new RunReading(runId);
  for (const entry of entries) reading.take(entry);
  return reading.saved();
}

/**
 * As `fromRunEntries`, with the end of a run that has ended: to look at, not to resume. Throws as
 * that does.
 */
export function wholeRun(runId: string, entries: readonly RunEntry[]): SavedRun | undefined {
  const last = entries.at(-1);
  const isEnded = last?.type === 'end';
  return fromRunEntries(
    runId,
    isEnded ? [...entries.slice(0, -1), { ...last, type: 'step' }] : entries,
  );
}

/**
 * Returns the entry with which a step or the run ends, with what the earlier entries of that step
 * say: they may be dropped, since a run is continued and forked from the ends of its steps alone.
 */
export function endingWith(earlier: readonly RunEntry[], ending: RunStateEntry): RunStateEntry {
  const all = [...earlier, ending];
  const part = all.reduce<SavedPart | undefined>(
    (before, entry) => (isState(entry) ? joined(before, partIn(entry)) : before),
    undefined,
  );
  // parts of copies
  return {
    ...ending,
    value: { ...part, ...all.reduce(sharedOn, { spent: [] }) } as unknown as JsonObject,
  };
}

/**
 * The entry of a run that is suspended and not durable: all of it at once, since nothing was
 * written before.
 */
export function suspendedEntry(saved: SavedRun): RunEntry {
  return {
    type: 'wait',
    key: 'wait',
    value: { version: SAVED_RUN_VERSION, ...toJsonObject(saved) },
  };
}

function fromSuspended(runId: string, { value: { version, ...saved } }: RunStateEntry): SavedRun {
  assertVersion(version, runId);
  return fromSavedJson(saved, runId);
}

class RunReading {
  private run: SavedPart | undefined;
  private shared: SharedParts = { spent: [] };
  private readonly inner = new Map<string, InnerRun>();
  /** The inputs by their numbers. */
  private readonly inputs = new Map<number, RunInputEntry>();

  constructor(private readonly runId: string) {}

  take(entry: RunEntry): void {
    if (!this.run || entry.type === 'begin') assertVersion(versionOf(entry), this.runId);
    const wrong = wrongInEntry(entry);
    if (wrong !== undefined)
      throw unreadable(
        this.runId,
        `in its entry ${JSON.stringify(entry.key)}, ${wrong} is not what it must be`,
      );
    if (entry.type === 'sub-run') this.takeInner(entry);
    else if (entry.type === 'input') this.inputs.set(entry.number, entry);
    else if (entry.type === 'tool') this.takeOutcome(entry.value as unknown as SavedCall);
    else if (entry.type !== 'end') this.takeState(partIn(entry)); // nothing is resumed from an end
    this.shared = sharedOn(this.shared, entry);
  }

  saved(): SavedRun | undefined {
    if (!this.run) return undefined;
    const run = fromSavedJson(
      {
        ...this.run,
        ...this.shared,
        inputs: this.given(this.run.inputs?.taken ?? 0),
      } as unknown as JsonObject,
      this.runId,
    );
    const gone = [...this.inner.values()].filter(
      ({ entries, counted }) => entries.length > counted,
    );
    return gone.reduce(includeSubRun, run);
  }

  private given(taken: number): SavedInputs {
    const waiting = [...this.inputs]
      .filter(([number]) => number > taken)
      .toSorted(([one], [other]) => one - other);
    const from = [...new Set([...this.inputs.values()].flatMap((input) => input.from ?? []))];
    return {
      taken,
      waiting: waiting.map(([, { content }]) => content),
      ...(from.length > 0 && { from }),
    };
  }

  private takeInner({ runId, toolCallId, args = {}, entry }: SubRunEntry): void {
    const known = this.inner.get(runId) ?? { runId, toolCallId, args, entries: [], counted: 0 };
    known.entries.push(entry);
    this.inner.set(runId, known);
  }

  private takeState(part: SavedPart): void {
    this.run = joined(this.run, part);
    if (!this.run.pending) this.inner.clear();
    for (const one of this.inner.values()) one.counted = one.entries.length;
  }

  /** A call that waited may have been made since. */
  private takeOutcome({ spent: _shared, ...outcome }: SavedCall): void {
    if (!this.run?.pending) return;
    const { pending } = this.run;
    const others = pending.outcomes.filter(
      ({ record }) => record.toolCallId !== outcome.record.toolCallId,
    );
    this.run = { ...this.run, pending: { ...pending, outcomes: [...others, outcome] } };
  }
}

function isState(entry: RunEntry): entry is RunStateEntry {
  return entry.type !== 'tool' && entry.type !== 'input' && entry.type !== 'sub-run';
}

function versionOf(entry: RunEntry): unknown {
  return 'value' in entry ? entry.value['version'] : undefined;
}

function partIn({ value: { version: _version, ...part } }: RunStateEntry): SavedPart {
  return part as unknown as SavedPart;
}

function joined(before: SavedPart | undefined, { pending, ...part }: SavedPart): SavedPart {
  const { pending: _earlier, ...whole } = { ...before, ...part };
  const messages = [...(before?.state.messages ?? []), ...part.state.messages];
  const records = [...(before?.state.records ?? []), ...part.state.records];
  const counts = before ? countedOn(before.counts, part.counts) : part.counts;
  return {
    ...whole,
    state: { ...part.state, messages, records },
    counts,
    ...(pending && { pending }),
  };
}

function countedOn(
  before: SavedCounts,
  { perTool, identical, refusals }: SavedCounts,
): SavedCounts {
  return {
    perTool: [...new Map([...before.perTool, ...perTool])],
    identical: [...new Map([...before.identical, ...identical])],
    refusals,
  };
}

function sharedOn(before: SharedParts, entry: RunEntry): SharedParts {
  if (entry.type === 'sub-run') return sharedOn(before, entry.entry);
  if (entry.type === 'input') return before;
  const { handles, hasUnknownCost, spent = [] } = entry.value as unknown as Partial<SharedParts>;
  return {
    ...before,
    ...(handles && { handles }),
    ...(hasUnknownCost && { hasUnknownCost }),
    spent: [...before.spent, ...spent],
  };
}

/**
 * Adds the use of a sub-run to the run around it; a sub-run that did not end continues where it
 * was.
 */
function includeSubRun(
  run: SavedRun,
  { runId, toolCallId, args, entries, counted }: InnerRun,
): SavedRun {
  const { pending, state, counts } = run;
  const now = fromRunEntries(runId, entries);
  if (!now || !pending) return run;
  const before = fromRunEntries(runId, entries.slice(0, counted));
  const done = pending.outcomes.find(
    ({ record, isPending }) => record.toolCallId === toolCallId && !isPending,
  );
  const usedBefore = usedBy(before);
  const used = usedBy(now, done?.record.subRun?.runId === runId ? done.record.subRun : undefined);
  const checkpoint = {
    toolCallId,
    args,
    saved: toJsonObject({ runId, saved: now }),
    record: recordOf(runId, now),
  };
  return {
    ...run,
    state: { ...state, usage: addUsage(state.usage, usageSince(usedBefore.usage, used.usage)) },
    innerSteps: (run.innerSteps ?? 0) + used.steps - usedBefore.steps,
    counts: {
      ...counts,
      perTool: withCalls(counts.perTool, now.counts.perTool, before?.counts.perTool),
    },
    pending: done ? pending : withCheckpoint(pending, checkpoint),
  };
}

function withCheckpoint(pending: PendingRun, latest: RunCheckpoint): PendingRun {
  // of an attempt before
  const others =
    pending.checkpoints?.filter(({ toolCallId }) => toolCallId !== latest.toolCallId) ?? [];
  return { ...pending, checkpoints: [...others, latest] };
}

/**
 * Returns the use of a sub-run, and of those in it. The last answer of one that has ended is known
 * by its result alone.
 */
function usedBy(
  run: SavedRun | undefined,
  result?: Pick<SubRunRecord, 'usage' | 'steps'>,
): Pick<SubRunRecord, 'usage' | 'steps'> {
  if (!run) return { usage: NO_USAGE, steps: 0 };
  const { usage, steps } = result ?? { usage: run.state.usage, steps: run.state.step };
  return { usage, steps: steps + (run.innerSteps ?? 0) };
}

type Calls = SavedCounts['perTool'];

function withCalls(around: Calls, now: Calls, before: Calls = []): Calls {
  const calls = new Map(around);
  for (const [id, count] of now) calls.set(id, (calls.get(id) ?? 0) + count);
  for (const [id, count] of before) calls.set(id, (calls.get(id) ?? 0) - count);
  return [...calls];
}

/** It was broken off, as far as anybody knows. */
function recordOf(
  runId: string,
  { state: { step: steps, usage, records }, pending }: SavedRun,
): SubRunRecord {
  const called = pending?.outcomes.map(({ record }) => record) ?? [];
  return { runId, finishReason: 'aborted', steps, usage, toolCalls: [...records, ...called] };
}

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
  answered(state: LoopState, pending: PendingStep): Promise<void> | void {
    const entry = this.entry('model', `model:${state.step}`, state, pending);
    const isKeptWithKey =
      this.journal.calls !== undefined && !this.run.rehearsal && beginsWithKey(pending);
    return isKeptWithKey ? this.journal.note(entry) : this.kept(entry);
  }

  /**
   * Stores the outcome of a call, and with it its count in the budgets of policies. A read may be
   * made again, so the run waits for it only if it `mustBeKept`, with all reads noted before.
   */
  called(outcome: ToolOutcome, mustBeKept: boolean): Promise<void> | void {
    const { toolCallId, effect } = outcome.record;
    const key = `tool:${toolCallId}`;
    if (effect === 'read_only' && !mustBeKept)
      return this.journal.note({ type: 'tool', key, value: toJsonObject(savedOutcome(outcome)) });
    const kept = this.kept({
      type: 'tool',
      key,
      value: toJsonObject({ ...savedOutcome(outcome), spent: this.run.spending.takeNew() }),
    });
    return kept.catch(passOverLate);
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
      ...this.counted(),
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

  private counted(): Pick<SavedRun, 'counts' | 'spent'> {
    const { counter, spending } = this.run;
    return { counts: counter.takeChanged(), spent: spending.takeNew() };
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

/**
 * A run that was interrupted ends with the outcome of a call that is still being written: its end
 * is written behind it.
 */
function passOverLate(error: unknown): void {
  if (!(error instanceof Interruption)) throw error;
}

/** The journal into which a run writes its entries. */
export type EntryJournal = Omit<RunJournal, 'sink' | 'handOver' | 'cancel'>;

/**
 * Writes a sub-run down among the entries of the run around it, so that a process which takes over
 * that run continues within the sub-run.
 */
export class SubRunJournal implements EntryJournal {
  constructor(
    private readonly outer: EntryJournal,
    private readonly place: SubRunPlace,
  ) {}

  get isOurs(): boolean {
    return this.outer.isOurs;
  }

  get calls(): RunJournal['calls'] {
    return this.outer.calls;
  }

  kept(): Promise<void> {
    return this.outer.kept();
  }

  record(entry: RunEntry): Promise<void> {
    return this.outer.record(toSubRunEntry(this.place, entry));
  }

  note(entry: RunEntry): void {
    this.outer.note(toSubRunEntry(this.place, entry));
  }
}

/** `model:3` of a sub-run as an entry of the run around it: `sub:<its run id>/model:3`. */
function toSubRunEntry({ runId, toolCallId, args }: SubRunPlace, entry: RunEntry): SubRunEntry {
  return {
    type: 'sub-run',
    key: `sub:${runId}/${entry.key}`,
    runId,
    toolCallId,
    entry,
    ...(entry.type === 'begin' && { args }),
  };
}
