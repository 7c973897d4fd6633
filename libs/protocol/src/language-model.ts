import type { JSONSchema7 } from 'json-schema';
import type { Citation, Message, ToolCall, Usage } from './message.js';
import type { ToolSpec } from './tool-definition.js';

/** Which tools the model may or must call in one answer. */
export type ToolChoice = 'auto' | 'none' | 'required' | { readonly tool: string };

/** Options every provider knows, and a door for those it alone knows. */
export interface ModelOptions {
  readonly temperature?: number;
  readonly topP?: number;
  /** Upper bound of tokens in one answer. */
  readonly maxOutputTokens?: number;
  readonly seed?: number;
  readonly stopSequences?: readonly string[];
  /** Merged into the provider's request body as they are. */
  readonly provider?: Readonly<Record<string, unknown>>;
}

/** The shape a final answer must have. */
export interface AnswerFormat {
  /** Matches `^[a-zA-Z0-9_-]{1,64}$`. */
  readonly name: string;
  readonly schema: JSONSchema7;
}

/**
 * One question to a model. `tools` is the same array, and each message the same object, for as long as nothing changed, so that a wire
 * may keep what it encoded by identity.
 */
export interface ModelRequest {
  readonly instructions?: string;
  readonly messages: readonly Message[];
  readonly tools: readonly ToolSpec[];
  readonly toolChoice?: ToolChoice;
  readonly answerFormat?: AnswerFormat;
  readonly options?: ModelOptions;
}

/**
 * Why a model stopped. `incomplete`: the stream ended without saying why. Calls are executed after `stop` and `tool_calls` only.
 */
export type ModelFinishReason = 'stop' | 'tool_calls' | 'length' | 'content_filter' | 'incomplete';

/** How far a tool has come that the provider runs itself. */
export type ProviderToolStatus = 'started' | 'succeeded' | 'failed';

/**
 * What a model's answer consists of, in order. Text and arguments come in deltas; each call comes once more, assembled, as `tool-call`, and only
 * that is executed. `finish` is last and comes exactly once. A failure of the provider is thrown as a `ModelError`.
 */
export type ModelEvent =
  | { readonly type: 'reasoning-delta'; readonly text: string }
  | { readonly type: 'text-delta'; readonly text: string }
  | { readonly type: 'tool-call-delta'; readonly toolCallId: string; readonly name: string; readonly argumentsDelta: string }
  | { readonly type: 'tool-call'; readonly toolCallId: string; readonly name: string; readonly arguments: string }
  /**
   * A tool that the provider runs itself, such as its web search. It is shown and nothing more: no policy looks at it, it counts as no call, and nothing of
   * it is run here. `id` is the same from start to end.
   */
  | { readonly type: 'provider-tool'; readonly id: string; readonly name: string; readonly status: ProviderToolStatus }
  /** Where something in the text behind which it comes is from. */
  | { readonly type: 'citation'; readonly citation: Citation }
  /** Who answers, where that is not who was asked, such as behind `fallback`. Comes before anything else that is shown. */
  | { readonly type: 'model'; readonly provider: string; readonly modelId: string }
  | { readonly type: 'usage'; readonly usage: Usage }
  | ModelFinish;

/** The last event of an answer. A model says how it ended; whoever decodes an answer for others also says once more what was in it. */
export interface ModelFinish {
  readonly type: 'finish';
  readonly finishReason: ModelFinishReason;
  /** The provider's own word for it, such as `end_turn`. */
  readonly providerReason?: string;
  readonly providerData?: Readonly<Record<string, unknown>>;
  readonly text?: string;
  readonly reasoning?: string;
  readonly toolCalls?: readonly ToolCall[];
  readonly usage?: Usage;
}

/** What a model can do. What is left out is taken for granted: most models can, and providers say it of none. */
export interface ModelCapabilities {
  /** Whether it can be shown images. */
  readonly images?: boolean;
  /** Whether it can be shown files. */
  readonly files?: boolean;
  /** Whether it takes a schema for its answer; else it is told the form in words. */
  readonly structuredOutput?: boolean;
}

/**
 * The port behind which a provider lies.
 *
 * Contract: `stream` reads from the provider no faster than it is iterated; aborting `signal` closes the provider's socket and ends the iteration
 * (by returning or by throwing); ending the iteration early closes the socket too; failures are thrown as `ModelError`.
 */
export abstract class LanguageModel {
  /** Shown in events and traces, e.g. `openai`. */
  abstract readonly provider: string;
  /** The provider's name of the model, e.g. `gpt-5-mini`. */
  abstract readonly modelId: string;
  /** What the loop has to know before it asks. */
  readonly capabilities: ModelCapabilities = {};
  abstract stream(request: ModelRequest, signal: AbortSignal): AsyncIterable<ModelEvent>;
}

/** The port that says how many tokens a text has. Asked once per message. */
export abstract class TokenCounter {
  abstract count(text: string): number;
}
