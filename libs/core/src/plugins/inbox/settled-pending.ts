import type { PendingAnswer, PendingKind } from '../../contracts/pending.js';
import { PendingError } from './pending-error.js';

/** Resolves to all results once every one is there. Throws the first error only then. */
export async function settled<Result>(
  working: readonly Promise<Result>[],
): Promise<readonly Result[]> {
  await Promise.allSettled(working);
  return Promise.all(working);
}

/** The sentences about what has expired. */
export const EXPIRED: Readonly<Record<PendingKind, string>> = {
  approval: 'The approval has expired, and its call was not made. Ask for it again.',
  client: 'The time for this call is over: its result is not taken any more.',
  question: 'The time for this question is over: no answer is taken any more.',
  rehearsal:
    'The time for this rehearsal is over, and nothing of it was performed. Rehearse again.',
};

/** The reason for which a run withdraws an approval and asks again. */
export const TOOL_CHANGED = 'The tool has changed since this was asked, so it is asked anew.';

/** Makes the error for an answer that comes too late. */
export function decidedAlready(answer: PendingAnswer | undefined): PendingError {
  if (answer?.decision === 'withdraw')
    return new PendingError('withdrawn', 'The actor of the run has withdrawn it.');
  if (!answer?.isWithdrawn) return new PendingError('already_answered', 'It was decided already.');
  if (answer.reason === TOOL_CHANGED) return new PendingError('withdrawn', TOOL_CHANGED);
  return new PendingError(
    'withdrawn',
    'The run that asked for it has ended, so there is nothing to decide any more.',
  );
}
