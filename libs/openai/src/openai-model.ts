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
  type RequestBody,
  requestIdOf,
  ResponseBody,
  toTimeLimits,
  type WireAnswer,
  withDiscretion,
} from '@toolloop/wire';
import { ChatAnswer } from './chat-answer.js';
import { fromRequestError } from './from-provider.js';
import {
  type OpenAiModelOptions,
  type OpenAiTarget,
  serverOf,
  toClient,
} from './openai-options.js';
import type { AnswerOrigin } from './provider-data.js';
import { ResponsesAnswer } from './responses-answer.js';
import { habitsAfter, habitsOf, type ServerHabits } from './server-habits.js';
import { chatBody, chatReader } from './to-chat-request.js';
import { responsesBody } from './to-responses-request.js';

/** A model at OpenAI, or at any server that speaks one of its APIs. */
export class OpenAiModel extends LanguageModel {
  readonly provider = 'openai';
  override readonly capabilities: ModelCapabilities;
  readonly #target: OpenAiTarget;
  readonly #origin: AnswerOrigin;
  readonly #wire: Wire;
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
    options: OpenAiModelOptions = {},
  ) {
    super();
    this.capabilities = options.capabilities ?? {};
    this.#wire = WIRES[options.api ?? 'chat'];
    this.#target = { ...options, model: modelId };
    this.#origin = { model: modelId, server: serverOf(options) };
    this.#habits = habitsOf(this.#origin);
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
    const { apiKey, firstByteMs } = this.#connection;
    return readAnswer(this.#wire.createAnswer(this.#origin), {
      open: (own) => this.postOrLearn(request, own),
      veil: (error) => withDiscretion(error, { apiKey, request }),
      signal,
      timeLimits: toTimeLimits(request, firstByteMs),
      warnings: this.#wire.ignoredOptions(request, this.#target),
    });
  }

  override get controls(): AttemptControl {
    return 'time';
  }

  /**
   * Sends the request, and once more where the server's refusal says how it wants the reasoning of
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
      const learned =
        error instanceof ModelError && this.#wire.learns ? habitsAfter(known, error) : undefined;
      // Habits that another run has learned since are tried first; two that contradict each other
      // are not tried in turn.
      if (learned === undefined || known !== habitsOf(this.#origin)) throw error;
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
      const body = this.#wire.toBody(request, this.#target, {
        origin: this.#origin,
        habits: this.#habits,
      });
      const client = await this.#connection.client();
      // Bytes with their content type are sent as they are, and the raw response leaves the SDK's
      // own stream decoder out.
      const headers = { 'content-type': 'application/json' };
      const init = { body: body.toBytes(), headers, signal };
      const response = await client.post(this.#wire.path, init).asResponse();
      return new ResponseBody(bytesOf(response), signal, requestIdOf(response));
    } catch (error) {
      if (!signal.aborted) throw await fromRequestError(error);
      return undefined;
    }
  }
}

/**
 * Creates a model at OpenAI or at any compatible server.
 *
 * @throws ConfigurationError if there is neither a key nor a base URL
 * @example
 * openai('gpt-5-mini');
 * openai('gpt-5', { api: 'responses' });
 * openai('qwen3', { baseURL: 'http://127.0.0.1:11434/v1' });
 */
export function openai(model: string, options?: OpenAiModelOptions): OpenAiModel {
  return new OpenAiModel(model, options);
}

/** The format of one of OpenAI's APIs. */
export interface Wire {
  /** The path behind the base URL. */
  readonly path: string;
  /** Writes the body of a request. */
  toBody(request: ModelRequest, target: OpenAiTarget, server: AskedServer): RequestBody;
  /** Tells which options of a request the API does not have, so that they are not sent. */
  ignoredOptions(request: ModelRequest, target: OpenAiTarget): readonly string[];
  /** Creates the decoder of one answer. */
  createAnswer(origin: AnswerOrigin): WireAnswer;
  /** `true` where the servers of this API differ in the reasoning that a transcript may hold. */
  readonly learns: boolean;
}

/** The server that a request goes to, with what is known of it. */
export interface AskedServer {
  readonly origin: AnswerOrigin;
  readonly habits: ServerHabits;
}

export const WIRES: Readonly<Record<'chat' | 'responses', Wire>> = {
  chat: {
    path: '/chat/completions',
    toBody: (request, target, { origin, habits }) =>
      chatBody(request, target, chatReader(origin, habits)),
    ignoredOptions: (_request, target) =>
      ignoredOptions(target, ['builtInTools', 'reasoningSummary'], "OpenAI's chat completions"),
    createAnswer: (origin) => new ChatAnswer(origin),
    learns: true,
  },
  responses: {
    path: '/responses',
    toBody: (request, target, { origin }) => responsesBody(request, target, origin.server),
    ignoredOptions: ({ options = {} }) =>
      ignoredOptions(options, ['seed', 'stopSequences'], "OpenAI's responses API"),
    createAnswer: (origin) => new ResponsesAnswer(origin),
    learns: false,
  },
};
