import { LanguageModel, type ModelCapabilities, type ModelEvent, type ModelRequest } from '@toolloop/protocol';
import { bytesOf, readAnswer, ResponseBody, type WireAnswer, withDiscretion } from '@toolloop/wire';
import { ChatAnswer } from './chat-answer.js';
import { fromRequestError } from './from-provider.js';
import { type OpenAiModelOptions, type OpenAiTarget, toClient } from './openai-options.js';
import { ResponsesAnswer } from './responses-answer.js';
import { toChatRequest } from './to-chat-request.js';
import { toResponsesRequest } from './to-responses-request.js';

/** A model at OpenAI, or at any server that speaks one of its APIs. */
export class OpenAiModel extends LanguageModel {
  readonly provider = 'openai';
  override readonly capabilities: ModelCapabilities;
  readonly #target: OpenAiTarget;
  readonly #wire: Wire;
  /** Out of reach of `console.log` and `JSON.stringify`, for it holds the key. */
  readonly #connection: ReturnType<typeof toClient>;

  /** Throws a `ConfigurationError` when there is neither a key nor a base URL. */
  constructor(
    readonly modelId: string,
    options: OpenAiModelOptions = {},
  ) {
    super();
    this.capabilities = options.capabilities ?? {};
    this.#wire = WIRES[options.api ?? 'chat'];
    this.#target = { ...options, model: modelId };
    this.#connection = toClient(modelId, options);
  }

  /**
   * Reads from the socket no faster than it is iterated. An aborted `signal` ends the iteration without an error and without `finish`. Throws a
   * `ModelError` when the request is refused, the answer holds an error, or the connection breaks.
   */
  stream(request: ModelRequest, signal: AbortSignal): AsyncGenerator<ModelEvent, void, undefined> {
    const { apiKey } = this.#connection;
    const open = (): Promise<ResponseBody | undefined> => this.post(request, signal);
    return readAnswer(this.#wire.answerOf(this.modelId), { open, veil: (error) => withDiscretion(error, { apiKey, request }) });
  }

  /** Undefined when the signal was aborted before an answer came. */
  private async post(request: ModelRequest, signal: AbortSignal): Promise<ResponseBody | undefined> {
    const { client } = this.#connection;
    const { path } = this.#wire;
    try {
      const body = this.#wire.toRequest(request, this.#target);
      // A string with its content type is sent as it is, and the raw response leaves the SDK's own stream decoder out.
      const response = await client.post(path, { body, headers: { 'content-type': 'application/json' }, signal }).asResponse();
      return new ResponseBody(bytesOf(response), signal);
    } catch (error) {
      if (signal.aborted) return undefined;
      throw fromRequestError(error);
    }
  }
}

/**
 * A model at OpenAI or at any server that speaks the same: `openai('gpt-5-mini')`, `openai('gpt-5', { api: 'responses' })`,
 * `openai('qwen3', { baseURL })`.
 */
export function openai(model: string, options?: OpenAiModelOptions): OpenAiModel {
  return new OpenAiModel(model, options);
}

/** One of OpenAI's APIs. */
export interface Wire {
  /** Behind the base URL. */
  readonly path: string;
  /** The body of a request, as JSON text. */
  toRequest(request: ModelRequest, target: OpenAiTarget): string;
  /** An answer in the making. */
  answerOf(model: string): WireAnswer;
}

export const WIRES: Readonly<Record<'chat' | 'responses', Wire>> = {
  chat: { path: '/chat/completions', toRequest: toChatRequest, answerOf: (model) => new ChatAnswer(model) },
  responses: { path: '/responses', toRequest: toResponsesRequest, answerOf: (model) => new ResponsesAnswer(model) },
};
