import type { LoopEvent } from '@toolloop/protocol';

/** Revives the dates of an event's records, which are text in JSON. */
export function withDates(event: LoopEvent): LoopEvent {
  if (event.type === 'sub-run') return { ...event, event: withDates(event.event) };
  if (event.type !== 'tool-result') return event;
  const { startedAt, endedAt } = event.record;
  return {
    ...event,
    record: { ...event.record, startedAt: new Date(startedAt), endedAt: new Date(endedAt) },
  };
}
