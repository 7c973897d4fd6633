import type { Attachment } from '@toolloop/core/contracts';
import { sourceAnswer } from '@toolloop/core/sources';
import { isRecord, ToolError } from '@toolloop/protocol';
import type { ToolDefinition } from './tool-pins.js';

/**
 * Returns the result of a tool whose server has answered: the value that it declares, else its
 * texts, with its images beside them. The tool has run by then, so nothing that is odd in an answer
 * makes a failure of it: each part is read alone, and one that cannot be read is named.
 *
 * @throws {ToolError} For an answer that says that the call failed.
 */
export function toResult(
  answer: Readonly<Record<string, unknown>>,
  { outputSchema }: ToolDefinition,
): unknown {
  const { text, structured, attachments, isError } = readAnswer(answer);
  if (isError && !isOfOutput(text))
    throw new ToolError(text === '' ? 'The tool failed, and its server did not say why.' : text);
  const value = structured !== undefined && (outputSchema || text === '') ? structured : text;
  return sourceAnswer(value, { ...(text !== '' && { words: text }), attachments });
}

/** The answer of a server to a call, as far as it could be read. */
interface ServerAnswer {
  readonly text: string;
  readonly structured: unknown;
  readonly attachments: readonly Attachment[];
  /** True if the server says that the call failed. */
  readonly isError: boolean;
}

/**
 * Tells whether the SDK of a server says that a result is not in the form that the tool declares.
 * It looks after the tool has run, but words it as if the call had failed.
 */
export function isOfOutput(words: string): boolean {
  return OF_OUTPUT.test(words);
}

const OF_OUTPUT =
  /^(?:MCP error -?\d+: )?(?:Output validation error|Invalid structured content for tool|Tool \S+ has an output schema but )/;

function readAnswer(answer: Readonly<Record<string, unknown>>): ServerAnswer {
  const { content, structuredContent, isError } = answer;
  const isEmpty = isNothing(content) && isNothing(structuredContent);
  const given: readonly unknown[] = Array.isArray(content) ? content : [content];
  const parts = given.filter((part) => !isNothing(part)).map((part) => readPart(part));
  const texts = parts.flatMap(({ text }) => (text === undefined ? [] : [text]));
  return {
    text: isEmpty ? otherwiseSaid(answer) : texts.join('\n'),
    structured: structuredContent ?? undefined,
    attachments: parts.flatMap(({ attachment }) => attachment ?? []),
    isError: isError === true,
  };
}

function isNothing(value: unknown): boolean {
  return value === undefined || value === null;
}

/**
 * Returns all that an answer has beside the parts in which the protocol has its content; empty if
 * that is nothing.
 */
function otherwiseSaid(answer: Readonly<Record<string, unknown>>): string {
  const rest = Object.entries(answer).filter(([name]) => !PROTOCOL.has(name));
  return rest.length === 0 ? '' : JSON.stringify(Object.fromEntries(rest));
}

const PROTOCOL: ReadonlySet<string> = new Set([
  '_meta',
  'resultType',
  'isError',
  'content',
  'structuredContent',
]);

/** A part of an answer: a text, or what a model can look at or listen to. */
interface ReadPart {
  readonly text?: string;
  readonly attachment?: Attachment;
}

function readPart(part: unknown): ReadPart {
  if (!isRecord(part)) return { text: typeof part === 'string' ? part : JSON.stringify(part) };
  const { type, text, data, mimeType, resource } = part;
  if (type === 'resource' && isRecord(resource)) return readResource(resource);
  if (type === 'resource_link')
    return { text: `[a link: ${[part['name'], part['uri']].map(shown).join(' ')}]` };
  if ((type === 'image' || type === 'audio') && typeof data === 'string')
    return { attachment: media(type, data, mimeType) };
  return typeof text === 'string'
    ? { text }
    : { text: `[a part of the kind "${shown(type)}", left out]` };
}

/** A file within an answer: its text, or what a model can take of its bytes. */
function readResource({ text, blob, mimeType, uri }: Readonly<Record<string, unknown>>): ReadPart {
  if (typeof text === 'string') return { text };
  const kind =
    typeof mimeType === 'string'
      ? KINDS.find(({ types }) => types.test(mimeType))?.kind
      : undefined;
  if (typeof blob !== 'string' || kind === undefined)
    return { text: `[a file, left out: ${shown(uri)}]` };
  return kind === 'text'
    ? { text: Buffer.from(blob, 'base64').toString() }
    : { attachment: media(kind, blob, mimeType) };
}

const KINDS = [
  { kind: 'image', types: /^image\//i },
  { kind: 'audio', types: /^audio\//i },
  { kind: 'file', types: /^application\/pdf\b/i },
  { kind: 'text', types: /^text\/|^application\/(?:[^;]+\+)?(?:json|xml|yaml)\b/i },
] as const;

/**
 * Makes an attachment. One that is too large, or no base64 of its type, is left out behind the
 * result with a note.
 */
function media(kind: 'image' | 'audio' | 'file', base64: string, mimeType: unknown): Attachment {
  return {
    type: kind === 'image' ? 'image' : 'file',
    data: Buffer.from(base64, 'base64'),
    mediaType: typeof mimeType === 'string' ? mimeType : '',
  };
}

const MOST_SHOWN = 200;

function shown(value: unknown): string {
  return typeof value === 'string' ? value.slice(0, MOST_SHOWN) : '';
}
