import { randomUUID } from 'node:crypto';
import type { ToolErrorCode, ToolFailure, ToolInvocationRecord } from '@toolloop/protocol';
import type { JournalEntry } from '../../contracts/call-journal.js';
import type { DirectiveChange, DirectiveRecord } from '../../contracts/directive.js';
import { DirectiveAttempt } from './directive-attempt.js';
import type { DEFAULT_DIRECTIVES } from './directive-options.js';

/** Returns the change of a directive after an attempt. */
export function verdictOn(outcome: AttemptOutcome, context: AttemptTerms): DirectiveChange {
  const { record, earlier } = context;
  const { status, error, result } = readEarlierOutcome(earlier) ?? outcome;
  if (status === 'succeeded')
    return {
      ...DONE[record.task],
      ...(record.task === 'perform' && result !== undefined && { result }),
    };
  const failure = error ?? { code: 'execution_failed', safeMessage: 'The call had no result.' };
  // the effect took place
  if (failure.code === 'invalid_output') return { ...DONE[record.task], failure };
  return verdictOnFailure(keepUnknown(failure, context), failure, context);
}

/**
 * The times in a row that a directive is put off since a store failed, before it waits for an
 * operator: an error that does not pass would have it tried for ever.
 */
export const MOST_PUT_OFFS = 10;
const PARKED =
  'The storage has failed again and again, so it was not performed. Once the storage is mended, an operator can have it tried again.';

/** An attempt that is over, and what may follow it. */
export interface AttemptTerms {
  readonly record: DirectiveRecord;
  readonly attempt: DirectiveAttempt;
  readonly terms: Pick<typeof DEFAULT_DIRECTIVES, 'firstDelayMs' | 'longestDelayMs'> & {
    readonly attempts: number;
  };
  /**
   * The journal's entry for an earlier attempt whose process died; looked up if this one failed
   * before it began.
   */
  readonly earlier?: JournalEntry;
}

export type AttemptOutcome = Pick<ToolInvocationRecord, 'status' | 'error' | 'result'>;

/** The errors of a call that did not reach its method, for a reason that may pass. */
const PASSING = new Set<ToolErrorCode>(['execution_failed', 'timeout', 'aborted']);

/**
 * Returns the outcome of an effect that took place before, even if its actor may no longer request
 * it.
 */
function readEarlierOutcome(earlier: JournalEntry | undefined): AttemptOutcome | undefined {
  if (earlier?.status === 'in_progress') return earlier.kept && { status: 'succeeded' };
  if (!earlier) return undefined;
  const { outcome } = earlier;
  if (outcome.status === 'failed' || outcome.failure)
    return { status: 'failed', error: outcome.failure };
  return { status: 'succeeded', result: outcome.ui };
}

/** The changes after an effect took place, or was undone. */
export const DONE = {
  perform: { event: 'succeeded', status: 'succeeded' },
  compensate: { event: 'compensated', status: 'compensated' },
} as const satisfies Record<DirectiveRecord['task'], DirectiveChange>;

/** The key of the effect, or of the undoing of it: that is an effect, too. */
export function effectKeyOf({ intent, task }: Pick<DirectiveRecord, 'intent' | 'task'>): string {
  return task === 'perform' ? intent.key : `${intent.key}:compensate`;
}

function verdictOnFailure(
  failure: ToolFailure,
  latest: ToolFailure,
  context: AttemptTerms,
): DirectiveChange {
  const { record, terms } = context;
  const { putOffs = 0 } = record;
  const again = {
    event: 'retried',
    status: 'pending',
    attempts: record.attempts - 1,
    failure,
  } as const;
  if (latest.code === 'aborted') return { ...again, dueInMs: terms.firstDelayMs, putOffs };
  if (latest.code === 'storage_unavailable') {
    const times = putOffs + 1;
    const dueInMs = Math.min(terms.firstDelayMs * 2 ** putOffs, terms.longestDelayMs);
    return times < MOST_PUT_OFFS ? { ...again, dueInMs, putOffs: times } : parked(record, failure);
  }
  const wait = waitFor(latest, context);
  if (wait !== undefined && record.attempts < terms.attempts)
    return { event: 'retried', status: 'pending', dueInMs: wait, failure };
  const status = failure.code === 'unknown_outcome' ? 'unknown_outcome' : 'dead';
  return { event: status, status, failure };
}

/**
 * The change of a directive that was put off too often: an operator has it tried again, and says
 * before that whether the effect took place, if that is unknown.
 */
function parked({ attempts }: DirectiveRecord, failure: ToolFailure): DirectiveChange {
  if (failure.code === 'unknown_outcome')
    return { event: 'unknown_outcome', status: 'unknown_outcome', attempts: attempts - 1, failure };
  const latest = { ...failure, safeMessage: PARKED, correlationId: randomUUID() };
  return { event: 'dead', status: 'dead', attempts: attempts - 1, failure: latest };
}

/** Keeps an unknown outcome of an earlier attempt until a later one gets an answer. */
function keepUnknown(
  failure: ToolFailure,
  { record, attempt, earlier }: AttemptTerms,
): ToolFailure {
  if (earlier && failure.code !== 'unknown_outcome') return LEFT;
  const isAnswer =
    attempt.mayHaveEffect && attempt.retryAfterMs === undefined && !NOT_CALLED.has(failure.code);
  return record.failure?.code === 'unknown_outcome' && !isAnswer ? record.failure : failure;
}

const LEFT: ToolFailure = {
  code: 'unknown_outcome',
  safeMessage: 'It was begun by a process that died; it is unknown whether its effect took place.',
};

/** The errors of a call whose method was never called. */
const NOT_CALLED = new Set<ToolErrorCode>(['timeout', 'aborted', 'storage_unavailable']);

/** Milliseconds; undefined where another attempt would come to the same, or might do harm. */
function waitFor(
  failure: ToolFailure,
  { record, attempt, terms }: AttemptTerms,
): number | undefined {
  const asked = attempt.retryAfterMs ?? (!attempt.hasBegun && mayPass(failure) ? 0 : undefined);
  if (asked === undefined) return undefined;
  const longest = Math.min(terms.firstDelayMs * 2 ** (record.attempts - 1), terms.longestDelayMs);
  return Math.max(asked, longest * (0.5 + Math.random() / 2));
}

function mayPass({ code, retryable = false }: ToolFailure): boolean {
  return retryable || PASSING.has(code);
}
