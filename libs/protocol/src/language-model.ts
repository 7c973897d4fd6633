import type { JSONSchema7 } from 'json-schema';
import { recogniseCopies } from './copies.js';
import type { Citation, Message, ToolCall, Usage } from './message.js';
import type { ToolSpec } from './tool-definition.js';

/**
 * The port of a model provider.
 *
 * Contract: `stream` reads from the provider no faster than it is iterated; aborting `signal`
 * closes the provider's socket and ends the iteration (by returning or by throwing); ending the
 * iteration early closes the socket too; failures are thrown as `ModelError`.
 *
 * @example
 * class EchoModel extends LanguageModel {
 *   readonly provider = 'echo';
 *   readonly modelId = 'echo-1';
 *
 *   async *stream({ messages }: ModelRequest): AsyncIterable<ModelEvent> {
 *     yield { type: 'text-delta', text: JSON.stringify(messages.at(-1)) };
 *     yield { type: 'finish', finishReason: 'stop' };
 *   }
 * }
 */
export abstract class LanguageModel {
  /** The provider's name, as shown in events and traces, e.g. `openai`. */
  abstract readonly provider: string;
  /** The provider's name of the model, e.g. `gpt-5-mini`. */
  abstract readonly modelId: string;
  /** The capabilities that the loop has to know before it asks. */
  readonly capabilities: ModelCapabilities = {};

  /** The part of an attempt that the model controls itself. @default 'none' */
  get controls(): AttemptControl {
    return 'none';
  }

  abstract stream(request: ModelRequest, signal: AbortSignal): AsyncIterable<ModelEvent>;
}

/** The tools that the model may or must call in one answer. */
export type ToolChoice = 'auto' | 'none' | 'required' | { readonly tool: string };

/** Options that every provider knows, and `provider` for those of one provider alone. */
export interface ModelOptions {
  readonly temperature?: number;
  readonly topP?: number;
  /** The largest number of tokens in one answer. */
  readonly maxOutputTokens?: number;
  readonly seed?: number;
  readonly stopSequences?: readonly string[];
  /** Fields that are merged into the provider's request body as they are. */
  readonly provider?: Readonly<Record<string, unknown>>;
}

/** The shape a final answer must have. */
export interface AnswerFormat {
  /** Matches `^[a-zA-Z0-9_-]{1,64}$`. */
  readonly name: string;
  readonly schema: JSONSchema7;
}

/**
 * The time limits of one attempt to get an answer, in milliseconds; `Infinity` for none. The time
 * in which the reader makes the model wait does not count.
 */
export interface ModelTimeLimits {
  /**
   * The time until the provider's answer begins with a byte of any kind. Reaching it is the error
   * `no_response`.
   */
  readonly firstByteMs: number;
  /**
   * The time until the first content: pings, signatures and silent reasoning show that a provider
   * is alive, and are none. Reaching it is `no_content`.
   */
  readonly firstContentMs: number;
  /** The time between two bytes of an answer, of whatever kind. Reaching it is `idle`. */
  readonly idleMs: number;
}

/**
 * One question to a model. `tools` is the same array, and each message the same object, for as long
 * as nothing changed, so that a wire may keep what it encoded by identity.
 */
export interface ModelRequest {
  readonly instructions?: string;
  readonly messages: readonly Message[];
  readonly tools: readonly ToolSpec[];
  readonly toolChoice?: ToolChoice;
  readonly answerFormat?: AnswerFormat;
  readonly options?: ModelOptions;
  /**
   * The time limits of each attempt. @default none: who asks a model without a loop sets its own
   */
  readonly timeLimits?: ModelTimeLimits;
}

/**
 * The reason why a model stopped. `incomplete`: the stream ended without a reason. Calls are
 * executed after `stop` and `tool_calls` only.
 */
export type ModelFinishReason = 'stop' | 'tool_calls' | 'length' | 'content_filter' | 'incomplete';

/** The progress of a tool that the provider runs itself. */
export type ProviderToolStatus = 'started' | 'succeeded' | 'failed';

/**
 * One part of a model's answer, in the order of the answer. Text and arguments come in deltas; each
 * call comes once more, assembled, as `tool-call`, and only that is executed. `finish` is last and
 * comes exactly once. A failure of the provider is thrown as a `ModelError`.
 */
export type ModelEvent =
  | { readonly type: 'reasoning-delta'; readonly text: string }
  | { readonly type: 'text-delta'; readonly text: string }
  | {
      readonly type: 'tool-call-delta';
      readonly toolCallId: string;
      readonly name: string;
      readonly argumentsDelta: string;
    }
  | {
      readonly type: 'tool-call';
      readonly toolCallId: string;
      readonly name: string;
      readonly arguments: string;
    }
  /**
   * A tool that the provider runs itself, such as its web search. It is shown and nothing more: no
   * policy looks at it, it counts as no call, and nothing of it is run here. `id` is the same from
   * start to end.
   */
  | {
      readonly type: 'provider-tool';
      readonly id: string;
      readonly name: string;
      readonly status: ProviderToolStatus;
    }
  /** The source of something in the text before it. */
  | { readonly type: 'citation'; readonly citation: Citation }
  /**
   * The model that answers, where it is not the one that was asked, such as behind `fallback`.
   * Comes before anything else that is shown.
   */
  | { readonly type: 'model'; readonly provider: string; readonly modelId: string }
  | { readonly type: 'usage'; readonly usage: Usage }
  /**
   * Something that the developer has to know, such as an option that the provider does not have.
   */
  | { readonly type: 'warning'; readonly message: string }
  | ModelFinish;

/** A provider's names for one answer, which its support and its logs go by. */
export interface ModelResponseIdentity {
  /** The id of the answer, e.g. `chatcmpl-…` or `msg_…`. */
  readonly id?: string;
  /**
   * The model that answered, which an alias or a gateway may have chosen, e.g.
   * `gpt-5-mini-2025-08-07`.
   */
  readonly model?: string;
  /** The id of the HTTP request. */
  readonly requestId?: string;
}

/**
 * The last event of an answer. A model states why it stopped; the exported decoders also repeat the
 * content: text, reasoning, calls and usage.
 */
export interface ModelFinish {
  readonly type: 'finish';
  readonly finishReason: ModelFinishReason;
  /** The provider's own finish reason, such as `end_turn`. */
  readonly providerReason?: string;
  readonly providerData?: Readonly<Record<string, unknown>>;
  /** The provider's names for the answer. */
  readonly response?: ModelResponseIdentity;
  readonly text?: string;
  readonly reasoning?: string;
  readonly toolCalls?: readonly ToolCall[];
  readonly usage?: Usage;
}

/**
 * The capabilities of a model. Each but `audio` defaults to true: most models have it, and no
 * provider reports it.
 */
export interface ModelCapabilities {
  /** `true` if the model accepts images. @default true */
  readonly images?: boolean;
  /** `true` if the model accepts files. @default true */
  readonly files?: boolean;
  /**
   * `true` if the model accepts recordings: files of the type `audio/wav` or `audio/mpeg`. Few
   * models do, and the others refuse the whole request. @default false
   */
  readonly audio?: boolean;
  /**
   * `true` if the model accepts a schema for its answer; else the instructions describe the form.
   * @default true
   */
  readonly structuredOutput?: boolean;
}

/**
 * The part of an attempt that a model controls itself. `none`: it only streams, and the loop
 * measures the time between its events. `time`: one `stream` is one request to a provider, and the
 * model keeps `timeLimits` by the bytes that it receives; the loop repeats a failed attempt. `all`:
 * it also decides about further attempts, as `retried` and `fallback` do.
 */
export type AttemptControl = 'none' | 'time' | 'all';

/**
 * The port that counts the tokens of a text. It is called once per message.
 *
 * @example
 * class RoughTokenCounter extends TokenCounter {
 *   count(text: string): number {
 *     return Math.ceil(text.length / 4);
 *   }
 * }
 */
export abstract class TokenCounter {
  abstract count(text: string): number;
}

recogniseCopies('LanguageModel', LanguageModel);
recogniseCopies('TokenCounter', TokenCounter);
