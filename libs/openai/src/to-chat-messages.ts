import type { AssistantMessage, ContentPart, Message, ToolCall, ToolMessage, UserMessage } from '@toolloop/core';
import { parseWireObject, type ChatMessage, type ChatPart, type ChatToolCall } from './chat-wire.js';
import { providerDataOf, type ProviderData } from './provider-data.js';

interface EncodedMessage {
  /** What the text depends on beside the message itself. */
  readonly key: string;
  readonly text: string;
}

/** Messages are immutable and stay the same objects from step to step, so each is encoded once, however long the run. */
const encoded = new WeakMap<Message, EncodedMessage>();

/** The images of a tool message, as parts of the user message that has to carry them. */
const encodedImages = new WeakMap<ToolMessage, string>();

/** The `messages` of a request, as JSON text. */
export function toChatMessages(instructions: string | undefined, messages: readonly Message[], model: string): string {
  const texts: string[] = instructions === undefined ? [] : [toJson({ role: 'system', content: instructions })];
  let wireIds: ReadonlyMap<string, string> = new Map();
  let images: string[] = [];
  for (const message of messages) {
    if (message.role !== 'tool') {
      texts.push(...carrierOf(images));
      images = [];
    }
    if (message.role === 'assistant') wireIds = wireIdsOf(message.toolCalls ?? []);
    texts.push(toText(message, wireIds, model));
    if (message.role === 'tool' && hasImage(message.content)) images.push(toImageParts(message));
  }
  texts.push(...carrierOf(images));
  return `[${texts.join(',')}]`;
}

/**
 * The ids a provider knows its calls by. Where it gave two calls of one message the same id, the second goes by ours: a result has to find its
 * call.
 */
function wireIdsOf(calls: readonly ToolCall[]): ReadonlyMap<string, string> {
  const ids = new Map<string, string>();
  const taken = new Set<string>();
  for (const { toolCallId, providerCallId } of calls) {
    const id = providerCallId === undefined || taken.has(providerCallId) ? toolCallId : providerCallId;
    taken.add(id);
    ids.set(toolCallId, id);
  }
  return ids;
}

function toText(message: Message, wireIds: ReadonlyMap<string, string>, model: string): string {
  if (message.role === 'assistant') {
    const data = providerDataOf(message, model);
    return once(message, data?.model ?? '', () => toAssistant(message, wireIds, data));
  }
  if (message.role === 'tool') {
    const id = wireIds.get(message.toolCallId) ?? message.toolCallId;
    return once(message, id, () => ({ role: 'tool', tool_call_id: id, content: toToolContent(message.content) }));
  }
  return once(message, '', () => ({ role: message.role, content: toContent(message.content) }));
}

function once(message: Message, key: string, encode: () => ChatMessage): string {
  const known = encoded.get(message);
  if (known?.key === key) return known.text;
  const text = toJson(encode());
  encoded.set(message, { key, text });
  return text;
}

function toJson(message: ChatMessage): string {
  return JSON.stringify(message);
}

function toContent(content: UserMessage['content']): string | readonly ChatPart[] {
  return typeof content === 'string' ? content : content.map(toPart);
}

function toPart(part: ContentPart): ChatPart {
  return part.type === 'text' ? { type: 'text', text: part.text } : { type: 'image_url', image_url: { url: part.url } };
}

function toAssistant(message: AssistantMessage, wireIds: ReadonlyMap<string, string>, data: ProviderData | undefined): ChatMessage {
  const { content, toolCalls = [] } = message;
  if (toolCalls.length === 0) return { role: 'assistant', content, ...(data?.refusal !== undefined && { refusal: data.refusal }) };
  return {
    role: 'assistant',
    content: content === '' ? null : content,
    tool_calls: toolCalls.map((call) => toToolCall(call, wireIds, data)),
    ...(data?.reasoningContent !== undefined && { reasoning_content: data.reasoningContent }),
    ...(data?.reasoningDetails !== undefined && { reasoning_details: data.reasoningDetails }),
  };
}

function toToolCall(call: ToolCall, wireIds: ReadonlyMap<string, string>, data: ProviderData | undefined): ChatToolCall {
  const extraContent = data?.extraContent?.[call.providerCallId ?? call.toolCallId];
  return {
    id: wireIds.get(call.toolCallId) ?? call.toolCallId,
    type: 'function',
    function: { name: toWireName(call.name), arguments: toWireArguments(call.arguments) },
    ...(extraContent !== undefined && { extra_content: extraContent }),
  };
}

/** A model may have invented a name that its provider refuses to read again; the refusal in the transcript says what was wrong. */
function toWireName(name: string): string {
  return name.replaceAll(/[^a-zA-Z0-9_-]/g, '_').slice(0, 64) || '_';
}

/** Providers refuse a transcript with arguments that are not a JSON object; the error result in the transcript explains what they were. */
function toWireArguments(text: string): string {
  return parseWireObject(text) === undefined ? '{}' : text;
}

/** A tool message holds text only, so its images follow in a message of the user's. */
function toToolContent(content: ToolMessage['content']): string {
  if (typeof content === 'string') return content;
  const texts = content.map((part) => (part.type === 'text' ? part.text : '[An image; it follows in the next user message.]'));
  return texts.join('\n');
}

function hasImage(content: ToolMessage['content']): boolean {
  return typeof content !== 'string' && content.some((part) => part.type === 'image');
}

function toImageParts(message: ToolMessage): string {
  const known = encodedImages.get(message);
  if (known !== undefined) return known;
  const images = typeof message.content === 'string' ? [] : message.content.filter((part) => part.type === 'image');
  const intro: ChatPart = { type: 'text', text: `Images in the result of ${message.toolName}:` };
  const text = [intro, ...images.map(toPart)].map((part) => JSON.stringify(part)).join(',');
  encodedImages.set(message, text);
  return text;
}

/** All tool messages of a step have to follow their assistant message directly, so the images of all of them come behind the last. */
function carrierOf(images: readonly string[]): readonly string[] {
  return images.length === 0 ? [] : [`{"role":"user","content":[${images.join(',')}]}`];
}
