import type { JsonObject } from '../protocol/json.js';
import type { RunEntry } from '../protocol/run-journal.js';
import type { SubRunRecord } from '../protocol/sub-run.js';
import { NO_USAGE, addUsage, usageSince } from '../protocol/usage.js';
import { toJsonObject } from '../schema/from-value.js';
import type { SavedCounts } from './call.counter.js';
import { assertVersion, fromSavedJson, unreadable, type SavedOutcome, type SavedRun } from './from-suspended-run.js';
import type { SavedInputs } from './run.inputs.js';
import { fromSubRunEntry, type SubRunEntry } from './from-sub-run-entry.js';
import { wrongInCall, wrongInInput, wrongInPart, wrongInSubRunEntry } from './saved-shapes.js';

/** What of a saved run an entry holds: parts that did not change are left out, lists have what was added, and counts what was counted. */
type SavedPart = Partial<SavedRun> & Pick<SavedRun, 'state' | 'counts'>;

/** What a run and its sub-runs have in common: whoever wrote the handles last, wrote all of them; each wrote what of the calls nobody had written. */
type SharedParts = Pick<SavedRun, 'spent'> & Partial<Pick<SavedRun, 'handles' | 'hasUnknownCost'>>;

/** What became of a call, with what it counts for. */
type SavedCall = SavedOutcome & Partial<Pick<SavedRun, 'spent'>>;

type PendingRun = NonNullable<SavedRun['pending']>;
type BegunRun = NonNullable<PendingRun['begun']>[number];

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
 * Puts a durable run together from what was written down, in the order in which it was. Undefined where it had not begun. Throws `InvalidRequestError`
 * (`unreadable_run`) for entries of another version, and for those that are not what we write.
 */
export function fromRunEntries(runId: string, entries: readonly RunEntry[]): SavedRun | undefined {
  const reading = new RunReading(runId);
  for (const entry of entries) reading.take(entry);
  return reading.saved();
}

class RunReading {
  private run: SavedPart | undefined;
  private shared: SharedParts = { spent: [] };
  private readonly inner = new Map<string, InnerRun>();
  /** By their numbers. */
  private readonly inputs = new Map<number, string>();

  constructor(private readonly runId: string) {}

  take({ key, value: { version, ...value } }: RunEntry): void {
    if (!this.run || key === 'begin') assertVersion(version, this.runId);
    const entry = { key, value };
    const wrong = wrongIn(entry);
    if (wrong !== undefined) throw unreadable(this.runId, `in its entry ${JSON.stringify(key)}, ${wrong} is not what it must be`);
    const within = fromSubRunEntry(entry);
    if (within) this.takeInner(within);
    else if (key.startsWith('input:')) this.inputs.set(Number(key.slice('input:'.length)), value['content'] as string);
    else if (key.startsWith('tool:')) this.takeOutcome(value as unknown as SavedCall);
    else if (!key.startsWith('end:')) this.takeState(value as unknown as SavedPart); // nothing goes on from there
    this.shared = sharedOn(this.shared, entry);
  }

  saved(): SavedRun | undefined {
    if (!this.run) return undefined;
    const run = fromSavedJson(
      { ...this.run, ...this.shared, inputs: this.given(this.run.inputs?.taken ?? 0) } as unknown as JsonObject,
      this.runId,
    );
    const gone = [...this.inner.values()].filter(({ entries, counted }) => entries.length > counted);
    return gone.reduce(withInner, run);
  }

  private given(taken: number): SavedInputs {
    const waiting = [...this.inputs].filter(([number]) => number > taken).toSorted(([one], [other]) => one - other);
    return { taken, waiting: waiting.map(([, content]) => content) };
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
    const others = pending.outcomes.filter(({ record }) => record.toolCallId !== outcome.record.toolCallId);
    this.run = { ...this.run, pending: { ...pending, outcomes: [...others, outcome] } };
  }
}

/** Where an entry is not what we write. */
function wrongIn({ key, value }: RunEntry): string | undefined {
  const [kind] = key.split(':');
  if (kind === 'sub') return wrongInSubRunEntry(value);
  if (kind === 'input') return wrongInInput(value);
  return kind === 'tool' ? wrongInCall(value) : wrongInPart(value);
}

function joined(before: SavedPart | undefined, { pending, ...part }: SavedPart): SavedPart {
  const { pending: _earlier, ...whole } = { ...before, ...part };
  const messages = [...(before?.state.messages ?? []), ...part.state.messages];
  const records = [...(before?.state.records ?? []), ...part.state.records];
  const counts = before ? countedOn(before.counts, part.counts) : part.counts;
  return { ...whole, state: { ...part.state, messages, records }, counts, ...(pending && { pending }) };
}

function countedOn(before: SavedCounts, { perTool, identical, refusals }: SavedCounts): SavedCounts {
  return {
    perTool: [...new Map([...before.perTool, ...perTool])],
    identical: [...new Map([...before.identical, ...identical])],
    refusals,
  };
}

function sharedOn(before: SharedParts, entry: RunEntry): SharedParts {
  const within = fromSubRunEntry(entry);
  if (within) return sharedOn(before, within.entry);
  const { handles, hasUnknownCost, spent = [] } = entry.value as unknown as Partial<SharedParts>;
  return { ...before, ...(handles && { handles }), ...(hasUnknownCost && { hasUnknownCost }), spent: [...before.spent, ...spent] };
}

/** What a sub-run used, the run around it has used; one that did not end goes on where it was. */
function withInner(run: SavedRun, { runId, toolCallId, args, entries, counted }: InnerRun): SavedRun {
  const { pending, state, counts } = run;
  const now = fromRunEntries(runId, entries);
  if (!now || !pending) return run;
  const before = fromRunEntries(runId, entries.slice(0, counted));
  const done = pending.outcomes.find(({ record, isPending }) => record.toolCallId === toolCallId && !isPending);
  const usedBefore = usedBy(before);
  const used = usedBy(now, done?.record.subRun?.runId === runId ? done.record.subRun : undefined);
  const begun = { toolCallId, args, saved: toJsonObject({ runId, saved: now }), record: recordOf(runId, now) };
  return {
    ...run,
    state: { ...state, usage: addUsage(state.usage, usageSince(usedBefore.usage, used.usage)) },
    innerSteps: (run.innerSteps ?? 0) + used.steps - usedBefore.steps,
    counts: { ...counts, perTool: withCalls(counts.perTool, now.counts.perTool, before?.counts.perTool) },
    pending: done ? pending : withBegun(pending, begun),
  };
}

function withBegun(pending: PendingRun, latest: BegunRun): PendingRun {
  const others = pending.begun?.filter(({ toolCallId }) => toolCallId !== latest.toolCallId) ?? []; // of an attempt before
  return { ...pending, begun: [...others, latest] };
}

/** What a sub-run used, and what was in it. The last answer of one that has ended is known by its result alone. */
function usedBy(run: SavedRun | undefined, result?: Pick<SubRunRecord, 'usage' | 'steps'>): Pick<SubRunRecord, 'usage' | 'steps'> {
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
function recordOf(runId: string, { state: { step: steps, usage, records }, pending }: SavedRun): SubRunRecord {
  const called = pending?.outcomes.map(({ record }) => record) ?? [];
  return { runId, finishReason: 'aborted', steps, usage, toolCalls: [...records, ...called] };
}
