import { randomUUID } from 'node:crypto';
import {
  ModelError,
  type ModelErrorCode,
  type RunFailure,
  StorageUnavailableError,
} from '@toolloop/protocol';
import { Interruption } from '../contracts/interruption.js';
import type { Logger } from '../findings/logger.js';
import type { Finish, LoopState } from '../loop/loop-state.js';
import { unavailableText } from './unavailable-end.js';

/**
 * An error of the application's own code for a run, in words that may be shown: they name the code,
 * and nothing of the run.
 */
export class RunFault extends Error {
  override readonly name = 'RunFault';

  constructor(
    readonly code: 'invalid_step' | 'stop_condition',
    message: string,
    options: { readonly cause?: unknown } = {},
  ) {
    super(message, options);
  }
}

/** Returns whether a run ends because a store is unavailable. */
export function isUnavailable({ finish }: Pick<LoopState, 'finish'>): boolean {
  return finish?.error?.code === 'storage_unavailable';
}

/** Whom a failure is logged for. */
export interface FailedRun {
  readonly runId: string;
  readonly logger: Logger;
}

const MESSAGES = {
  internal: 'The run failed.',
  model_error: 'The model could not answer.',
} as const satisfies Partial<Record<RunFailure['code'], string>>;

/**
 * The failures of a model that are a limit which was reached: their words are ours, and may be
 * shown.
 */
const TIMEOUTS: ReadonlySet<ModelErrorCode> = new Set<ModelErrorCode>([
  'no_response',
  'no_content',
  'idle',
]);

/** The end of a run whose model stopped without a reason. */
export const INCOMPLETE: Finish = {
  reason: 'error',
  error: { code: 'model_incomplete', message: 'The model ended before its answer was complete.' },
};

/**
 * Returns the end of a run whose model reached a limit of its time, or broke off before it began.
 */
function unansweredFinish(error: ModelError): Finish | undefined {
  const { code: modelError } = error;
  if (modelError === 'incomplete') return { ...INCOMPLETE, modelError, cause: error };
  return TIMEOUTS.has(modelError)
    ? { reason: 'timeout', detail: error.message, modelError, cause: error }
    : undefined;
}

/**
 * Returns the end of a run by an error: interrupted, or failed with a fixed text and a reference
 * under which the log has the cause.
 */
export function finishFor(
  error: unknown,
  code: keyof typeof MESSAGES,
  { runId, logger }: FailedRun,
): Finish {
  if (error instanceof Interruption && error.kind !== 'failed')
    return {
      reason: error.kind,
      ...(error.kind === 'timeout' && { detail: error.message }),
      cause: error,
    };
  const unanswered = error instanceof ModelError ? unansweredFinish(error) : undefined;
  if (unanswered) return unanswered;
  const correlationId = randomUUID();
  logger.error(`Run ${runId} failed (reference ${correlationId}).`, error);
  const finish = failedFinish(error, code, runId);
  return { ...finish, error: { ...finish.error, correlationId } };
}

function failedFinish(
  error: unknown,
  code: keyof typeof MESSAGES,
  runId: string,
): Finish & { readonly error: RunFailure } {
  const failed = (failure: RunFailure, cause = error): Finish & { readonly error: RunFailure } => ({
    reason: 'error',
    error: failure,
    cause,
  });
  if (error instanceof RunFault)
    return failed({ code: error.code, message: error.message }, error.cause ?? error);
  if (StorageUnavailableError.in(error))
    return failed({
      code: 'storage_unavailable',
      message: unavailableText({ cause: error, runId, records: [] }),
    });
  // A run that was interrupted for a failure of ours, such as a critical sink's, is no fault of the
  // model's.
  const told = error instanceof Interruption ? 'internal' : code;
  const finish = failed({ code: told, message: MESSAGES[told] });
  return error instanceof ModelError && told === 'model_error'
    ? { ...finish, modelError: error.code }
    : finish;
}
