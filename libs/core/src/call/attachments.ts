import { createHash } from 'node:crypto';
import type { MediaPart, RecordedAttachment } from '@toolloop/protocol';
import type { Attachment } from '../contracts/attachment.js';

/** In their order, as many as there is room for. */
export function readAttachments(
  attachments: readonly Attachment[],
  mostBytes: number,
): ReadAttachments {
  const kept: RecordedAttachment[] = [];
  const problems: string[] = [];
  let room = mostBytes;
  for (const attachment of attachments) {
    const read =
      kept.length < MOST_ATTACHMENTS
        ? readMedia(attachment, room)
        : `at most ${MOST_ATTACHMENTS} are taken.`;
    if (typeof read === 'string') problems.push(read);
    else {
      room -= read.content.byteLength;
      kept.push({ ...read.part, bytes: read.content.byteLength, sha256: sha256Of(read.content) });
    }
  }
  const [first] = problems;
  return {
    kept,
    ...(first && {
      note: `[${problems.length} of ${attachments.length} attachments left out: ${first}]`,
    }),
  };
}

/** An image or a file that may reach a model. */
export interface ReadMedia {
  readonly part: MediaPart;
  /** Or its URL, where the content lies elsewhere. */
  readonly content: Uint8Array;
}

/** The attachments of a result that the model sees, and a note about the others. */
export interface ReadAttachments {
  readonly kept: readonly RecordedAttachment[];
  readonly note?: string;
}

/** Content, and what it says it is. `url` is where it lies, unless it is here. */
interface Source {
  readonly content: Uint8Array;
  readonly mediaType?: string | undefined;
  readonly url?: string;
}

type Fields = Readonly<Record<string, unknown>>;

const MOST_ATTACHMENTS = 32;
const MOST_URL_CHARACTERS = 8_192;
const MOST_NAME_CHARACTERS = 255;
const MEDIA_TYPE = /^[\w.+-]{1,63}\/[\w.+-]{1,63}$/;
const DATA_URL = /^data:([^;,]{1,127})(?:;[^;,]{1,127}=[^;,]{0,127})*(;base64)?,/i;

/**
 * Content that is here becomes a base64 `data:` URL, however it was written. What is given may come
 * from outside; what is wrong with it is a text.
 */
export function readMedia(given: unknown, room: number): ReadMedia | string {
  const fields: Fields = { ...(typeof given === 'object' && given) };
  const { type } = fields;
  if (type !== 'image' && type !== 'file') return 'it is neither an image nor a file.';
  const source = sourceOf(fields, room);
  if (typeof source === 'string') return source;
  const { content } = source;
  return mediaTypeProblem(type, source) ?? { part: toPart(type, source, fields['name']), content };
}

function sourceOf({ data, url, mediaType }: Fields, room: number): Source | string {
  const source = data === undefined ? readUrl(url, room) : readBytes(data);
  if (typeof source === 'string') return source;
  if (source.content.byteLength === 0) return 'it is empty.';
  if (source.content.byteLength > room) return tooLarge(room);
  return typeof mediaType === 'string' ? { ...source, mediaType: essenceOf(mediaType) } : source;
}

function readBytes(data: unknown): Source | string {
  return data instanceof Uint8Array ? { content: data } : 'its data are not bytes.';
}

function readUrl(url: unknown, room: number): Source | string {
  if (typeof url !== 'string') return 'it has neither a URL nor data.';
  return /^data:/i.test(url) ? readDataUrl(url, room) : readAddress(url);
}

/** A secret in an address would be read by the model and shown in the ui. */
function readAddress(text: string): Source | string {
  const url = text.length <= MOST_URL_CHARACTERS && URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol !== 'https:' || url.username !== '' || url.password !== '')
    return 'it has no plain https: or data: URL.';
  return { content: Buffer.from(url.href), url: url.href };
}

function readDataUrl(url: string, room: number): Source | string {
  const [head, mediaType = '', base64] = DATA_URL.exec(url) ?? [];
  if (head === undefined) return 'its data: URL has no media type.';
  // Three quarters of base64, and a third of what is written in percents, is content: what cannot
  // fit is not decoded.
  if ((url.length - head.length) * (base64 ? 0.75 : 1 / 3) > room + 2) return tooLarge(room);
  const text = decoded(url.slice(head.length));
  if (text === undefined) return 'its data: URL cannot be decoded.';
  return {
    content: Buffer.from(text, base64 ? 'base64' : 'utf8'),
    mediaType: essenceOf(mediaType),
  };
}

function decoded(text: string): string | undefined {
  try {
    return text.includes('%') ? decodeURIComponent(text) : text;
  } catch {
    return undefined;
  }
}

/** Returns the problem with a media type. An image whose content is elsewhere needs none. */
function mediaTypeProblem(type: MediaPart['type'], { mediaType, url }: Source): string | undefined {
  if (mediaType === undefined)
    return type === 'image' && url !== undefined ? undefined : 'it has no media type.';
  if (!MEDIA_TYPE.test(mediaType)) return 'its media type is none.';
  return type === 'image' && !mediaType.startsWith('image/')
    ? `it is an image by name and ${mediaType} by media type.`
    : undefined;
}

function toPart(
  type: MediaPart['type'],
  { content, mediaType, url }: Source,
  name: unknown,
): MediaPart {
  const address = url ?? `data:${mediaType};base64,${bufferOf(content).toString('base64')}`;
  if (type === 'image')
    return { type, url: address, ...(mediaType !== undefined && { mediaType }) };
  const named = typeof name === 'string' &&
    name !== '' && { name: name.slice(0, MOST_NAME_CHARACTERS) };
  return { type, url: address, mediaType: mediaType ?? '', ...named };
}

/** `Text/Plain; charset=utf-8` is `text/plain`. */
function essenceOf(mediaType: string): string {
  return (mediaType.split(';', 1)[0] ?? '').trim().toLowerCase();
}

function bufferOf({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}

function sha256Of(content: Uint8Array): string {
  return createHash('sha256').update(content).digest('hex');
}

function tooLarge(room: number): string {
  return `it is larger than the ${room} bytes there is room for.`;
}
