import { type AttemptControl, LanguageModel, type ModelCapabilities, type ModelEvent, type ModelRequest } from '@toolloop/protocol';
import {
  bytesOf,
  ignoredOptions,
  readAnswer,
  repeatRequest,
  type RequestBody,
  requestIdOf,
  ResponseBody,
  toTimeLimits,
  type WireAnswer,
  withDiscretion,
} from '@toolloop/wire';
import { ChatAnswer } from './chat-answer.js';
import { fromRequestError, SDK_ERRORS } from './from-provider.js';
import { type OpenAiModelOptions, type OpenAiTarget, toClient } from './openai-options.js';
import { ResponsesAnswer } from './responses-answer.js';
import { chatBody } from './to-chat-request.js';
import { responsesBody } from './to-responses-request.js';

/** A model at OpenAI, or at any server that speaks one of its APIs. */
export class OpenAiModel extends LanguageModel {
  readonly provider = 'openai';
  override readonly capabilities: ModelCapabilities;
  readonly #target: OpenAiTarget;
  readonly #wire: Wire;
  /** The client and its key, in a private field that `console.log` and `JSON.stringify` cannot reach. */
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
    this.#connection = toClient(modelId, options);
  }

  /**
   * Sends the request and streams the answer. Reads from the socket no faster than it is iterated. An aborted `signal` ends the iteration without an error
   * and without `finish`.
   *
   * @throws ModelError if the request is refused, a time limit is reached, the answer holds an error, or the connection breaks
   */
  stream(request: ModelRequest, signal: AbortSignal): AsyncGenerator<ModelEvent, void, undefined> {
    const { apiKey, firstByteMs } = this.#connection;
    return readAnswer(this.#wire.createAnswer(this.modelId), {
      open: (own) => this.post(request, own),
      veil: (error) => withDiscretion(error, { apiKey, request }),
      signal,
      timeLimits: toTimeLimits(request, firstByteMs),
      warnings: this.#wire.ignoredOptions(request, this.#target),
    });
  }

  override get controls(): AttemptControl {
    return 'time';
  }

  /** Sends the request; undefined when the signal was aborted before an answer came. */
  private post(request: ModelRequest, signal: AbortSignal): Promise<ResponseBody | undefined> {
    const { repeated } = this.#connection;
    const failed = async (error: unknown): Promise<undefined> => {
      if (!signal.aborted) throw await fromRequestError(error);
    };
    try {
      const body = this.#wire.toBody(request, this.#target);
      if (repeated.areKnown) return repeatRequest(repeated, body.toBytes(), signal, SDK_ERRORS, failed);
      return this.postFirst(body.toJson(), signal).catch(failed);
    } catch (error) {
      return failed(error);
    }
  }

  private async postFirst(body: string, signal: AbortSignal): Promise<ResponseBody> {
    const client = await this.#connection.client();
    // A string with its content type is sent as it is, and the raw response leaves the SDK's own stream decoder out.
    const response = await client.post(this.#wire.path, { body, headers: { 'content-type': 'application/json' }, signal }).asResponse();
    return new ResponseBody(bytesOf(response), signal, requestIdOf(response));
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
  toBody(request: ModelRequest, target: OpenAiTarget): RequestBody;
  /** Tells which options of a request the API does not have, so that they are not sent. */
  ignoredOptions(request: ModelRequest, target: OpenAiTarget): readonly string[];
  /** Creates the decoder of one answer. */
  createAnswer(model: string): WireAnswer;
}

export const WIRES: Readonly<Record<'chat' | 'responses', Wire>> = {
  chat: {
    path: '/chat/completions',
    toBody: chatBody,
    ignoredOptions: (_request, target) => ignoredOptions(target, ['builtInTools', 'reasoningSummary'], "OpenAI's chat completions"),
    createAnswer: (model) => new ChatAnswer(model),
  },
  responses: {
    path: '/responses',
    toBody: responsesBody,
    ignoredOptions: ({ options = {} }) => ignoredOptions(options, ['seed', 'stopSequences'], "OpenAI's responses API"),
    createAnswer: (model) => new ResponsesAnswer(model),
  },
};
