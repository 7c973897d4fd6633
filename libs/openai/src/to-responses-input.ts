import type { AssistantMessage, ContentPart, Message, ToolCall, UserMessage } from '@toolloop/core';
import { EncodedOnce, toWireArguments, toWireName, type WireObject } from '@toolloop/wire';
import { fileName } from './file-name.js';
import { providerDataOf } from './provider-data.js';
import { replayedOutput } from './replayed-output.js';
import type { ResponsesCall, ResponsesItem, ResponsesPart } from './responses-wire.js';
import { wireIdsOf } from './wire-ids.js';

/** Of a call's id. */
const MOST_ID_CHARACTERS = 64;

const encoded = new EncodedOnce<Message>();

/** The `input` of a request, as JSON text. */
export function toResponsesInput(messages: readonly Message[], model: string): string {
  const texts: string[] = [];
  let wireIds: ReadonlyMap<string, string> = new Map();
  for (const message of messages) {
    if (message.role === 'assistant') wireIds = wireIdsOf(message.toolCalls, MOST_ID_CHARACTERS);
    texts.push(toText(message, wireIds, model));
  }
  return `[${texts.join(',')}]`;
}

/** A message is one item, but an assistant's can be several. */
function toText(message: Message, wireIds: ReadonlyMap<string, string>, model: string): string {
  if (message.role === 'assistant') {
    const output = providerDataOf(message, model)?.output ?? [];
    return encoded.text(message, output.length === 0 ? '' : model, () => toAssistantItems(message, wireIds, output).map(toJson).join(','));
  }
  if (message.role === 'tool') {
    const id = wireIds.get(message.toolCallId) ?? message.toolCallId;
    return encoded.text(message, id, () => toJson({ type: 'function_call_output', call_id: id, output: toResultContent(message.content) }));
  }
  return encoded.text(message, '', () => toJson({ role: message.role, content: toContent(message.content) }));
}

/** An item of ours, or one that goes back as it came. */
function toJson(item: ResponsesItem | WireObject): string {
  return JSON.stringify(item);
}

function toAssistantItems(
  message: AssistantMessage,
  wireIds: ReadonlyMap<string, string>,
  output: readonly WireObject[],
): readonly (ResponsesItem | WireObject)[] {
  const { content, toolCalls = [] } = message;
  const calls = toolCalls.map((call) => toFunctionCall(call, wireIds));
  const replayed = replayedOutput(output, { text: content, calls });
  if (replayed.length > 0) return replayed;
  return content === '' && calls.length > 0 ? calls : [{ role: 'assistant', content }, ...calls];
}

function toFunctionCall(call: ToolCall, wireIds: ReadonlyMap<string, string>): ResponsesCall {
  const { toolCallId, name, arguments: text } = call;
  const id = wireIds.get(toolCallId) ?? toolCallId;
  return { type: 'function_call', call_id: id, name: toWireName(name), arguments: toWireArguments(text) };
}

function toContent(content: UserMessage['content']): string | readonly ResponsesPart[] {
  return typeof content === 'string' ? content : content.map(toPart);
}

/** Text stays a text: not every compatible server reads a result in parts. */
function toResultContent(content: UserMessage['content']): string | readonly ResponsesPart[] {
  if (typeof content === 'string') return content;
  const texts = content.filter((part) => part.type === 'text').map(({ text }) => text);
  return texts.length === content.length ? texts.join('\n') : content.map(toPart);
}

function toPart(part: ContentPart): ResponsesPart {
  switch (part.type) {
    case 'text':
      return { type: 'input_text', text: part.text };
    case 'image':
      return { type: 'input_image', image_url: part.url, detail: 'auto' };
    case 'file':
      if (!part.url.startsWith('data:')) return { type: 'input_file', file_url: part.url };
      return { type: 'input_file', filename: fileName(part), file_data: part.url };
  }
}
