import type {
  FinishReason,
  LoopResult,
  RunFailure,
  ToolInvocationRecord,
} from '@toolloop/protocol';
import type { Finish } from '../loop/loop-state.js';
import { unavailableText } from './unavailable-end.js';
import { tellUnknown, unknownOutcomes } from './unknown-outcomes.js';

/**
 * Returns an end in words that name the calls of which it is unknown whether they took place, and
 * after the failure of a store those that stand. No model has told of them: a run that ends with an
 * answer has had its own word about each call.
 */
export function tellEnd(
  finish: Finish,
  run: EndedRun,
): Pick<LoopResult, 'error' | 'finishDetail' | 'unknownOutcomes'> {
  const { reason, error, detail } = finish;
  const unknown = ANSWERED.has(reason) ? [] : unknownOutcomes(run.records);
  const finishDetail = unknown.length > 0 && !error ? tellDetail(finish, unknown) : detail;
  return {
    ...(error && { error: tellFailure(error, finish, { ...run, unknown }) }),
    ...(finishDetail !== undefined && { finishDetail }),
    ...(unknown.length > 0 && { unknownOutcomes: unknown }),
  };
}

/** A run whose end is told. */
export interface EndedRun {
  readonly runId: string;
  readonly records: readonly ToolInvocationRecord[];
}

function tellDetail({ reason, detail }: Finish, unknown: readonly string[]): string {
  return `${detail ?? ENDS[reason] ?? `It ended: ${reason}.`} ${tellUnknown(unknown)}`;
}

function tellFailure(
  error: RunFailure,
  { cause }: Finish,
  { runId, records, unknown }: EndedRun & { readonly unknown: readonly string[] },
): RunFailure {
  if (error.code === 'storage_unavailable')
    return { ...error, message: unavailableText({ cause, runId, records }) };
  return unknown.length > 0
    ? { ...error, message: `${error.message} ${tellUnknown(unknown)}` }
    : error;
}

/** The ends at which the model has read the outcomes of all calls and has answered, or may yet. */
const ANSWERED: ReadonlySet<FinishReason> = new Set<FinishReason>([
  'stop',
  'length',
  'content_filter',
  'waiting',
]);

const ENDS: Readonly<Partial<Record<FinishReason, string>>> = {
  aborted: 'The run was stopped.',
  timeout: 'The run took too long.',
  forbidden: 'The run was refused what it asked for.',
  tool_error: 'A tool of the run failed.',
};
