import type { JsonObject } from '@toolloop/protocol';

export type { JsonObject } from '@toolloop/protocol';

/** Reads a stream of JSON Lines, up to a number of them. */
export async function readLines(
  stream: ReadableStream<Uint8Array>,
  most: number,
): Promise<readonly JsonObject[]> {
  const lines: JsonObject[] = [];
  let rest = '';
  const decoder = new TextDecoder();
  const reader = stream.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    rest += value ? decoder.decode(value, { stream: true }) : decoder.decode();
    const texts = rest.split('\n');
    rest = done ? '' : (texts.pop() ?? '');
    lines.push(...texts.filter((text) => text !== '').map(toObject));
    if (done) return lines;
    if (lines.length >= most) {
      await reader.cancel();
      return lines;
    }
  }
}

export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function toObject(text: string): JsonObject {
  const value: unknown = JSON.parse(text);
  return isJsonObject(value) ? value : {};
}
