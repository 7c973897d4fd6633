import { randomUUID } from 'node:crypto';
import type { Logger } from '@nestjs/common';
import { Interruption } from '../execution/interruption.js';
import { StorageUnavailableError } from '../protocol/errors.js';
import type { RunFailure } from '../protocol/loop-result.js';
import type { Finish, LoopState } from './loop.state.js';

/** Whether a run ends for a store that does not answer for now. */
export function isUnavailable({ finish }: Pick<LoopState, 'finish'>): boolean {
  return finish?.error?.code === 'storage_unavailable';
}

/** Whom a failure is logged for. */
export interface FailedRun {
  readonly runId: string;
  readonly logger: Logger;
}

const UNAVAILABLE = 'The storage does not answer for now. Nothing was lost: try again in a little while.';

const MESSAGES = { internal: 'The run failed.', model_error: 'The model could not answer.' } as const satisfies Partial<
  Record<RunFailure['code'], string>
>;

/** What the application's own code for a run did wrong, in words that may be shown: they name the code, and nothing of the run. */
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

/** How a run ends for an error: interrupted, or failed with a fixed text and a reference under which the log has the cause. */
export function finishFor(error: unknown, code: keyof typeof MESSAGES, { runId, logger }: FailedRun): Finish {
  if (error instanceof Interruption && error.kind !== 'failed') return { reason: error.kind, cause: error };
  const correlationId = randomUUID();
  logger.error(`Run ${runId} failed (reference ${correlationId}).`, error);
  if (error instanceof RunFault)
    return { reason: 'error', error: { code: error.code, message: error.message, correlationId }, cause: error.cause ?? error };
  if (StorageUnavailableError.in(error))
    return { reason: 'error', error: { code: 'storage_unavailable', message: UNAVAILABLE, correlationId }, cause: error };
  // A run that was interrupted for a failure of ours, such as a critical sink's, is no fault of the model's.
  const told = error instanceof Interruption ? 'internal' : code;
  return { reason: 'error', error: { code: told, message: MESSAGES[told], correlationId }, cause: error };
}
