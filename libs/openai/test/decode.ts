import { ModelError, type ModelEvent } from '@toolloop/core';
import { AnswerDecoder } from '../src/answer.decoder.js';
import { WIRES } from '../src/wire.js';

export interface Decoded {
  readonly events: readonly ModelEvent[];
  readonly failure?: ModelError;
}

/** Feeds the reads to a fresh decoder the way the model does. */
export function decode(reads: readonly (string | Uint8Array)[], api: keyof typeof WIRES = 'chat'): Decoded {
  const decoder = new AnswerDecoder(WIRES[api].answerOf('test-model'));
  const events: ModelEvent[] = [];
  for (const read of reads) {
    if (decoder.done) break;
    events.push(...decoder.read(typeof read === 'string' ? Buffer.from(read) : read));
  }
  events.push(...decoder.end());
  return { events, failure: decoder.failure };
}

/** An event stream of these chunks, ended by `[DONE]`. */
export function sse(...chunks: readonly object[]): string {
  return `${chunks.map((payload) => `data: ${JSON.stringify(payload)}\n\n`).join('')}data: [DONE]\n\n`;
}

/** A chunk with one choice. */
export function chunk(delta: object, finishReason: string | null = null, rest: object = {}): object {
  return { object: 'chat.completion.chunk', choices: [{ index: 0, delta, finish_reason: finishReason }], ...rest };
}

export function textOf({ events }: Decoded): string {
  return events.map((event) => (event.type === 'text-delta' ? event.text : '')).join('');
}

/** The events with neighbouring deltas joined, so that decodings of differently cut bytes can be compared. */
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
  if (one.type === 'text-delta' && other.type === 'text-delta') return { ...one, text: one.text + other.text };
  if (one.type === 'reasoning-delta' && other.type === 'reasoning-delta') return { ...one, text: one.text + other.text };
  if (one.type === 'tool-call-delta' && other.type === 'tool-call-delta' && one.toolCallId === other.toolCallId) {
    return { ...one, argumentsDelta: one.argumentsDelta + other.argumentsDelta };
  }
  return undefined;
}
