import type {
  AssistantMessage,
  ContentPart,
  Message,
  ToolCall,
  ToolMessage,
} from '@toolloop/protocol';
import {
  CallNaming,
  EncodedOnce,
  GrowingBytes,
  type JsonPart,
  LastText,
  listOf,
  Transcripts,
  type TranscriptWriter,
  toWireArguments,
  toWireName,
  type WireIds,
  type WireObject,
} from '@toolloop/wire';
import { marked, type PromptCache } from './anthropic-options.js';
import { type AnswerOrigin, type ProviderData, providerDataOf } from './provider-data.js';
import type { ServerHabits } from './server-habits.js';

/** The model, the server and the habits for which a transcript is written. */
export interface Reader extends AnswerOrigin {
  readonly habits: ServerHabits;
}

/** The blocks of one side, each with a comma before it. */
interface Turn {
  readonly role: 'user' | 'assistant' | 'system';
  readonly blocks: readonly Uint8Array[];
}

const encoded = new EncodedOnce<Message>();

/** The last turns of the user that are marked for the prompt cache. */
const MOST_MARKED = 2;

/**
 * A transcript in the API's format. Messages of the same side become one turn: the API requires all
 * results of an answer in the one user turn behind it. A later system message stands behind the
 * user's turn it came in, the only place that the API has for it.
 */
class Conversation implements TranscriptWriter {
  private readonly first: Uint8Array[] = [];
  private readonly instructions = new LastText();
  /** The id of the container in which the provider's code execution last kept its files. */
  container: string | undefined;
  /** The turns that stay as they are, whatever comes. */
  private readonly settled = new GrowingBytes();
  private readonly turns: Turn[] = [];
  private readonly late: Uint8Array[] = [];
  private readonly naming = new CallNaming(toWireId);
  private wireIds: WireIds = new Map();

  constructor(private readonly reader: Reader) {}

  take(message: Message): void {
    if (message.role === 'assistant') {
      this.wireIds = this.naming.name(message.toolCalls ?? []);
      this.add('system', this.late.splice(0));
      this.container = providerDataOf(message, this.reader)?.container ?? this.container;
    }
    const blocks = toBlocks(message, this.wireIds, this.reader);
    if (blocks.length === 0) return;
    if (message.role === 'system') (this.turns.length === 0 ? this.first : this.late).push(blocks);
    else this.add(message.role === 'assistant' ? 'assistant' : 'user', [blocks]);
  }

  /** Writes the instructions and the system messages before any other message as blocks. */
  system(instructions = ''): readonly Uint8Array[] {
    return isBlank(instructions)
      ? this.first
      : [this.instructions.bytes(instructions, () => toTextBlock(instructions)), ...this.first];
  }

  /** Writes the `messages` of a request. */
  messages(promptCache: PromptCache): readonly JsonPart[] {
    const turns = [...this.turns];
    if (this.late.length > 0) append(turns, 'system', this.late);
    const last = new Set(turns.filter(({ role }) => role === 'user').slice(-MOST_MARKED));
    const items = turns.flatMap((turn) =>
      toItem(turn.role, last.has(turn) ? marked(turn.blocks, promptCache) : turn.blocks),
    );
    return listOf([...this.settled.pieces, ...items]);
  }

  private add(role: Turn['role'], blocks: readonly Uint8Array[]): void {
    if (blocks.length === 0) return;
    const { turns } = this;
    append(turns, role, blocks);
    while (turns.filter((turn) => turn.role === 'user').length > MOST_MARKED) {
      const turn = turns.shift();
      if (turn) this.settled.add(toItem(turn.role, turn.blocks));
    }
  }
}

function append(turns: Turn[], role: Turn['role'], blocks: readonly Uint8Array[]): void {
  const last = turns.at(-1);
  if (last?.role === role) turns[turns.length - 1] = { role, blocks: [...last.blocks, ...blocks] };
  else turns.push({ role, blocks });
}

const transcripts = new Transcripts<Conversation>();

/**
 * Writes a transcript for a model at a server; only what is new since the last request is written.
 */
export function conversationFor(messages: readonly Message[], reader: Reader): Conversation {
  const key = JSON.stringify([reader.model, reader.server, reader.habits.thinking]);
  return transcripts.written(messages, key, () => new Conversation(reader));
}

/** Writes a text as a block with a comma before it. */
export function toTextBlock(text: string): string {
  return `,${JSON.stringify({ type: 'text', text })}`;
}

function toItem(role: Turn['role'], blocks: readonly JsonPart[]): readonly JsonPart[] {
  return [`,{"role":"${role}","content":`, ...listOf(blocks), '}'];
}

/** Writes the blocks of a message, each with a comma before it; empty for one without content. */
function toBlocks(message: Message, wireIds: WireIds, reader: Reader): Uint8Array {
  switch (message.role) {
    case 'assistant': {
      const data = providerDataOf(message, reader);
      const { thinking } = reader.habits;
      const key = [thinking, data?.model, data && reader.server, ...wireIds.values()].join();
      return once(message, key, () =>
        withThinking(toAssistantBlocks(message, wireIds, data), thinking),
      );
    }
    case 'tool': {
      const id = wireIds.get(message.toolCallId) ?? message.toolCallId;
      return once(message, id, () => [JSON.stringify(toResult(message, id))]);
    }
    case 'system':
    case 'user':
      return once(message, '', () =>
        toContentBlocks(message.content).map((block) => JSON.stringify(block)),
      );
  }
}

function once(message: Message, key: string, encode: () => readonly string[]): Uint8Array {
  return encoded.bytes(message, key, () =>
    encode()
      .map((block) => `,${block}`)
      .join(''),
  );
}

/** Writes a result. The API accepts `is_error` only where the result is text and not empty. */
function toResult({ content, isError }: ToolMessage, id: string): WireObject {
  const blocks = toContentBlocks(content);
  const canFail = blocks.length > 0 && blocks.every(({ type }) => type === 'text');
  return {
    type: 'tool_result',
    tool_use_id: id,
    ...(blocks.length > 0 && { content: typeof content === 'string' ? content : blocks }),
    ...(isError === true && canFail && { is_error: true }),
  };
}

/** Makes an id of the characters that the API accepts. */
function toWireId(id: string): string {
  return id.replaceAll(/[^a-zA-Z0-9_-]/g, '_') || '_';
}

/** The beginning of a block of thinking, redacted or not. */
const THOUGHT = /^\{"type":"(?:redacted_)?thinking"/;

/** Begins an answer with empty thinking where its server requires some and the answer has none. */
function withThinking(
  blocks: readonly string[],
  habit: ServerHabits['thinking'],
): readonly string[] {
  if (habit !== 'required' || blocks.length === 0 || blocks.some((block) => THOUGHT.test(block)))
    return blocks;
  return ['{"type":"thinking","thinking":"","signature":""}', ...blocks];
}

/**
 * Writes the content blocks of an answer as JSON texts, in the order of its provider data where
 * there is one.
 */
export function toAssistantBlocks(
  message: AssistantMessage,
  wireIds: WireIds,
  data: ProviderData | undefined,
): readonly string[] {
  const { content, toolCalls = [] } = message;
  const blocks = data?.blocks;
  // Where the text has changed since, its blocks cannot be told apart any more.
  if (blocks === undefined || lengthOf(blocks) !== content.length) {
    return [...toAnswerText(content), ...toolCalls.map((call) => toCall(call, wireIds))];
  }
  return inOrder(blocks, message, wireIds);
}

function lengthOf(blocks: readonly WireObject[]): number {
  return blocks.reduce((sum, { type, length }) => sum + (type === 'text' ? Number(length) : 0), 0);
}

function inOrder(
  blocks: readonly WireObject[],
  { content, toolCalls = [] }: AssistantMessage,
  wireIds: WireIds,
): readonly string[] {
  const calls = new Map<unknown, ToolCall>(
    toolCalls.map((call) => [call.providerCallId ?? call.toolCallId, call]),
  );
  const texts: string[] = [];
  let at = 0;
  for (const block of blocks) {
    if (block.type === 'text')
      texts.push(...toAnswerText(content.slice(at, (at += Number(block.length))), block));
    else if (block.type === 'tool_use') {
      const call = calls.get(block.id);
      calls.delete(block.id);
      if (call !== undefined) texts.push(toCall(call, wireIds, block));
    } else texts.push(JSON.stringify(block));
  }
  return [...texts, ...Array.from(calls.values(), (call) => toCall(call, wireIds))];
}

function toAnswerText(text: string, { citations }: WireObject = {}): readonly string[] {
  return isBlank(text) ? [] : [JSON.stringify({ type: 'text', text, citations })];
}

/** Writes a call. Its arguments stay as the model wrote them: they are JSON already. */
function toCall(
  call: ToolCall,
  wireIds: WireIds,
  { caller, toolset_name }: WireObject = {},
): string {
  const id = wireIds.get(call.toolCallId) ?? call.toolCallId;
  const head = JSON.stringify({
    type: 'tool_use',
    id,
    name: toWireName(call.name),
    caller,
    toolset_name,
  });
  return `${head.slice(0, -1)},"input":${toWireArguments(call.arguments).trim()}}`;
}

type FilePart = Extract<ContentPart, { readonly type: 'file' }>;

const PDF = 'application/pdf';
const IMAGES = new Set<unknown>(['image/png', 'image/jpeg', 'image/gif', 'image/webp']);

/** Writes the blocks of a content. An empty text is left out, since the API refuses it. */
export function toContentBlocks(content: string | readonly ContentPart[]): readonly WireObject[] {
  const parts: readonly ContentPart[] =
    typeof content === 'string' ? [{ type: 'text', text: content }] : content;
  return parts.filter((part) => part.type !== 'text' || !isBlank(part.text)).map(toContentBlock);
}

export function isBlank(text: string): boolean {
  return text.trim() === '';
}

function toContentBlock(part: ContentPart): WireObject {
  switch (part.type) {
    case 'text':
      return { type: 'text', text: part.text };
    case 'image':
      return toImageBlock(part.url, part.mediaType);
    case 'file':
      return toFileBlock(part);
  }
}

/**
 * Writes a file. The API accepts images, PDFs and plain text; any other text is sent as plain. It
 * would refuse the whole request for any other type.
 */
function toFileBlock({ url, mediaType, name }: FilePart): WireObject {
  const title = name !== undefined && { title: name };
  if (url.startsWith('data:') && isText(mediaType)) {
    return {
      type: 'document',
      source: { type: 'text', media_type: 'text/plain', data: textOf(url) },
      ...title,
    };
  }
  if (mediaType.startsWith('image/')) return toImageBlock(url, mediaType);
  if (mediaType !== PDF) return notSent(`The file ${name ?? ''}`, mediaType);
  return { type: 'document', source: toSource(url, mediaType), ...title };
}

/**
 * Writes an image. The provider finds out the type of one at an address itself, which may differ
 * from the transcript's.
 */
function toImageBlock(url: string, mediaType?: string): WireObject {
  const source = toSource(url, mediaType);
  return source.type === 'base64' && !IMAGES.has(source.media_type)
    ? notSent('An image', String(source.media_type))
    : { type: 'image', source };
}

function notSent(what: string, mediaType: string): WireObject {
  return { type: 'text', text: `[${what.trim()}, which could not be sent: it is ${mediaType}.]` };
}

function isText(mediaType: string): boolean {
  return mediaType.startsWith('text/') || /[/+](json|xml|yaml)\b/.test(mediaType);
}

function textOf(dataUrl: string): string {
  return Buffer.from(readData(dataUrl).base64, 'base64').toString();
}

/**
 * Writes the source of a file: the provider fetches a web address itself, and the content of a
 * `data:` URL is sent along.
 */
function toSource(url: string, mediaType = 'image/png'): WireObject {
  if (!url.startsWith('data:')) return { type: 'url', url };
  const { type, base64 } = readData(url);
  const named = (type || mediaType).toLowerCase();
  return { type: 'base64', media_type: named === 'image/jpg' ? 'image/jpeg' : named, data: base64 };
}

/**
 * Reads the content of a `data:` URL.
 *
 * @throws URIError if its escapes are malformed
 */
function readData(url: string): { readonly type: string; readonly base64: string } {
  const comma = url.indexOf(',');
  const [type = '', ...parameters] = url.slice('data:'.length, comma).split(';');
  const data = url.slice(comma + 1);
  return {
    type,
    base64: parameters.includes('base64')
      ? data
      : Buffer.from(decodeURIComponent(data)).toString('base64'),
  };
}
