import { LanguageModel, type ModelEvent, type ModelRequest } from '@toolloop/core';
import { toClient, toTarget, type AnthropicModelOptions } from './anthropic-model.options.js';
import { fromRequestError, withoutKey } from './from-provider-error.js';
import type { MessagesTarget } from './messages-target.js';
import { MessagesAnswer } from './messages.answer.js';
import { MessagesDecoder } from './messages.decoder.js';
import { ResponseBody } from './response-body.js';
import { toMessagesRequest } from './to-messages-request.js';

/** Times one answer is asked to go on: the provider pauses a turn in which its own tools take long. */
const MOST_PAUSES = 8;

/** A model behind Anthropic's Messages API, at Anthropic or at any server that speaks the same. */
export class AnthropicModel extends LanguageModel {
  readonly provider = 'anthropic';
  readonly #target: MessagesTarget;
  /** Out of reach of `console.log` and `JSON.stringify`, for it holds the key. */
  readonly #connection: ReturnType<typeof toClient>;

  /** Throws a `ConfigurationError` when there is neither a key nor a base URL. */
  constructor(
    readonly modelId: string,
    options: AnthropicModelOptions = {},
  ) {
    super();
    this.#target = toTarget(modelId, options);
    this.#connection = toClient(modelId, options);
  }

  /**
   * Reads from the socket no faster than it is iterated. An aborted `signal` ends the iteration without an error and without `finish`. Throws a
   * `ModelError` when the request is refused, the answer holds an error, or the connection breaks.
   */
  async *stream(request: ModelRequest, signal: AbortSignal): AsyncGenerator<ModelEvent, void, undefined> {
    for await (const batch of this.batches(request, signal)) {
      for (const event of batch) {
        if (signal.aborted) return;
        yield event;
      }
    }
  }

  /** Asks once, and again for as long as the provider pauses its turn. */
  private async *batches(request: ModelRequest, signal: AbortSignal): AsyncGenerator<readonly ModelEvent[], void, undefined> {
    const answer = new MessagesAnswer(this.modelId, MOST_PAUSES);
    let { messages } = request;
    while (!signal.aborted) {
      const response = await this.post({ ...request, messages }, signal);
      if (response === undefined) return;
      yield* this.decode(answer, new ResponseBody(response.body, signal));
      const { paused } = answer;
      if (paused === undefined) return;
      messages = [...request.messages, paused];
      answer.resume();
    }
  }

  /** One batch per network read: what is waited for is the network, not each event. */
  private async *decode(answer: MessagesAnswer, body: ResponseBody): AsyncGenerator<readonly ModelEvent[], void, undefined> {
    const decoder = new MessagesDecoder(answer);
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

  /**
   * Undefined when the signal was aborted before an answer came. The SDK hears of it through a signal of its own, for it goes on listening until
   * the response is collected, and a run's signal lives long; from here on `ResponseBody` listens.
   */
  private async post(request: ModelRequest, signal: AbortSignal): Promise<Response | undefined> {
    const { client, apiKey } = this.#connection;
    const own = new AbortController();
    const abort = (): void => own.abort();
    signal.addEventListener('abort', abort, { once: true });
    try {
      const body = toMessagesRequest(request, this.#target);
      const options = { body, headers: { 'content-type': 'application/json' }, signal: own.signal };
      // A string with its content type is sent as it is, and the raw response leaves the SDK's own stream decoder out.
      return await client.post('/v1/messages', options).asResponse();
    } catch (error) {
      if (signal.aborted) return undefined;
      throw fromRequestError(error, apiKey);
    } finally {
      signal.removeEventListener('abort', abort);
    }
  }
}

/** A model at Anthropic or at any server that speaks its Messages API: `anthropic('claude-sonnet-5-5')`. */
export function anthropic(model: string, options?: AnthropicModelOptions): AnthropicModel {
  return new AnthropicModel(model, options);
}
