import { StorageUnavailableError, type ToolInvocationRecord } from '@toolloop/protocol';
import { changedRecords } from '../plugins/sub-runs/sub-run-call.js';

/** A run that a store has ended. */
export interface UnavailableRun {
  /** The failure of the store. */
  readonly cause: unknown;
  readonly runId: string;
  readonly records: readonly ToolInvocationRecord[];
}

/**
 * Returns the text of the end of a run by a store. A person, a program or a model acts on it: it
 * never suggests to say again what would do once more what was done.
 */
export function unavailableText({ cause, runId, records }: UnavailableRun): string {
  const standing = standingRecords(records);
  const passes = StorageUnavailableError.in(cause)?.mayPass === true;
  const { failure, advice } = passes ? MAY_PASS : STAYS;
  if (standing.length === 0) return `${failure} ${advice}`;
  const made =
    standing.length === 1
      ? '1 call was made and stands'
      : `${standing.length} calls were made and stand`;
  const names = new Set(standing.map(({ declaredId, id }) => declaredId ?? id));
  return `${failure} ${made}: ${[...names].join(', ')}. Do not send the same words again as they are: send them with the requestId of this request, over HTTP its Idempotency-Key (${runId} if it had none), or check first what was done.`;
}

/** Returns the calls of a run whose effects stand, or may stand. */
export function standingRecords(
  records: readonly ToolInvocationRecord[],
): readonly ToolInvocationRecord[] {
  return changedRecords(records).filter(
    ({ rehearsal, pendingId }) => rehearsal === undefined && pendingId === undefined,
  );
}

const MAY_PASS = {
  failure: 'The storage does not answer for now.',
  advice: 'Nothing was lost: try again in a little while.',
};
const STAYS = {
  failure:
    'The storage failed, and as far as is known that does not pass by itself: an operator has to look at it.',
  advice: 'Nothing was lost.',
};
