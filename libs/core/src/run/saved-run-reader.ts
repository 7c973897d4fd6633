import type { SavedSlots } from '../plugin/saved-slot.js';
import {
  InvalidRequestError,
  isJsonObject,
  type JsonObject,
  type Message,
  type SubRunRecord,
  type ToolCall,
  type ToolInvocationRecord,
  type Usage,
} from '@toolloop/protocol';
import type { EntityKey } from '../contracts/injection.js';
import type { RunEntry } from '../contracts/run-log.js';
import { SAVED_TOOLS } from '../plugins/injection/saved-tools.js';
import { SAVED_CALLS } from '../plugins/usage/spending.js';
import {
  FLAG,
  type Form,
  INSTANT,
  list,
  NUMBER,
  object,
  only,
  optional,
  type OptionalForm,
  pair,
  partly,
  present,
  TEXT,
  YES,
} from '../schema/saved-form.js';
import { SAVED_INPUTS } from './run-inputs.js';
import type { AppliedCut, StepAnswer } from '../loop/loop-state.js';
import {
  OPTIONAL_PARTS,
  PARTS,
  type RunPart,
  type SavedOutcome,
  type SavedRun,
  type SavedState,
  type SavedStep,
} from './saved-run.js';

/**
 * Reads the JSON of a saved run. Throws `InvalidRequestError` (`unreadable_run`) for what is none.
 */
export function fromSavedJson(content: JsonObject, runId: string): SavedRun {
  const wrong = wrongInRun(content);
  if (wrong !== undefined) throw unreadable(runId, `${wrong} is not what it must be`);
  const saved = content as unknown as SavedRun & { readonly trace?: string };
  const { state, pending } = saved;
  return {
    ...withSlots(saved),
    state: { ...state, records: state.records.map(withDates) },
    ...(pending && { pending: { ...pending, outcomes: pending.outcomes.map(revived) } }),
  };
}

/**
 * The version of the form in which runs are stored. Raise it with every change that makes a run of
 * before unreadable: a required part, or another meaning of one.
 */
export const SAVED_RUN_VERSION = 2;

/** Throws `InvalidRequestError` (`unreadable_run`) for any version but ours. */
export function assertVersion(version: unknown, runId: string): void {
  if (version !== SAVED_RUN_VERSION)
    throw unreadable(
      runId,
      `it is of version ${JSON.stringify(version)}, and this is ${SAVED_RUN_VERSION}`,
    );
}

/** A run that was kept in another form, or damaged: it says what to do. */
export function unreadable(runId: string, why: string): InvalidRequestError {
  return new InvalidRequestError(
    'unreadable_run',
    `The run ${runId} was stored in a form that this release of Toolloop cannot read: ${why}. Fork it in the release that stored it, or start it again.`,
  );
}

/** Reads the JSON of a sub-run. Throws as `fromSavedJson` does. */
export function fromSavedSubRun({ runId, saved }: JsonObject): {
  readonly runId: string;
  readonly saved: SavedRun;
} {
  if (typeof runId !== 'string' || !isJsonObject(saved))
    throw new TypeError('This is no sub-run that was saved.');
  return { runId, saved: fromSavedJson(saved, runId) };
}

/** The trace of a run stood beside its slots before plugins kept what is theirs. */
function withSlots({ trace, slots, ...saved }: SavedRun & { readonly trace?: string }): SavedRun {
  const before: SavedSlots =
    trace === undefined ? {} : { 'telemetry/trace': { version: 1, value: trace } };
  const all = { ...before, ...slots };
  return Object.keys(all).length > 0 ? { ...saved, slots: all } : saved;
}

function revived(outcome: SavedOutcome): SavedOutcome {
  return { ...outcome, record: withDates(outcome.record) };
}

function withDates(record: ToolInvocationRecord): ToolInvocationRecord {
  const { subRun } = record;
  const inner = subRun?.toolCalls && {
    subRun: { ...subRun, toolCalls: subRun.toolCalls.map(withDates) },
  };
  return {
    ...record,
    startedAt: new Date(record.startedAt),
    endedAt: new Date(record.endedAt),
    ...inner,
  };
}

const LABELS = optional(partly());
const USAGE = partly<Usage>({ inputTokens: NUMBER, outputTokens: NUMBER });
const TOOL_CALL = partly<ToolCall>({ toolCallId: TEXT, name: TEXT, arguments: TEXT });
const RECORD = partly<ToolInvocationRecord>({
  toolCallId: TEXT,
  id: TEXT,
  step: NUMBER,
  index: NUMBER,
  status: TEXT,
  startedAt: INSTANT,
  endedAt: INSTANT,
  subRun: optional(partly({ runId: TEXT })),
});
const MESSAGE = partly<Message>({
  role: TEXT,
  content: present(),
  toolCalls: optional(list(TOOL_CALL)),
  labels: LABELS,
});
const ANSWER = partly<StepAnswer>({
  text: TEXT,
  reasoning: TEXT,
  toolCalls: list(TOOL_CALL),
  citations: optional(list(partly())),
  finishReason: TEXT,
  usage: USAGE,
  answeredBy: optional(TEXT),
  response: optional(partly()),
  refusedMedia: optional(list(TEXT)),
  labels: LABELS,
});

/** A sub-run that waits, or was broken off, as far as it came: a run as it is saved. */
const SUB_RUN = partly<JsonObject>({
  runId: TEXT,
  saved: { check: (value, at) => WHOLE.check(value, at) },
});

const OUTCOME = object<SavedOutcome>({
  record: RECORD,
  content: present(),
  isPending: optional(YES),
  entities: optional(list(object<EntityKey>({ prefix: TEXT, instanceId: TEXT }))),
  matchedTriggers: optional(list(pair(list(TEXT)))),
  labels: optional(partly()),
  hidden: optional(list(partly())),
  change: optional(partly()),
  checkpoint: optional(object({ saved: SUB_RUN, args: partly<JsonObject>() })),
});

const STATE = object<SavedState>({
  step: NUMBER,
  messages: list(MESSAGE),
  cut: optional(
    object<AppliedCut>({
      from: NUMBER,
      ahead: list(MESSAGE),
      summary: optional(TEXT),
      warning: optional(TEXT),
    }),
  ),
  usage: USAGE,
  records: list(RECORD),
  text: TEXT,
  corrections: NUMBER,
  emptyAnswers: NUMBER,
});

const STEP = object<SavedStep>({
  answer: ANSWER,
  outcomes: list(OUTCOME),
  isPlanned: FLAG,
  offered: optional(list(TEXT)),
  limit: optional(partly({ reason: TEXT })),
  checkpoints: optional(
    list(
      partly<NonNullable<SavedStep['checkpoints']>[number]>({
        toolCallId: TEXT,
        saved: SUB_RUN,
        args: partly<JsonObject>(),
        record: partly<SubRunRecord>(),
      }),
    ),
  ),
});

/**
 * The fields of every entry that tells of a run's state: lists have only what is new.
 */
const GROWING = { state: STATE, spent: SAVED_CALLS };
const PLACE = { requestId: TEXT, sequence: NUMBER, past: NUMBER };
const NEEDED = { ...PLACE, ...formsIn(PARTS), tools: SAVED_TOOLS };
const MORE = optionals({
  conversationId: TEXT,
  pending: STEP,
  inputs: SAVED_INPUTS,
  ...formsIn(OPTIONAL_PARTS),
  /** The trace of a run that was saved before plugins kept their values. */
  trace: TEXT,
  /** The counts of calls that were saved before they were taken from the calls themselves. */
  counts: partly(),
});

const WHOLE: Form<SavedRun> = only({ ...GROWING, ...NEEDED, ...MORE });
const CHANGED: Form<Partial<SavedRun>> = only({ ...GROWING, ...optionals(NEEDED), ...MORE });

/**
 * Names the first value of a saved run that is not what it must be; undefined where all of it is,
 * and every part is there.
 */
function wrongInRun(run: unknown): string | undefined {
  return WHOLE.check(run, 'run');
}

const CALL = partly({ spent: optional(SAVED_CALLS) });
const VALUES = object({ slots: OPTIONAL_PARTS.slots.form });
const INPUT = partly({ number: NUMBER, content: TEXT, from: optional(TEXT) });
const OF_SUB_RUN = partly({
  runId: TEXT,
  toolCallId: TEXT,
  args: optional(partly()),
  entry: partly({ type: TEXT, key: TEXT }),
});
const VERSIONED = optionals({ version: NUMBER });

const BEGINNING: Form<Partial<SavedRun>> = only({
  ...VERSIONED,
  ...GROWING,
  ...optionals(NEEDED),
  ...MORE,
});

/** The same for an entry of a run's log. */
export function wrongInEntry(entry: RunEntry): string | undefined {
  // one of another release has no form
  const check: EntryCheck | undefined = ENTRIES[entry.type];
  return check ? check(entry) : 'its type';
}

type EntryCheck = (entry: RunEntry) => string | undefined;

const ENTRIES: Readonly<Record<RunEntry['type'], EntryCheck>> = {
  begin: valueIs(BEGINNING),
  model: valueIs(CHANGED),
  step: valueIs(CHANGED),
  wait: valueIs(CHANGED),
  end: valueIs(CHANGED),
  tool: (entry) => valueIs(OUTCOME)(entry) ?? valueIs(CALL)(entry),
  values: valueIs(VALUES),
  input: (entry) => INPUT.check(entry, 'entry'),
  'sub-run': (entry) => OF_SUB_RUN.check(entry, 'entry'),
};

function valueIs(form: Form<unknown>): EntryCheck {
  return (entry) => form.check('value' in entry ? entry.value : undefined, 'value');
}

function formsIn(
  parts: Readonly<Record<string, RunPart<unknown>>>,
): Readonly<Record<string, Form<unknown>>> {
  return Object.fromEntries(Object.entries(parts).map(([name, { form }]) => [name, form]));
}

function optionals(
  forms: Readonly<Record<string, Form<unknown>>>,
): Readonly<Record<string, OptionalForm<unknown>>> {
  return Object.fromEntries(Object.entries(forms).map(([name, form]) => [name, optional(form)]));
}
