import { LanguageModel, type ModelEvent, type ModelRequest } from '@toolloop/core';
import { ChatDecoder } from './chat.decoder.js';
import { fromRequestError, withoutKey } from './from-provider-error.js';
import { toClient, type OpenAiModelOptions } from './openai-model.options.js';
import { ResponseBody } from './response-body.js';
import { toChatRequest, type ChatTarget } from './to-chat-request.js';

/** A model behind OpenAI's chat completions, at OpenAI or at any server that speaks the same. */
export class OpenAiModel extends LanguageModel {
  readonly provider = 'openai';
  readonly #target: ChatTarget;
  /** Out of reach of `console.log` and `JSON.stringify`, for it holds the key. */
  readonly #connection: ReturnType<typeof toClient>;

  /** Throws a `ConfigurationError` when there is neither a key nor a base URL. */
  constructor(
    readonly modelId: string,
    options: OpenAiModelOptions = {},
  ) {
    super();
    this.#target = { model: modelId, maxTokensField: options.maxTokensField ?? 'max_completion_tokens' };
    this.#connection = toClient(modelId, options);
  }

  /**
   * Reads from the socket no faster than it is iterated. An aborted `signal` ends the iteration without an error and without `finish`. Throws a
   * `ModelError` when the request is refused, the answer holds an error, or the connection breaks.
   */
  async *stream(request: ModelRequest, signal: AbortSignal): AsyncGenerator<ModelEvent, void, undefined> {
    const response = await this.post(request, signal);
    if (response === undefined) return;
    for await (const batch of this.decode(new ResponseBody(response.body, signal))) {
      for (const event of batch) {
        if (signal.aborted) return;
        yield event;
      }
    }
  }

  /** One batch per network read: what is waited for is the network, not each event. */
  private async *decode(body: ResponseBody): AsyncGenerator<readonly ModelEvent[], void, undefined> {
    const decoder = new ChatDecoder(this.modelId);
    const { apiKey } = this.#connection;
    try {
      while (!decoder.done) {
        const bytes = await body.read();
        yield bytes === undefined ? decoder.end() : decoder.read(bytes);
      }
      if (decoder.failure !== undefined) throw withoutKey(decoder.failure, apiKey);
      await body.drain();
    } finally {
      body.close();
    }
  }

  /** Undefined when the signal was aborted before an answer came. */
  private async post(request: ModelRequest, signal: AbortSignal): Promise<Response | undefined> {
    const { client, apiKey } = this.#connection;
    try {
      const body = toChatRequest(request, this.#target);
      // A string with its content type is sent as it is, and the raw response leaves the SDK's own stream decoder out.
      return await client.post('/chat/completions', { body, headers: { 'content-type': 'application/json' }, signal }).asResponse();
    } catch (error) {
      if (signal.aborted) return undefined;
      throw fromRequestError(error, apiKey);
    }
  }
}

/** A model at OpenAI or at any server that speaks OpenAI's chat completions: `openai('gpt-5-mini')`, `openai('qwen3', { baseURL })`. */
export function openai(model: string, options?: OpenAiModelOptions): OpenAiModel {
  return new OpenAiModel(model, options);
}
