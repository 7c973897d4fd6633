import { createHash } from 'node:crypto';
import { Logger } from '@nestjs/common';
import type { Attributes } from '@opentelemetry/api';
import type {
  ContentPart,
  Message,
  ModelAnswer,
  ModelRequest,
  ToolInvocationRecord,
  ToolSpec,
} from '@toolloop/protocol';
import { GEN_AI, TOOLLOOP } from './conventions.js';
import type { TelemetryContent, TelemetryOptions } from './telemetry-options.js';

/**
 * The content of runs on spans: hashes always, texts only where the application asks for them, each
 * redacted.
 */
export class SpanContent {
  private readonly toolHashes = new WeakMap<readonly ToolSpec[], string>();
  private readonly failedParts = new Set<TelemetryContent>();
  private lastInstructions = { text: '', hash: '' };

  constructor(private readonly rules: TelemetryOptions['content']) {}

  /**
   * Names the prompt and the tools that a model was given by hashes: with the same ones, only the
   * messages of two questions differ.
   */
  addRequest(told: Attributes, { instructions, tools, messages }: ModelRequest): void {
    if (instructions !== undefined)
      told[TOOLLOOP.instructionsHash] = this.hashOfInstructions(instructions);
    told[TOOLLOOP.toolsHash] = this.hashOfTools(tools);
    if (!this.rules) return;
    if (instructions !== undefined)
      this.show(told, GEN_AI.instructions, 'instructions', () =>
        JSON.stringify([{ type: 'text', content: instructions }]),
      );
    this.show(told, GEN_AI.inputMessages, 'messages', () =>
      JSON.stringify(messages.map(toMessage)),
    );
  }

  addAnswer(told: Attributes, { text, reasoning, toolCalls, finishReason }: ModelAnswer): void {
    if (!this.rules) return;
    this.show(told, GEN_AI.outputMessages, 'answer', () => {
      const parts = partsOf({ role: 'assistant', content: text, reasoning, toolCalls });
      return JSON.stringify([{ role: 'assistant', parts, finish_reason: finishReason }]);
    });
  }

  addRecord(told: Attributes, { args, result }: ToolInvocationRecord): void {
    if (!this.rules) return;
    if (args) this.show(told, GEN_AI.toolArguments, 'arguments', () => JSON.stringify(args));
    if (result !== undefined)
      this.show(told, GEN_AI.toolResult, 'result', () => JSON.stringify(result));
  }

  /** A redaction that fails shows nothing: a span must not tell what it would have hidden. */
  private show(
    told: Attributes,
    attribute: string,
    part: TelemetryContent,
    textOf: () => string,
  ): void {
    try {
      const text = this.rules?.redact(textOf(), part);
      if (text !== undefined) told[attribute] = text;
    } catch (error) {
      this.failed(part, error);
    }
  }

  /**
   * Tells once of each part that it cannot be redacted. The error's text may hold what was to be
   * hidden, so its name is told.
   */
  private failed(part: TelemetryContent, error: unknown): void {
    if (this.failedParts.has(part)) return;
    this.failedParts.add(part);
    const name = error instanceof Error ? error.name : typeof error;
    logger.warn(
      `content.redact failed for "${part}" (${name}), so spans have none of it. It must return a text or undefined for every text.`,
    );
  }

  private hashOfInstructions(text: string): string {
    if (this.lastInstructions.text !== text) this.lastInstructions = { text, hash: hashOf(text) };
    return this.lastInstructions.hash;
  }

  private hashOfTools(tools: readonly ToolSpec[]): string {
    const known = this.toolHashes.get(tools);
    if (known !== undefined) return known;
    const hash = hashOf(
      JSON.stringify(
        tools.map(({ id, description, inputSchema }) => [id, description, inputSchema]),
      ),
    );
    this.toolHashes.set(tools, hash);
    return hash;
  }
}

/** A part of a message in the form of the conventions. */
type Part =
  | { readonly type: 'text'; readonly content: string }
  | { readonly type: 'reasoning'; readonly content: string }
  | {
      readonly type: 'tool_call';
      readonly id: string;
      readonly name: string;
      readonly arguments: string;
    }
  | { readonly type: 'tool_call_response'; readonly id: string; readonly response: string }
  | { readonly type: 'uri'; readonly modality: 'image' | 'file'; readonly uri: string };

const logger = new Logger('Telemetry');

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 16);
}

function toMessage(message: Message): { readonly role: string; readonly parts: readonly Part[] } {
  return { role: message.role, parts: partsOf(message) };
}

function partsOf(message: Message): readonly Part[] {
  switch (message.role) {
    case 'tool': {
      const { toolCallId, content } = message;
      return [
        {
          type: 'tool_call_response',
          id: toolCallId,
          response: typeof content === 'string' ? content : JSON.stringify(content),
        },
      ];
    }
    case 'assistant': {
      const { content, reasoning, toolCalls = [] } = message;
      return [
        ...(reasoning ? [{ type: 'reasoning', content: reasoning } as const] : []),
        ...(content ? [{ type: 'text', content } as const] : []),
        ...toolCalls.map(
          (call) =>
            ({
              type: 'tool_call',
              id: call.toolCallId,
              name: call.name,
              arguments: call.arguments,
            }) as const,
        ),
      ];
    }
    case 'system':
    case 'user':
      return contentParts(message.content);
  }
}

function contentParts(content: string | readonly ContentPart[]): readonly Part[] {
  if (typeof content === 'string') return [{ type: 'text', content }];
  return content.map((part) =>
    part.type === 'text'
      ? { type: 'text', content: part.text }
      : { type: 'uri', modality: part.type, uri: part.url },
  );
}
