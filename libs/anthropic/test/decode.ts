import { decodeInto, type Decoded } from '../../wire/test/decoded.js';
import { MessagesAnswer } from '../src/messages-answer.js';

export { finishOf, joined, textOf, type Decoded } from '../../wire/test/decoded.js';

/** Feeds the reads to a fresh decoder the way the model does. */
export function decode(reads: readonly (string | Uint8Array)[], model = 'test-model'): Decoded {
  return decodeInto(new MessagesAnswer({ model }), reads);
}

/** An event stream of these payloads. */
export function sse(...events: readonly object[]): string {
  return events
    .map(
      (event) =>
        `event: ${String((event as { type?: string }).type)}\ndata: ${JSON.stringify(event)}\n\n`,
    )
    .join('');
}

/** The events of a whole answer around these. */
export function answer(
  events: readonly object[],
  stopReason: string | null = 'end_turn',
  usage: object = { output_tokens: 4 },
): string {
  return sse(
    START,
    ...events,
    { type: 'message_delta', delta: { stop_reason: stopReason, stop_sequence: null }, usage },
    STOP,
  );
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
  return block(
    index,
    { type: 'text', text: '' },
    ...pieces.map((piece) => ({ type: 'text_delta', text: piece })),
  );
}

export function call(
  index: number,
  id: string,
  name: string,
  ...pieces: readonly string[]
): object[] {
  const deltas = ['', ...pieces].map((piece) => ({
    type: 'input_json_delta',
    partial_json: piece,
  }));
  return block(
    index,
    { type: 'tool_use', id, name, input: {}, caller: { type: 'direct' } },
    ...deltas,
  );
}

export function thinking(index: number, thought: string, signature: string): object[] {
  const deltas = [
    { type: 'thinking_delta', thinking: thought, estimated_tokens: 5 },
    { type: 'signature_delta', signature },
  ];
  return block(index, { type: 'thinking', thinking: '', signature: '' }, ...deltas);
}
