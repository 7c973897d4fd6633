import type { AnswerFormat, ContentPart } from '@toolloop/protocol';
import { EncodedOnce, type IdFit } from '@toolloop/wire';
import { toStrictSchema } from './strict-schema.js';

/** Writes the format of an answer as the JSON that both APIs have in common. */
export function toJsonSchemaFormat(format: AnswerFormat): Uint8Array {
  const { name, schema } = format;
  return encoded.bytes(format, '', () => {
    const strict = toStrictSchema(schema);
    return JSON.stringify({ name, schema: strict ?? schema, strict: strict !== undefined });
  });
}

const encoded = new EncodedOnce<AnswerFormat>();

/**
 * Shortens ids longer than `most` characters: OpenAI refuses them, and vLLM, for example, makes
 * longer ones.
 */
export function fitTo(most: number): IdFit {
  return (id) => (id.length <= most ? id : `call_${hashOf(id).slice(0, 32)}`);
}

/** Replaces ids of another form than a server's own by as many characters of their hash. */
export function fitForm(form: RegExp, characters: number): IdFit {
  return (id) => (form.test(id) ? id : hashOf(id).slice(0, characters));
}

function hashOf(text: string): string {
  const { createHash } = process.getBuiltinModule('node:crypto');
  return createHash('sha256').update(text).digest('hex');
}

/**
 * Returns the name of a file, which providers require; made from its media type where it has none.
 */
export function fileName({
  name,
  mediaType,
}: Extract<ContentPart, { readonly type: 'file' }>): string {
  return name ?? `file.${/^[^/]+\/([a-z0-9]+)/.exec(mediaType)?.[1] ?? 'bin'}`;
}

/** A recording as both APIs take it. */
export interface AudioPart {
  readonly type: 'input_audio';
  readonly input_audio: { readonly data: string; readonly format: 'wav' | 'mp3' };
}

/**
 * Returns a recording in the form that both APIs have for it; a text for one of another type, which
 * they refuse, and undefined for what is no recording.
 */
export function audioPart({
  url,
  mediaType,
}: Extract<ContentPart, { readonly type: 'file' }>): AudioPart | string | undefined {
  if (!/^audio\//i.test(mediaType)) return undefined;
  const format = FORMATS.find(({ types }) => types.test(mediaType))?.format;
  const data = /^data:[^,]*;base64,(.*)$/s.exec(url)?.[1];
  if (format === undefined || data === undefined)
    return `[A recording, which could not be sent: it is ${data === undefined ? 'elsewhere' : mediaType}.]`;
  return { type: 'input_audio', input_audio: { data, format } };
}

const FORMATS = [
  { format: 'wav', types: /^audio\/(?:x-|vnd\.)?wave?\b/i },
  { format: 'mp3', types: /^audio\/(?:mpeg|mp3)\b/i },
] as const;
