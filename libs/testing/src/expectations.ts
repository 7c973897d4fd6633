import type { LoopEvent, LoopEventOf, LoopResult, ToolInvocationRecord } from '@toolloop/core';
import type { ToolErrorCode } from '@toolloop/protocol';
import { lastValueFrom, type Observable, toArray } from 'rxjs';
import { ExpectationError } from './testing.error.js';

/**
 * Reads a run to its end, by subscribing or by iterating. Rejects when the source errors.
 *
 * @example
 * const events = await collect(loop.stream({ prompt: 'Where is order 7?' }));
 */
export async function collect(
  events: Observable<LoopEvent> | AsyncIterable<LoopEvent>,
): Promise<LoopEvent[]> {
  if (!(Symbol.asyncIterator in events)) return lastValueFrom(events.pipe(toArray()));
  const read: LoopEvent[] = [];
  for await (const event of events) read.push(event);
  return read;
}

/** Returns the events of one type, with that type's fields. */
export function eventsOf<Type extends LoopEvent['type']>(
  events: readonly LoopEvent[],
  type: Type,
): LoopEventOf<Type>[] {
  return events.filter((event): event is LoopEventOf<Type> => event.type === type);
}

/** The evidence for an expectation: the events of a run, or its result. */
export type RunEvidence = readonly LoopEvent[] | LoopResult;

/** Tells the two kinds of evidence apart. */
export function isEvents(evidence: RunEvidence): evidence is readonly LoopEvent[] {
  return Array.isArray(evidence);
}

/** The records of the run's calls, in the order of their results. */
function recordsOf(evidence: RunEvidence): readonly ToolInvocationRecord[] {
  return isEvents(evidence)
    ? eventsOf(evidence, 'tool-result').map(({ record }) => record)
    : evidence.toolCalls;
}

/**
 * Asserts that at least one call of a tool was denied, with this code if one is given. `tool` is a
 * declared id or a rendered one.
 *
 * @throws ExpectationError if no call was, with the outcome of each call
 * @example
 * expectDenied(await collect(run), 'crm__refund', 'policy_denied');
 */
export function expectDenied(evidence: RunEvidence, tool: string, code?: ToolErrorCode): void {
  const all = recordsOf(evidence);
  const ofTool = all.filter((record) => record.declaredId === tool || record.id === tool);
  if (
    ofTool.some(
      ({ status, error }) => status === 'denied' && (code === undefined || error?.code === code),
    )
  )
    return;

  const wanted = code === undefined ? 'denied' : `denied with ${code}`;
  if (ofTool.length > 0)
    throw new ExpectationError(
      `No call of ${tool} was ${wanted}. Its calls: ${listOfRecords(ofTool)}`,
    );
  const others = all.length === 0 ? 'The run called no tool.' : `Called: ${listOfRecords(all)}`;
  throw new ExpectationError(`${tool} was not called, so no call of it was ${wanted}. ${others}`);
}

function listOfRecords(records: readonly ToolInvocationRecord[]): string {
  return records
    .map(
      ({ id, toolCallId, status, error }) =>
        `${id} ${toolCallId} ${[status, error?.code ?? []].flat().join(' with ')}`,
    )
    .join('; ');
}

/**
 * Asserts that these are the whole events of one run: one `run-end`, last; sequences from 1 without
 * a gap; one `runId`.
 *
 * @throws ExpectationError if they are not, with the first violation
 */
export function expectRunEndsOnce(events: readonly LoopEvent[]): void {
  const ends = eventsOf(events, 'run-end').length;
  if (ends !== 1)
    throw new ExpectationError(
      `The run has ${ends} run-end events instead of one. ${lastOf(events)}`,
    );
  if (events.at(-1)?.type !== 'run-end')
    throw new ExpectationError(`The run-end is not the last event. ${lastOf(events)}`);
  events.forEach(({ runId, sequence, type }, index) => {
    const at = `events[${index}] (${type})`;
    if (sequence !== index + 1)
      throw new ExpectationError(
        `${at} has the sequence ${sequence} instead of ${index + 1}. ${lastOf(events)}`,
      );
    const first = events[0]?.runId;
    if (runId !== first)
      throw new ExpectationError(
        `${at} belongs to the run ${runId}, and the events before it to ${first}.`,
      );
  });
}

/** Describes the last events, since a run may have thousands. */
function lastOf(events: readonly LoopEvent[]): string {
  const last = events.slice(-30).map(({ sequence, type }) => `${sequence} ${type}`);
  return `The last events: ${last.join(', ') || 'none'}.`;
}
