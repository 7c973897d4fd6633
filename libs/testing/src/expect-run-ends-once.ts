import type { LoopEvent } from '@toolloop/core';
import { eventsOf } from './collect.js';
import { ExpectationError } from './expectation.error.js';

/**
 * Makes sure that these are the whole events of one run: one `run-end`, last; sequences from 1 without a gap; one `runId`. Throws an
 * `ExpectationError` that names the first breach.
 */
export function expectRunEndsOnce(events: readonly LoopEvent[]): void {
  const ends = eventsOf(events, 'run-end').length;
  if (ends !== 1) throw new ExpectationError(`The run has ${ends} run-end events instead of one. ${listOf(events)}`);
  if (events.at(-1)?.type !== 'run-end') throw new ExpectationError(`The run-end is not the last event. ${listOf(events)}`);
  events.forEach(({ runId, sequence, type }, index) => {
    const at = `events[${index}] (${type})`;
    if (sequence !== index + 1) throw new ExpectationError(`${at} has the sequence ${sequence} instead of ${index + 1}. ${listOf(events)}`);
    const first = events[0]?.runId;
    if (runId !== first) throw new ExpectationError(`${at} belongs to the run ${runId}, and the events before it to ${first}.`);
  });
}

/** The last events, since a run may have thousands. */
function listOf(events: readonly LoopEvent[]): string {
  const last = events.slice(-30).map(({ sequence, type }) => `${sequence} ${type}`);
  return `The last events: ${last.join(', ') || 'none'}.`;
}
