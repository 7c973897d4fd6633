import { StorageUnavailableError, type ToolInvocationRecord } from '@toolloop/protocol';
import { changedRecords } from '../plugins/sub-runs/changed-records.js';
import { unknownOutcomes } from './unknown-outcomes.js';

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
  const unknown = unknownOutcomes(records);
  const standing = standingRecords(records).filter(
    ({ error }) => error?.code !== 'unknown_outcome',
  );
  const passes = StorageUnavailableError.in(cause)?.mayPass === true;
  const { failure, advice } = passes ? MAY_PASS : STAYS;
  const sentences = [
    ...(standing.length > 0 ? [madeText(standing)] : []),
    ...(unknown.length > 0 ? [`It is unknown whether ${unknown.join(', ')} took place.`] : []),
  ];
  if (sentences.length === 0) return `${failure} ${advice}`;
  return `${failure} ${sentences.join(' ')} Do not send the same words again as they are: send them with the requestId of this request, over HTTP its Idempotency-Key (${runId} if it had none), or check first what was done.`;
}

function madeText(standing: readonly ToolInvocationRecord[]): string {
  const made =
    standing.length === 1
      ? '1 call was made and stands'
      : `${standing.length} calls were made and stand`;
  const names = new Set(standing.map(({ declaredId, id }) => declaredId ?? id));
  return `${made}: ${[...names].join(', ')}.`;
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
