import type { DirectiveAttempt } from '../../execution/directive.attempt.js';
import type { DirectiveChange, DirectiveRecord, DirectiveVersion } from '../../protocol/directive.js';
import type { JournalEntry } from '../../protocol/call-journal.js';
import type { ToolErrorCode, ToolFailure } from '../../protocol/tool-error.js';
import type { ToolInvocationRecord } from '../../protocol/tool-invocation-record.js';
import type { DEFAULT_DIRECTIVES } from './directive.options.js';

/** An attempt that is over, and what may follow it. */
export interface AttemptTerms {
  readonly record: DirectiveRecord;
  readonly attempt: DirectiveAttempt;
  readonly terms: Pick<typeof DEFAULT_DIRECTIVES, 'firstDelayMs' | 'longestDelayMs'> & { readonly attempts: number };
  /** What the journal has of an attempt before whose process died; looked up where this one failed before it began. */
  readonly earlier?: JournalEntry;
}

/** What an attempt came to. */
export type AttemptOutcome = Pick<ToolInvocationRecord, 'status' | 'error' | 'result'>;

/** Of a call that never got as far as its method, for a reason that may pass. */
const PASSING = new Set<ToolErrorCode>(['execution_failed', 'timeout', 'aborted']);

/** What an attempt makes of its directive. */
export function verdictOn(outcome: AttemptOutcome, context: AttemptTerms): DirectiveChange {
  const { record, earlier } = context;
  const { status, error, result } = outcomeOf(earlier) ?? outcome;
  if (status === 'succeeded') return { ...DONE[record.task], ...(record.task === 'perform' && result !== undefined && { result }) };
  const failure = error ?? { code: 'execution_failed', safeMessage: 'The call had no result.' };
  if (failure.code === 'invalid_output') return { ...DONE[record.task], failure }; // the effect took place
  return verdictOnFailure(standing(failure, context), failure, context);
}

/** Of an effect that took place before; that nobody may ask for it any more changes nothing about it. */
function outcomeOf(earlier: JournalEntry | undefined): AttemptOutcome | undefined {
  if (earlier?.status === 'in_progress') return earlier.kept && { status: 'succeeded' };
  if (!earlier) return undefined;
  const { outcome } = earlier;
  if (outcome.status === 'failed' || outcome.failure) return { status: 'failed', error: outcome.failure };
  return { status: 'succeeded', result: outcome.ui };
}

/** Where the effect took place, or was undone. */
export const DONE = {
  perform: { event: 'succeeded', status: 'succeeded' },
  compensate: { event: 'compensated', status: 'compensated' },
} as const satisfies Record<DirectiveRecord['task'], DirectiveChange>;

/** The key of the effect, or of the undoing of it: that is an effect, too. */
export function effectKeyOf({ intent, task }: Pick<DirectiveRecord, 'intent' | 'task'>): string {
  return task === 'perform' ? intent.key : `${intent.key}:compensate`;
}

export function versionOf({ intent, status, epoch }: DirectiveRecord): DirectiveVersion {
  const { tenant, directiveId } = intent;
  return { tenant, directiveId, status, epoch };
}

function verdictOnFailure(failure: ToolFailure, latest: ToolFailure, context: AttemptTerms): DirectiveChange {
  const { record, terms } = context;
  if (latest.code === 'aborted')
    return { event: 'retried', status: 'pending', dueInMs: terms.firstDelayMs, attempts: record.attempts - 1, failure };
  const wait = waitFor(latest, context);
  if (wait !== undefined && record.attempts < terms.attempts) return { event: 'retried', status: 'pending', dueInMs: wait, failure };
  const status = failure.code === 'unknown_outcome' ? 'unknown_outcome' : 'dead';
  return { event: status, status, failure };
}

/** An earlier attempt of which nobody knows stays unknown until one gets an answer. */
function standing(failure: ToolFailure, { record, attempt, earlier }: AttemptTerms): ToolFailure {
  if (earlier && failure.code !== 'unknown_outcome') return LEFT;
  const isAnswer = attempt.mayHaveEffect && attempt.retryAfterMs === undefined && !NOT_CALLED.has(failure.code);
  return record.failure?.code === 'unknown_outcome' && !isAnswer ? record.failure : failure;
}

const LEFT: ToolFailure = {
  code: 'unknown_outcome',
  safeMessage: 'It was begun by a process that died; it is unknown whether its effect took place.',
};

/** Of a call whose method was never called. */
const NOT_CALLED = new Set<ToolErrorCode>(['timeout', 'aborted']);

/** Milliseconds; undefined where another attempt would come to the same, or might do harm. */
function waitFor(failure: ToolFailure, { record, attempt, terms }: AttemptTerms): number | undefined {
  const asked = attempt.retryAfterMs ?? (!attempt.hasBegun && mayPass(failure) ? 0 : undefined);
  if (asked === undefined) return undefined;
  const longest = Math.min(terms.firstDelayMs * 2 ** (record.attempts - 1), terms.longestDelayMs);
  return Math.max(asked, longest * (0.5 + Math.random() / 2));
}

function mayPass({ code, retryable = false }: ToolFailure): boolean {
  return retryable || PASSING.has(code);
}
