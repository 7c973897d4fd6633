import { decodeInto, type Decoded } from '../../wire/test/decoded.js';
import { WIRES } from '../src/openai-model.js';

export { joined, textOf, type Decoded } from '../../wire/test/decoded.js';

/** Feeds the reads to a fresh decoder the way the model does. */
export function decode(
  reads: readonly (string | Uint8Array)[],
  api: keyof typeof WIRES = 'chat',
): Decoded {
  return decodeInto(WIRES[api].createAnswer({ model: 'test-model' }), reads);
}

/** An event stream of these chunks, ended by `[DONE]`. */
export function sse(...chunks: readonly object[]): string {
  return `${chunks.map((payload) => `data: ${JSON.stringify(payload)}\n\n`).join('')}data: [DONE]\n\n`;
}

/** A chunk with one choice. */
export function chunk(
  delta: object,
  finishReason: string | null = null,
  rest: object = {},
): object {
  return {
    object: 'chat.completion.chunk',
    choices: [{ index: 0, delta, finish_reason: finishReason }],
    ...rest,
  };
}
