import type { LoopEvent, LoopEventOf } from '@toolloop/core';
import { lastValueFrom, toArray } from 'rxjs';
import type { Observable } from 'rxjs';

/** Reads a run to its end, by subscribing or by iterating. Rejects when the source errors. */
export async function collect(events: Observable<LoopEvent> | AsyncIterable<LoopEvent>): Promise<LoopEvent[]> {
  if (!(Symbol.asyncIterator in events)) return lastValueFrom(events.pipe(toArray()));
  const read: LoopEvent[] = [];
  for await (const event of events) read.push(event);
  return read;
}

/** The events of one type, with that type's fields. */
export function eventsOf<Type extends LoopEvent['type']>(events: readonly LoopEvent[], type: Type): LoopEventOf<Type>[] {
  return events.filter((event): event is LoopEventOf<Type> => event.type === type);
}
