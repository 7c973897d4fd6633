import {
  type AttemptControl,
  LanguageModel,
  type ModelCapabilities,
  ModelError,
  type ModelEvent,
  type ModelRequest,
} from '@toolloop/protocol';
import {
  bytesOf,
  ignoredOptions,
  readAnswer,
  requestIdOf,
  ResponseBody,
  toTimeLimits,
  withDiscretion,
} from '@toolloop/wire';
import {
  type AnthropicModelOptions,
  type AnthropicTarget,
  serverOf,
  toClient,
} from './anthropic-options.js';
import { fromRequestError } from './from-provider.js';
import { MessagesAnswer } from './messages-answer.js';
import type { AnswerOrigin } from './provider-data.js';
import { habitsAfter, habitsOf, type ServerHabits } from './server-habits.js';
import { messagesBody } from './to-messages-request.js';

/** A model behind Anthropic's Messages API, at Anthropic or at any server that speaks the same. */
export class AnthropicModel extends LanguageModel {
  readonly provider = 'anthropic';
  override readonly capabilities: ModelCapabilities;
  readonly #target: AnthropicTarget;
  readonly #origin: AnswerOrigin;
  /** The habits of the server, as far as they are known. They are the same for every run. */
  #habits: ServerHabits;
  /**
   * The client and its key, in a private field that `console.log` and `JSON.stringify` cannot
   * reach.
   */
  readonly #connection: ReturnType<typeof toClient>;

  /** @throws ConfigurationError if there is neither a key nor a base URL */
  constructor(
    readonly modelId: string,
    options: AnthropicModelOptions = {},
  ) {
    super();
    this.capabilities = options.capabilities ?? {};
    this.#target = { ...options, model: modelId };
    const server = serverOf(options);
    this.#origin = { model: modelId, server };
    this.#habits = habitsOf(server);
    this.#connection = toClient(modelId, options);
  }

  /**
   * Sends the request and streams the answer. Reads from the socket no faster than it is iterated.
   * An aborted `signal` ends the iteration without an error and without `finish`.
   *
   * @throws ModelError if the request is refused, a time limit is reached, the answer holds an
   *   error, or the connection breaks
   */
  stream(request: ModelRequest, signal: AbortSignal): AsyncGenerator<ModelEvent, void, undefined> {
    const answer = new MessagesAnswer(this.#origin, MOST_PAUSES);
    const { apiKey, firstByteMs } = this.#connection;
    const { apiVersion } = this.#target;
    const open = (own: AbortSignal): Promise<ResponseBody | undefined> => {
      const { paused } = answer;
      if (paused !== undefined) answer.resume();
      const messages = paused === undefined ? request.messages : [...request.messages, paused];
      return this.postOrLearn({ ...request, messages }, own);
    };
    return readAnswer(answer, {
      open,
      veil: (error) => withDiscretion(error, { apiKey, request }),
      signal,
      timeLimits: toTimeLimits(request, firstByteMs),
      warnings: ignoredOptions(
        request.options ?? {},
        apiVersion === '2023-06-01' ? ['seed'] : ['temperature', 'topP', 'seed'],
        "Anthropic's API",
      ),
    });
  }

  override get controls(): AttemptControl {
    return 'time';
  }

  /**
   * Sends the request, and once more where the server's refusal says how it wants the thinking of
   * the transcript.
   */
  private async postOrLearn(
    request: ModelRequest,
    signal: AbortSignal,
  ): Promise<ResponseBody | undefined> {
    const known = this.#habits;
    try {
      return await this.post(request, signal);
    } catch (error) {
      const learned = error instanceof ModelError ? habitsAfter(known, error) : undefined;
      if (learned === undefined) throw error;
      this.#habits = learned;
      return this.post(request, signal);
    }
  }

  /** Sends the request; undefined when the signal was aborted before an answer came. */
  private async post(
    request: ModelRequest,
    signal: AbortSignal,
  ): Promise<ResponseBody | undefined> {
    try {
      const body = messagesBody(request, this.#target, { ...this.#origin, habits: this.#habits });
      const client = await this.#connection.client();
      // Bytes with their content type are sent as they are, and the raw response leaves the SDK's
      // own stream decoder out.
      const headers = { 'content-type': 'application/json' };
      const init = { body: body.toBytes(), headers, signal };
      const response = await client.post('/v1/messages', init).asResponse();
      return new ResponseBody(bytesOf(response), signal, requestIdOf(response));
    } catch (error) {
      if (!signal.aborted) throw await fromRequestError(error);
      return undefined;
    }
  }
}

/**
 * The most requests to continue one answer: the provider pauses a turn in which its own tools take
 * long.
 */
const MOST_PAUSES = 8;

/**
 * Creates a model at Anthropic or at any server that speaks its Messages API.
 *
 * @throws ConfigurationError if there is neither a key nor a base URL
 * @example
 * anthropic('claude-sonnet-5-5');
 */
export function anthropic(model: string, options?: AnthropicModelOptions): AnthropicModel {
  return new AnthropicModel(model, options);
}
