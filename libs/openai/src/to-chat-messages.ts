import type { AssistantMessage, ContentPart, Message, ToolCall, ToolMessage, UserMessage } from '@toolloop/core';
import { EncodedOnce, toWireArguments, toWireName } from '@toolloop/wire';
import type { ChatMessage, ChatPart, ChatToolCall } from './chat-wire.js';
import { fileName } from './file-name.js';
import { providerDataOf, type ProviderData } from './provider-data.js';
import { wireIdsOf } from './wire-ids.js';

/** Of a call's id. */
const MOST_ID_CHARACTERS = 40;

const NOUNS = { image: 'An image', file: 'A file' };

const encoded = new EncodedOnce<Message>();

/** The images and files of a tool message, as parts of the user message that has to carry them. */
const encodedAttachments = new EncodedOnce<ToolMessage>();

/** The `messages` of a request, as JSON text. */
export function toChatMessages(instructions: string | undefined, messages: readonly Message[], model: string): string {
  const texts: string[] = instructions === undefined ? [] : [toJson({ role: 'system', content: instructions })];
  let wireIds: ReadonlyMap<string, string> = new Map();
  let attachments: string[] = [];
  for (const message of messages) {
    if (message.role !== 'tool') {
      texts.push(...carrierOf(attachments));
      attachments = [];
    }
    if (message.role === 'assistant') wireIds = wireIdsOf(message.toolCalls, MOST_ID_CHARACTERS);
    texts.push(toText(message, wireIds, model));
    if (message.role === 'tool' && hasAttachment(message.content)) attachments.push(toAttachmentParts(message));
  }
  texts.push(...carrierOf(attachments));
  return `[${texts.join(',')}]`;
}

function toText(message: Message, wireIds: ReadonlyMap<string, string>, model: string): string {
  if (message.role === 'assistant') {
    const data = providerDataOf(message, model);
    return encoded.text(message, data?.model ?? '', () => toJson(toAssistant(message, wireIds, data)));
  }
  if (message.role === 'tool') {
    const id = wireIds.get(message.toolCallId) ?? message.toolCallId;
    return encoded.text(message, id, () => toJson({ role: 'tool', tool_call_id: id, content: toToolContent(message.content) }));
  }
  return encoded.text(message, '', () => toJson({ role: message.role, content: toContent(message.content) }));
}

function toJson(message: ChatMessage): string {
  return JSON.stringify(message);
}

function toContent(content: UserMessage['content']): string | readonly ChatPart[] {
  return typeof content === 'string' ? content : content.map(toPart);
}

function toPart(part: ContentPart): ChatPart {
  switch (part.type) {
    case 'text':
      return { type: 'text', text: part.text };
    case 'image':
      return { type: 'image_url', image_url: { url: part.url } };
    case 'file':
      // This API takes a file's bytes only, and refuses the whole request where it finds a URL.
      if (!part.url.startsWith('data:'))
        return { type: 'text', text: `[The file ${fileName(part)}, which could not be sent from its URL.]` };
      return { type: 'file', file: { filename: fileName(part), file_data: part.url } };
  }
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

/** A tool message holds text only, so its images and files follow in a message of the user's. */
function toToolContent(content: ToolMessage['content']): string {
  if (typeof content === 'string') return content;
  return content
    .map((part) => (part.type === 'text' ? part.text : `[${NOUNS[part.type]}; it follows in the next user message.]`))
    .join('\n');
}

function hasAttachment(content: ToolMessage['content']): boolean {
  return typeof content !== 'string' && content.some((part) => part.type !== 'text');
}

function toAttachmentParts(message: ToolMessage): string {
  return encodedAttachments.text(message, '', () => {
    const attachments = typeof message.content === 'string' ? [] : message.content.filter((part) => part.type !== 'text');
    const intro: ChatPart = { type: 'text', text: `From the result of ${message.toolName}:` };
    return [intro, ...attachments.map(toPart)].map((part) => JSON.stringify(part)).join(',');
  });
}

/** All tool messages of a step have to follow their assistant message directly, so what all of them carry comes behind the last. */
function carrierOf(attachments: readonly string[]): readonly string[] {
  return attachments.length === 0 ? [] : [`{"role":"user","content":[${attachments.join(',')}]}`];
}
