import { InvalidRequestError, type JsonObject, type ToolInvocationRecord } from '@toolloop/protocol';
import { isRemovalCause } from '../catalog/tool-removals.js';
import type { Toolset } from '../catalog/toolset.js';
import type { Policy, RunSpending } from '../contracts/policy.js';
import type { SuspendedRun } from '../contracts/stores.js';
import type { BegunSubRun, SavedApprovals, ToolOutcome } from '../execution/call.js';
import type { SavedHandles, SavedInstances } from '../injection/run-entities.js';
import { savedTools, type SavedTools, processTools } from '../injection/starting-toolset.js';
import type { SavedInputs } from './event-outlet.js';
import type { LiveRun } from './live-run.js';
import { firstState, type LoopState, type PendingStep } from './loop-state.js';
import type { AssumedRoles, SavedCounts } from './run-accounts.js';
import type { LiveRemains, ResumedRun } from './suspended-runs.js';

/** Where a run stands among its events and its conversation. */
export type SavedPlace = Pick<SavedRun, 'requestId' | 'conversationId' | 'past' | 'sequence'>;

/** What of a run does not grow with every call it makes. */
export type SavedParts = Omit<SavedRun, keyof SavedPlace | 'tools' | 'counts' | 'spent'>;

/** What of a waiting run is JSON. */
export function savedRun(state: LoopState, pending: PendingStep | undefined, live: LiveRun, place: SavedPlace): SavedRun {
  return {
    ...place,
    ...savedParts(state, pending, live),
    ...(!live.inputs.isEmpty && { inputs: live.inputs.save() }),
    tools: savedTools(state.toolset),
    counts: live.counter.save(),
    spent: live.spending.calls,
  };
}

export function savedParts(state: LoopState, pending: PendingStep | undefined, live: LiveRun): SavedParts {
  const { step, messages, cut, usage, records, text, corrections, emptyAnswers } = state;
  return {
    state: { step, messages, ...(cut && { cut }), usage, records, text, corrections, emptyAnswers },
    ...(pending && { pending: savedStep(pending, state.toolset) }),
    approvals: live.approvals.save(),
    handles: live.handles.save(),
    instances: live.instances.save(),
    sentTools: live.sentTools.save(),
    policies: live.plan.narrowing,
    ...(live.inputs.taken > 0 && { inputs: { taken: live.inputs.taken, waiting: [] } }),
    ...(live.use.innerSteps > 0 && { innerSteps: live.use.innerSteps }),
    ...(live.use.hasUnknownCost && { hasUnknownCost: true }),
    ...(live.roles.assumed && { roles: live.roles.assumed }),
  };
}

/** What of it is not. */
export function remainsOf({ toolset }: LoopState, { outcomes }: PendingStep, live: LiveRun): LiveRemains {
  return {
    ...processTools(toolset),
    ...(live.pages && { pages: live.pages }),
    state: live.plan.execution.run.state,
    results: new Map(outcomes.map(({ record, live: result }) => [record.toolCallId, result])),
    subRuns: new Map(outcomes.flatMap(({ record, begun }) => (begun?.remains ? [[record.toolCallId, begun.remains]] : []))),
  };
}

/** The state in which a run stood still, with the tools as they are now, injected ones included. */
export function resumedState({ saved, remains }: ResumedRun, toolset: Toolset): LoopState {
  const { pending } = saved;
  const done = pending?.outcomes.map((outcome) => withLive(outcome, toolset, remains)) ?? [];
  return {
    ...firstState(toolset),
    ...saved.state,
    ...(pending && { pending: { ...pending, offered: offeredIn(pending, toolset), outcomes: done } }),
  };
}

function savedStep({ answer, offered, outcomes, limit, isPlanned }: PendingStep, toolset: Toolset): SavedStep {
  const narrowed = offered !== toolset && { offered: offered.reachable.map(({ id }) => id) };
  return { answer, outcomes: outcomes.map(savedOutcome), isPlanned, ...narrowed, ...(limit && { limit }) };
}

/** Of a step that was narrowed the rest stays away: calls of it may not be made yet. */
function offeredIn({ offered }: SavedStep, toolset: Toolset): Toolset {
  if (!offered) return toolset;
  const ids = new Set(offered);
  return toolset.filter(({ spec }) => ids.has(spec.id));
}

/** What of an outcome is JSON. */
export function savedOutcome({ record, content, isPending, entities, noticed, labels, begun }: ToolOutcome): SavedOutcome {
  const inner = begun && { begun: { saved: begun.saved, args: begun.args } };
  const seen = { ...(entities && { entities }), ...(noticed && { noticed }) };
  return { record, content, ...(isPending && { isPending }), ...seen, ...(labels && { labels }), ...inner };
}

function withLive(outcome: SavedOutcome, toolset: Toolset, remains: LiveRemains | undefined): ToolOutcome {
  const { begun, ...rest } = outcome;
  const { toolCallId, id } = outcome.record;
  const tool = toolset.held(id);
  const again = begun && begunAgain(outcome, begun, remains);
  return { ...rest, live: remains?.results.get(toolCallId), ...(tool && { tool }), ...(again && { begun: again }) };
}

function begunAgain(
  { record }: SavedOutcome,
  begun: NonNullable<SavedOutcome['begun']>,
  remains: LiveRemains | undefined,
): BegunSubRun | undefined {
  const kept = remains?.subRuns.get(record.toolCallId);
  return record.subRun && { ...begun, record: record.subRun, ...(kept && { remains: kept }) };
}

/** What of a run's state is JSON. The tools are not: they are made anew, or kept beside it. */
export type SavedState = Pick<LoopState, 'step' | 'messages' | 'cut' | 'usage' | 'records' | 'text' | 'corrections' | 'emptyAnswers'>;

/** What became of a call, without the tool and what it returned. */
export type SavedOutcome = Pick<ToolOutcome, 'record' | 'content' | 'isPending' | 'entities' | 'noticed' | 'labels'> & {
  /** Of a sub-run that waits. */
  readonly begun?: Pick<BegunSubRun, 'saved' | 'args'>;
};

/** A step that is not over. */
export interface SavedStep extends Pick<PendingStep, 'answer' | 'limit' | 'isPlanned' | 'begun'> {
  readonly outcomes: readonly SavedOutcome[];
  /** Rendered ids of what could be called in it. @default all of the run's tools */
  readonly offered?: readonly string[];
}

/** A run that stands still, whether it waits or its process is gone. */
export interface SavedRun {
  readonly requestId: string;
  readonly conversationId?: string;
  /** Of the last event. */
  readonly sequence: number;
  /** Messages that the conversation had before the run. */
  readonly past: number;
  readonly state: SavedState;
  /** The step that is not over. Absent where the run stands between two steps. */
  readonly pending?: SavedStep;
  readonly approvals: SavedApprovals;
  readonly handles: SavedHandles;
  readonly instances: SavedInstances;
  /** See {@link SentTools}. */
  readonly sentTools: readonly string[];
  readonly tools: SavedTools;
  readonly policies: readonly Policy[];
  readonly counts: SavedCounts;
  /** What the user added. @default nothing */
  readonly inputs?: SavedInputs;
  /** Of sub-runs. @default 0 */
  readonly innerSteps?: number;
  readonly spent: RunSpending['calls'];
  /** Whether `usage` lacks the cost of an answer. @default false */
  readonly hasUnknownCost?: boolean;
  /** Those that the run holds, where it has assumed any. */
  readonly roles?: AssumedRoles;
}

/** Of the form in which runs are kept: those that wait in a store, and the entries of durable ones. Raise it with every change of either. */
export const SAVED_RUN_VERSION: SuspendedRun['version'] = 1;

/** Reads what we wrote. Throws `InvalidRequestError` (`unreadable_run`) for a run of another version, and for what is no run. */
export function fromSuspendedRun({ version, runId, content }: Pick<SuspendedRun, 'version' | 'runId' | 'content'>): SavedRun {
  assertVersion(version, runId);
  return fromSavedJson(content, runId);
}

/** Throws `InvalidRequestError` (`unreadable_run`) for any version but ours. */
export function assertVersion(version: unknown, runId: string): void {
  if (version !== SAVED_RUN_VERSION)
    throw unreadable(runId, `it is of version ${JSON.stringify(version)}, and this is ${SAVED_RUN_VERSION}`);
}

/** A run that was kept in another form, or damaged: it says what to do. */
export function unreadable(runId: string, why: string): InvalidRequestError {
  return new InvalidRequestError(
    'unreadable_run',
    `The run ${runId} was stored in a form that this release of Toolloop cannot read: ${why}. Fork it in the release that stored it, or start it again.`,
  );
}

/** Reads the JSON of a saved run. Throws `InvalidRequestError` (`unreadable_run`) for what is none. */
export function fromSavedJson(content: JsonObject, runId: string): SavedRun {
  const wrong = wrongInRun(content);
  if (wrong !== undefined) throw unreadable(runId, `${wrong} is not what it must be`);
  const saved = content as unknown as SavedRun;
  const { state, pending } = saved;
  return {
    ...saved,
    state: { ...state, records: state.records.map(withDates) },
    ...(pending && { pending: { ...pending, outcomes: pending.outcomes.map(revived) } }),
  };
}

function revived(outcome: SavedOutcome): SavedOutcome {
  return { ...outcome, record: withDates(outcome.record) };
}

function withDates(record: ToolInvocationRecord): ToolInvocationRecord {
  const { subRun } = record;
  const inner = subRun?.toolCalls && { subRun: { ...subRun, toolCalls: subRun.toolCalls.map(withDates) } };
  return { ...record, startedAt: new Date(record.startedAt), endedAt: new Date(record.endedAt), ...inner };
}

/** Where a value is not what its reader relies on, such as `value.state.messages[0].role`; undefined where all of it is. */
export type Shape = (value: unknown, at: string) => string | undefined;

type Fields = Readonly<Record<string, Shape>>;

/** An entry that has the parts of a run in it which have changed; lists have what was added. */
export function wrongInPart(part: unknown): string | undefined {
  return parts(part, 'value') ?? known(part);
}

/** A whole run: with every part without which it cannot go on. */
export function wrongInRun(run: unknown): string | undefined {
  return whole(run, 'run') ?? known(run);
}

/** What became of a call, as an entry of its own. */
export function wrongInCall(call: unknown): string | undefined {
  return outcome(call, 'value') ?? optional({ spent: list(fields({})) })(call, 'value');
}

/** An entry of a sub-run. */
export function wrongInSubRunEntry(entry: unknown): string | undefined {
  return fields({ toolCallId: text, value: fields({}) })(entry, 'value') ?? optional({ args: fields({}) })(entry, 'value');
}

/** What the user added. */
export function wrongInInput(input: unknown): string | undefined {
  return fields({ content: text })(input, 'value');
}

const text: Shape = (value, at) => (typeof value === 'string' ? undefined : at);
const number: Shape = (value, at) => (typeof value === 'number' ? undefined : at);
const flag: Shape = (value, at) => (typeof value === 'boolean' ? undefined : at);
const present: Shape = (value, at) => (value === undefined ? at : undefined);
const cause: Shape = (value, at) => (isRemovalCause(value) ? undefined : at);
const rolesOrAll: Shape = (value, at) => (value === 'all' ? undefined : list(text)(value, at));

function list(of: Shape = present): Shape {
  return (value, at) => (Array.isArray(value) ? firstOf(value, (one, index) => of(one, `${at}[${index}]`)) : at);
}

function pair(second: Shape): Shape {
  return (value, at) => (Array.isArray(value) && value.length === 2 ? (text(value[0], at) ?? second(value[1], at)) : at);
}

/** An object that has them all. */
function fields(required: Fields): Shape {
  return (value, at) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return at;
    const held = new Map<string, unknown>(Object.entries(value));
    return firstOf(Object.entries(required), ([name, shape]) => shape(held.get(name), `${at}.${name}`));
  };
}

/** An object in which they are what they must be, where they are there. */
function optional(some: Fields): Shape {
  return fields(Object.fromEntries(Object.entries(some).map(([name, shape]) => [name, orAbsent(shape)])));
}

function both(one: Shape, other: Shape): Shape {
  return (value, at) => one(value, at) ?? other(value, at);
}

function orAbsent(shape: Shape): Shape {
  return (value, at) => (value === undefined ? undefined : shape(value, at));
}

function firstOf<Value>(values: readonly Value[], wrong: (value: Value, index: number) => string | undefined): string | undefined {
  for (const [index, value] of values.entries()) {
    const at = wrong(value, index);
    if (at !== undefined) return at;
  }
  return undefined;
}

const usage = fields({ inputTokens: number, outputTokens: number });
const record = fields({ toolCallId: text, id: text, startedAt: text, endedAt: text });
const outcome = both(
  fields({ record, content: present }),
  optional({ isPending: flag, entities: list(), noticed: list(pair(list(text))), begun: fields({ saved: fields({}), args: fields({}) }) }),
);
const toolCall = fields({ toolCallId: text, name: text, arguments: text });
const answer = fields({ text, reasoning: text, calls: list(toolCall), citations: list(), finishReason: text, usage });
const pending = both(
  fields({ answer, outcomes: list(outcome), isPlanned: flag }),
  optional({
    offered: list(text),
    limit: fields({ reason: text }),
    begun: list(fields({ toolCallId: text, saved: fields({}), args: fields({}), record: fields({}) })),
  }),
);

const STATE: Fields = {
  state: fields({
    step: number,
    messages: list(fields({ role: text })),
    usage,
    records: list(record),
    text,
    corrections: number,
    emptyAnswers: number,
  }),
  counts: fields({ perTool: list(pair(number)), identical: list(pair(number)), refusals: number }),
  spent: list(fields({})),
};

const PLACE: Fields = {
  requestId: text,
  sequence: number,
  past: number,
  approvals: fields({ asked: list(pair(text)), remembered: list(pair(text)) }),
  handles: list(pair(text)),
  instances: list(text),
  sentTools: list(text),
  tools: both(
    fields({ order: list(text), injected: list(text), entities: list(fields({ tools: list(text) })), gone: list(pair(cause)) }),
    optional({ keptAway: list(text) }),
  ),
  policies: list(fields({})),
};

const MORE: Fields = {
  conversationId: text,
  pending,
  inputs: fields({ taken: number, waiting: list(text) }),
  innerSteps: number,
  hasUnknownCost: flag,
  roles: rolesOrAll,
};

const parts = both(fields(STATE), optional({ ...PLACE, ...MORE }));
const whole = both(fields({ ...STATE, ...PLACE }), optional(MORE));

const NAMES = new Set(Object.keys({ ...STATE, ...PLACE, ...MORE }));

/** A name that we do not know is one that we do not heed: the run would go on without what it says. */
function known(run: unknown): string | undefined {
  const names = typeof run === 'object' && run !== null ? Object.keys(run) : [];
  return names.find((name) => !NAMES.has(name));
}
