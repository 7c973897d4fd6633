import type { ModelError, ModelEvent } from '@toolloop/core';
import { MessagesAnswer } from '../src/messages.answer.js';
import { MessagesDecoder } from '../src/messages.decoder.js';

export interface Decoded {
  readonly events: readonly ModelEvent[];
  readonly failure?: ModelError;
}

/** Feeds the reads to a fresh decoder the way the model does. */
export function decode(reads: readonly (string | Uint8Array)[], model = 'test-model'): Decoded {
  const decoder = new MessagesDecoder(new MessagesAnswer(model));
  const events: ModelEvent[] = [];
  for (const read of reads) {
    if (decoder.done) break;
    events.push(...decoder.read(typeof read === 'string' ? Buffer.from(read) : read));
  }
  events.push(...decoder.end());
  return { events, failure: decoder.failure };
}

/** An event stream of these payloads. */
export function sse(...events: readonly object[]): string {
  return events.map((event) => `event: ${String((event as { type?: string }).type)}\ndata: ${JSON.stringify(event)}\n\n`).join('');
}

/** The events of a whole answer around these. */
export function answer(events: readonly object[], stopReason: string | null = 'end_turn', usage: object = { output_tokens: 4 }): string {
  return sse(START, ...events, { type: 'message_delta', delta: { stop_reason: stopReason, stop_sequence: null }, usage }, STOP);
}

export const START = {
  type: 'message_start',
  message: {
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    content: [],
    stop_reason: null,
    usage: { input_tokens: 3, output_tokens: 1 },
  },
};
export const STOP = { type: 'message_stop' };
export const USED = { type: 'usage', usage: { inputTokens: 3, outputTokens: 4 } };

/** The events of one block. */
export function block(index: number, start: object, ...deltas: readonly object[]): object[] {
  return [
    { type: 'content_block_start', index, content_block: start },
    ...deltas.map((delta) => ({ type: 'content_block_delta', index, delta })),
    { type: 'content_block_stop', index },
  ];
}

export function text(index: number, ...pieces: readonly string[]): object[] {
  return block(index, { type: 'text', text: '' }, ...pieces.map((piece) => ({ type: 'text_delta', text: piece })));
}

export function call(index: number, id: string, name: string, ...pieces: readonly string[]): object[] {
  const deltas = ['', ...pieces].map((piece) => ({ type: 'input_json_delta', partial_json: piece }));
  return block(index, { type: 'tool_use', id, name, input: {}, caller: { type: 'direct' } }, ...deltas);
}

export function thinking(index: number, thought: string, signature: string): object[] {
  const deltas = [
    { type: 'thinking_delta', thinking: thought, estimated_tokens: 5 },
    { type: 'signature_delta', signature },
  ];
  return block(index, { type: 'thinking', thinking: '', signature: '' }, ...deltas);
}

export function textOf({ events }: Decoded): string {
  return events.map((event) => (event.type === 'text-delta' ? event.text : '')).join('');
}

export function finishOf({ events }: Decoded): Extract<ModelEvent, { type: 'finish' }> | undefined {
  return events.find((event) => event.type === 'finish');
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
