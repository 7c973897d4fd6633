import {
  addUsage,
  type JsonObject,
  NO_USAGE,
  type SubRunRecord,
  usageSince,
} from '@toolloop/protocol';
import type { RunEntry, RunInputEntry, RunStateEntry, SubRunEntry } from '../contracts/run-log.js';
import { toJsonObject } from '../schema/canonical-json.js';
import type { SavedInputs } from './run-inputs.js';
import {
  SAVED_RUN_VERSION,
  assertVersion,
  fromSavedJson,
  unreadable,
  wrongInEntry,
} from './saved-run-reader.js';
import type { SavedOutcome, SavedRun } from './saved-run.js';

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
 * The parts of a saved run in an entry: parts that did not change are left out, and lists have what
 * was added.
 */
type SavedPart = Partial<SavedRun> & Pick<SavedRun, 'state'>;

/**
 * The parts that entries of every kind may have. The latest handles are all of them; of the calls
 * each entry has those that no earlier one has. The run and its sub-runs share all of them but the
 * values of plugins.
 */
type SharedParts = Pick<SavedRun, 'spent'> &
  Partial<Pick<SavedRun, 'handles' | 'hasUnknownCost' | 'slots'>>;

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
    // nothing is resumed from an end
    else if (entry.type !== 'values' && entry.type !== 'end') this.takeState(partIn(entry));
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

const STATELESS: ReadonlySet<string> = new Set<RunEntry['type']>([
  'tool',
  'input',
  'values',
  'sub-run',
]);

function isState(entry: RunEntry): entry is RunStateEntry {
  return !STATELESS.has(entry.type);
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
  return {
    ...whole,
    state: { ...part.state, messages, records },
    ...(pending && { pending }),
  };
}

function sharedOn(before: SharedParts, entry: RunEntry): SharedParts {
  if (entry.type === 'sub-run') return withValuesOf(before, sharedOn(before, entry.entry));
  if (entry.type === 'input') return before;
  const parts = entry.value as unknown as Partial<SharedParts>;
  const { handles, hasUnknownCost, slots, spent = [] } = parts;
  return {
    ...before,
    ...(handles && { handles }),
    ...(hasUnknownCost && { hasUnknownCost }),
    ...(slots && { slots }),
    spent: [...before.spent, ...spent],
  };
}

/** The values of a sub-run's plugins are its own. */
function withValuesOf(
  { slots }: SharedParts,
  { slots: _inner, ...parts }: SharedParts,
): SharedParts {
  return { ...parts, ...(slots && { slots }) };
}

/**
 * Adds the use of a sub-run to the run around it; a sub-run that did not end continues where it
 * was.
 */
function includeSubRun(
  run: SavedRun,
  { runId, toolCallId, args, entries, counted }: InnerRun,
): SavedRun {
  const { pending, state } = run;
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

/** It was broken off, as far as anybody knows. */
function recordOf(
  runId: string,
  { state: { step: steps, usage, records }, pending }: SavedRun,
): SubRunRecord {
  const called = pending?.outcomes.map(({ record }) => record) ?? [];
  return { runId, finishReason: 'aborted', steps, usage, toolCalls: [...records, ...called] };
}
