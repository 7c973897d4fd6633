import {
  type AssistantMessage,
  type ContentPart,
  InvalidRequestError,
  isRecord,
  type Message,
  type ToolCall,
  type ToolMessage,
  type UserMessage,
} from '@toolloop/protocol';
import type { Limits } from '../contracts/limits.js';
import { readMedia } from '../call/attachments.js';

/**
 * Checks a conversation that came from outside and takes from it what may be taken: `system` ranks
 * as user, tool results are labelled untrusted, and a provider's opaque parts are dropped. Throws
 * `InvalidRequestError` (`invalid_messages`), which names the index and the id.
 */
export function checkMessages(messages: unknown, limits: Limits): readonly Message[] {
  if (!Array.isArray(messages)) throw invalid('messages must be a list.');
  const check = new TranscriptCheck(limits);
  const checked = messages.map((message: unknown, index) => check.take(message, index));
  check.end();
  return checked;
}

/** Text of one message, in characters, that is taken from outside. */
const MOST_CHARACTERS = 1_000_000;

/** Walks a transcript: every call must be answered once, and before anybody else speaks. */
class TranscriptCheck {
  private readonly seen = new Set<string>();
  private readonly open = new Map<string, number>();

  constructor(private readonly limits: Limits) {}

  take(message: unknown, index: number): Message {
    if (!isRecord(message)) throw invalid(`Message ${index} is not an object.`);
    if (message['role'] !== 'tool') this.refuseOpenCalls(index);
    switch (message['role']) {
      case 'system':
      case 'user':
        return { role: 'user', content: this.content(message['content'], index) };
      case 'assistant':
        return this.assistantMessage(message, index);
      case 'tool':
        return this.toolMessage(message, index);
      default:
        throw invalid(
          `Message ${index} has the role ${JSON.stringify(message['role'])}; use user, assistant or tool.`,
        );
    }
  }

  end(): void {
    this.refuseOpenCalls(undefined);
  }

  private refuseOpenCalls(index: number | undefined): void {
    const [first] = this.open;
    if (!first) return;
    const before = index === undefined ? 'the messages end' : `message ${index}`;
    throw invalid(
      `The call ${JSON.stringify(first[0])} in message ${first[1]} has no result before ${before}.`,
    );
  }

  private assistantMessage(message: Record<string, unknown>, index: number): AssistantMessage {
    const content = requireText(message['content'] ?? '', index);
    const calls = message['toolCalls'] ?? [];
    if (!Array.isArray(calls)) throw invalid(`Message ${index}: toolCalls must be a list.`);
    const toolCalls = calls.map((call: unknown) => this.toolCall(call, index));
    return {
      role: 'assistant',
      content,
      labels: { returns: 'untrusted', reads: 'private' },
      ...(toolCalls.length > 0 && { toolCalls }),
    };
  }

  private toolCall(call: unknown, index: number): ToolCall {
    if (
      !isRecord(call) ||
      typeof call['name'] !== 'string' ||
      typeof call['arguments'] !== 'string'
    )
      throw invalid(
        `Message ${index}: a tool call needs toolCallId, name and arguments, all text.`,
      );
    const toolCallId = this.callId(call['toolCallId'], index);
    if (this.seen.has(toolCallId))
      throw invalid(`Message ${index}: the call id ${JSON.stringify(toolCallId)} was used before.`);
    // They are not executed any more, and a call that was refused for its size is part of the
    // transcript it was made in.
    if (call['arguments'].length > MOST_CHARACTERS)
      throw invalid(
        `Message ${index}: the arguments of ${JSON.stringify(toolCallId)} have more than ${MOST_CHARACTERS} characters.`,
      );
    this.seen.add(toolCallId);
    this.open.set(toolCallId, index);
    return { toolCallId, name: call['name'], arguments: call['arguments'] };
  }

  private toolMessage(message: Record<string, unknown>, index: number): ToolMessage {
    const toolCallId = this.callId(message['toolCallId'], index);
    if (!this.open.delete(toolCallId))
      throw invalid(
        `Message ${index}: there is no open call ${JSON.stringify(toolCallId)} that this could be the result of.`,
      );
    const content = this.content(message['content'], index);
    if (Buffer.byteLength(plainTextOf(content)) > this.limits.resultBytes)
      throw invalid(
        `Message ${index}: the result of ${JSON.stringify(toolCallId)} is larger than ${this.limits.resultBytes} bytes.`,
      );
    const toolName = typeof message['toolName'] === 'string' ? message['toolName'] : 'unknown';
    return {
      role: 'tool',
      toolCallId,
      toolName,
      content,
      ...(message['isError'] === true && { isError: true }),
      labels: { returns: 'untrusted', reads: 'private' },
    };
  }

  /** Text, or parts of which the images and files together keep to the limit of one result. */
  private content(content: unknown, index: number): UserMessage['content'] {
    if (!Array.isArray(content)) return requireText(content, index);
    let room = this.limits.attachmentBytes;
    return content.map((part: unknown): ContentPart => {
      if (isRecord(part) && part['type'] === 'text')
        return { type: 'text', text: requireText(part['text'], index) };
      const media = readMedia(part, room);
      if (typeof media === 'string')
        throw invalid(
          `Message ${index}: a part of the content must be text, an image or a file that can be taken; ${media}`,
        );
      room -= media.content.byteLength;
      return media.part;
    });
  }

  private callId(value: unknown, index: number): string {
    if (typeof value === 'string' && value !== '' && value.length <= this.limits.toolCallIdLength)
      return value;
    throw invalid(
      `Message ${index}: toolCallId must be a text of 1 to ${this.limits.toolCallIdLength} characters.`,
    );
  }
}

function plainTextOf(content: UserMessage['content']): string {
  return typeof content === 'string'
    ? content
    : content.map((part) => (part.type === 'text' ? part.text : '')).join('');
}

function requireText(value: unknown, index: number): string {
  if (typeof value !== 'string') throw invalid(`Message ${index}: the content must be text.`);
  if (value.length > MOST_CHARACTERS)
    throw invalid(
      `Message ${index} has ${value.length} characters; at most ${MOST_CHARACTERS} are taken.`,
    );
  return value;
}

function invalid(message: string): InvalidRequestError {
  return new InvalidRequestError('invalid_messages', message);
}
