import { LanguageModel, type ModelCapabilities, type ModelEvent, type ModelRequest } from '@toolloop/core';
import { bytesOf, readAnswer, ResponseBody, withDiscretion } from '@toolloop/wire';
import { fromRequestError } from './from-provider-error.js';
import { toClient, type OpenAiModelOptions } from './openai-model.options.js';
import type { OpenAiTarget } from './openai-target.js';
import { WIRES, type Wire } from './wire.js';

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
