import type { AnswerFormat, ContentPart, ToolCall } from '@toolloop/protocol';
import { EncodedOnce } from '@toolloop/wire';
import { toStrictSchema } from './strict-schema.js';

const encoded = new EncodedOnce<AnswerFormat>();

/** Writes the format of an answer as the JSON that both APIs have in common. */
export function toJsonSchemaFormat(format: AnswerFormat): Uint8Array {
  const { name, schema } = format;
  return encoded.bytes(format, '', () => {
    const strict = toStrictSchema(schema);
    return JSON.stringify({ name, schema: strict ?? schema, strict: strict !== undefined });
  });
}

const NONE: ReadonlyMap<string, string> = new Map();

/**
 * Maps the call ids of one message to the provider's, where these differ. Where the provider gave two calls the same id, the second keeps its own:
 * a result has to find its call. Ids longer than `most` characters are shortened: OpenAI refuses them, and vLLM, for example, makes longer ones.
 */
export function wireIdsOf(calls: readonly ToolCall[] | undefined, most: number): ReadonlyMap<string, string> {
  if (calls === undefined || calls.every((call) => call.providerCallId === undefined && call.toolCallId.length <= most)) return NONE;
  const ids = new Map<string, string>();
  const taken = new Set<string>();
  for (const { toolCallId, providerCallId } of calls) {
    const id = shortened(providerCallId === undefined || taken.has(providerCallId) ? toolCallId : providerCallId, most);
    taken.add(id);
    ids.set(toolCallId, id);
  }
  return ids;
}

function shortened(id: string, most: number): string {
  if (id.length <= most) return id;
  const { createHash } = process.getBuiltinModule('node:crypto');
  return `call_${createHash('sha256').update(id).digest('hex').slice(0, 32)}`;
}

/** Returns the name of a file, which providers require; made from its media type where it has none. */
export function fileName({ name, mediaType }: Extract<ContentPart, { readonly type: 'file' }>): string {
  return name ?? `file.${/^[^/]+\/([a-z0-9]+)/.exec(mediaType)?.[1] ?? 'bin'}`;
}
