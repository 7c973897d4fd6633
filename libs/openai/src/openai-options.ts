import { ConfigurationError, type ModelCapabilities } from '@toolloop/protocol';
import { type Connection, type Fetch, modelFetch, NO_TIMEOUT } from '@toolloop/wire';
import type { ClientOptions, OpenAI } from 'openai';

/**
 * Options of a model behind one of OpenAI's APIs. Key, base URL, organization and project default
 * to the environment, as with the `openai` SDK.
 */
export interface OpenAiModelOptions {
  /**
   * The API to use: `chat` (`/chat/completions`), which every compatible server knows, or
   * `responses` (`/responses`), in which OpenAI's own models keep their reasoning from step to
   * step. @default 'chat'
   */
  readonly api?: 'chat' | 'responses';
  /**
   * @default process.env.OPENAI_API_KEY; with a base URL and no key at all, a placeholder, which
   *   local servers ignore
   */
  readonly apiKey?: string;
  /**
   * The address of the API including its version, e.g. `http://127.0.0.1:11434/v1`. @default
   * process.env.OPENAI_BASE_URL, else OpenAI itself
   */
  readonly baseURL?: string;
  /** @default process.env.OPENAI_ORG_ID */
  readonly organization?: string;
  /** @default process.env.OPENAI_PROJECT_ID */
  readonly project?: string;
  /** Headers that are sent with every request, beside the SDK's own. */
  readonly headers?: Readonly<Record<string, string>>;
  /**
   * Parameters that are added to the address of every request, such as the `api-version` of a
   * gateway. @default none
   */
  readonly query?: Readonly<Record<string, string>>;
  /**
   * The function that sends every request, for a proxy, a recording or a test. @default
   * {@link httpFetch}; the global `fetch` where that was replaced or the environment asks for a
   * proxy
   */
  readonly fetch?: Fetch;
  /**
   * The milliseconds until the answer must begin, for this model. @default
   * `limits.modelFirstByteMs`; without a loop, 600_000
   */
  readonly timeoutMs?: number;
  /**
   * Holds the model to the schemas of those tools whose schemas allow it; `false` for a server that
   * refuses `strict`. @default true
   */
  readonly strictTools?: boolean;
  /**
   * The capabilities that the model lacks, e.g. `{ images: false }`, and `{ audio: true }` for one
   * that takes recordings. @default every capability but audio
   */
  readonly capabilities?: ModelCapabilities;
  /** Lets an answer hold several calls. @default the provider's own */
  readonly parallelToolCalls?: boolean;
  /** The amount of thinking of a reasoning model. @default the provider's own */
  readonly reasoningEffort?: 'none' | 'minimal' | 'low' | 'medium' | 'high' | 'xhigh';
  /** The summary of the model's reasoning that `responses` shows. @default none */
  readonly reasoningSummary?: 'auto' | 'concise' | 'detailed';
  /**
   * The tools that the provider of `responses` runs itself, as it declares them:
   * `{ type: 'web_search' }`. The policy does not see their calls. @default none
   */
  readonly builtInTools?: readonly object[];
  /**
   * The field of `chat` for `maxOutputTokens`: older compatible servers know `max_tokens` only.
   * @default 'max_completion_tokens'
   */
  readonly maxTokensField?: 'max_completion_tokens' | 'max_tokens';
}

const PLACEHOLDER_KEY = 'no-key';

/**
 * Returns what creates the SDK's client, with what the reader of its answers has to know.
 *
 * @throws ConfigurationError if there is neither a key nor a base URL
 */
export function toClient(model: string, options: OpenAiModelOptions): Connection<OpenAI> {
  const baseURL = options.baseURL ?? fromEnvironment('OPENAI_BASE_URL');
  const apiKey =
    options.apiKey ??
    fromEnvironment('OPENAI_API_KEY') ??
    (baseURL === undefined ? undefined : PLACEHOLDER_KEY);
  if (apiKey === undefined || apiKey === '') throw withoutKey(model);
  const client = once({
    apiKey,
    baseURL,
    // An admin key in the environment would replace the key above.
    adminAPIKey: null,
    organization: options.organization,
    project: options.project,
    defaultHeaders: options.headers,
    defaultQuery: options.query,
    fetch: modelFetch(options.fetch),
    // A redirect would carry the conversation to another host.
    fetchOptions: { redirect: 'error' },
    // The reader of the answer keeps all time limits.
    timeout: NO_TIMEOUT,
    // One request for each attempt: the loop and `retried` decide about another.
    maxRetries: 0,
    // OPENAI_LOG=debug would write whole conversations to the log.
    logLevel: 'warn',
  });
  return { client, apiKey, firstByteMs: options.timeoutMs };
}

/**
 * Returns the host of a base URL, which tells the servers of one model apart; undefined without a
 * valid one.
 */
export function serverAt(baseURL: string | undefined): string | undefined {
  return baseURL !== undefined && URL.canParse(baseURL) ? new URL(baseURL).host : undefined;
}

/** The host of OpenAI itself. */
const OPENAI_SERVER = 'api.openai.com';

/** Returns the host to which a model's requests go. */
export function serverOf({
  baseURL = fromEnvironment('OPENAI_BASE_URL'),
}: OpenAiModelOptions): string {
  return serverAt(baseURL) ?? OPENAI_SERVER;
}

/** Creates the client when it is first asked for. */
function once(options: ClientOptions): () => Promise<OpenAI> {
  let client: Promise<OpenAI> | undefined;
  return () => (client ??= import('openai').then((sdk) => new sdk.OpenAI(options)));
}

function fromEnvironment(name: string): string | undefined {
  return process.env[name]?.trim() || undefined;
}

function withoutKey(model: string): ConfigurationError {
  return new ConfigurationError([
    {
      at: `openai('${model}')`,
      problem: 'there is no API key.',
      remedy:
        'Set OPENAI_API_KEY or pass { apiKey }. For a server that needs no key, set OPENAI_BASE_URL or pass { baseURL }.',
    },
  ]);
}

/** The target of a request: a model, and the options that hold for each of its answers. */
export interface OpenAiTarget extends Pick<
  OpenAiModelOptions,
  | 'baseURL'
  | 'parallelToolCalls'
  | 'reasoningEffort'
  | 'reasoningSummary'
  | 'builtInTools'
  | 'maxTokensField'
  | 'strictTools'
> {
  readonly model: string;
}
