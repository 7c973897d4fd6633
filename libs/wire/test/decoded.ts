import type { ModelError } from '@toolloop/core';
import type { ModelEvent } from '@toolloop/protocol';
import { AnswerDecoder, type WireAnswer } from '../src/index.js';

/** What a decoder made of an answer. */
export interface Decoded {
  readonly events: readonly ModelEvent[];
  readonly failure?: ModelError;
}

/** Feeds the reads to a fresh decoder the way a model does. */
export function decodeInto(answer: WireAnswer, reads: readonly (string | Uint8Array)[]): Decoded {
  const decoder = new AnswerDecoder(answer);
  const events: ModelEvent[] = [];
  for (const read of reads) {
    if (decoder.done) break;
    events.push(...decoder.read(typeof read === 'string' ? Buffer.from(read) : read));
  }
  events.push(...decoder.end());
  return { events, failure: decoder.failure };
}

export function textOf({ events }: Decoded): string {
  return events.map((event) => (event.type === 'text-delta' ? event.text : '')).join('');
}

export function finishOf({ events }: Decoded): Extract<ModelEvent, { type: 'finish' }> | undefined {
  return events.find((event) => event.type === 'finish');
}

/**
 * The events with neighbouring deltas joined, so that decodings of differently cut bytes can be
 * compared.
 */
export function joined(events: readonly ModelEvent[]): readonly ModelEvent[] {
  const out: ModelEvent[] = [];
  for (const event of events) {
    const last = out.at(-1);
    const whole = last === undefined ? undefined : together(last, event);
    if (whole === undefined) out.push(event);
    else out.splice(-1, 1, whole);
  }
  return out;
}

function together(one: ModelEvent, other: ModelEvent): ModelEvent | undefined {
  if (one.type === 'text-delta' && other.type === 'text-delta')
    return { ...one, text: one.text + other.text };
  if (one.type === 'reasoning-delta' && other.type === 'reasoning-delta')
    return { ...one, text: one.text + other.text };
  if (
    one.type === 'tool-call-delta' &&
    other.type === 'tool-call-delta' &&
    one.toolCallId === other.toolCallId
  ) {
    return { ...one, argumentsDelta: one.argumentsDelta + other.argumentsDelta };
  }
  return undefined;
}
