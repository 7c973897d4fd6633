import type { LoopEventOf } from '@toolloop/protocol';

/** An end that is no answer, as protocols tell it. */
export interface FailedEnd {
  readonly message: string;
  readonly code: string;
}

/**
 * Reads the end of a run that failed, or of which it is unknown whether calls took place; undefined
 * for any other. Those must be read by a person, and protocols have no words for them but those of
 * an error.
 */
export function readFailedEnd({
  finishReason,
  error,
  finishDetail,
  unknownOutcomes,
}: LoopEventOf<'run-end'>): FailedEnd | undefined {
  if (finishReason !== 'error' && !unknownOutcomes) return undefined;
  return {
    message: error?.message ?? finishDetail ?? 'The run failed.',
    code: error?.code ?? finishReason,
  };
}
