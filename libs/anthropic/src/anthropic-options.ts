import type { Anthropic, ClientOptions } from '@anthropic-ai/sdk';
import { ConfigurationError, type ModelCapabilities } from '@toolloop/protocol';
import { type Connection, type Fetch, type JsonPart, modelFetch, NO_TIMEOUT } from '@toolloop/wire';

/**
 * Options of a model behind Anthropic's Messages API. Key and base URL default to the environment,
 * as with Anthropic's SDK.
 */
export interface AnthropicModelOptions {
  /**
   * The key, which is sent as `Authorization: Bearer`. @default process.env.ANTHROPIC_API_KEY, else
   * ANTHROPIC_AUTH_TOKEN; with a base URL and no key at all, a placeholder, which local servers
   * ignore
   */
  readonly apiKey?: string;
  /**
   * The address of the API without its version, e.g. `http://127.0.0.1:4000`. @default
   * process.env.ANTHROPIC_BASE_URL, else Anthropic itself
   */
  readonly baseURL?: string;
  /** Headers that are sent with every request, beside the SDK's own, e.g. `anthropic-beta`. */
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
   * The version of the API. The older one takes `temperature` and `topP`, which are left out
   * otherwise. @default '2026-10-21'
   */
  readonly apiVersion?: '2026-10-21' | '2023-06-01';
  /**
   * The most tokens of one answer, thinking included, where a request sets no `maxOutputTokens`:
   * the API requires a number. @default 16_000
   */
  readonly maxTokens?: number;
  /**
   * The time for which the provider caches the prompt, which makes every further step cheaper and
   * the first one dearer. @default '5m'
   */
  readonly promptCache?: PromptCache;
  /** Lets an answer hold several calls. @default true */
  readonly parallelToolCalls?: boolean;
  /**
   * The capabilities that the model lacks: `{ structuredOutput: false }` for older ones, which take
   * no schema. @default the model has every capability
   */
  readonly capabilities?: ModelCapabilities;
  /**
   * Holds the model to the schemas of the first 20 tools whose schemas allow it. The provider
   * prepares a schema when it first sees it, and older models refuse `strict`; the loop checks
   * every argument anyway. @default false
   */
  readonly strictTools?: boolean;
  /** The thinking of the model, e.g. `{ type: 'adaptive' }`. @default the model's own */
  readonly thinking?: Anthropic.ThinkingConfigParam;
  /** The amount of work that the model puts into an answer. @default the model's own, 'high' */
  readonly effort?: 'low' | 'medium' | 'high' | 'xhigh' | 'max';
  /**
   * The tools that the provider runs itself, as its API describes them, e.g.
   * `{ type: 'web_search_20250305', name: 'web_search' }`. Policy, audit and approvals do not see
   * their calls. @default none
   */
  readonly serverTools?: readonly Readonly<Record<string, unknown>>[];
}

const PLACEHOLDER_KEY = 'no-key';
const DEFAULT_VERSION = '2026-10-21';

/**
 * Returns what creates the SDK's client, with what the reader of its answers has to know.
 *
 * @throws ConfigurationError if there is neither a key nor a base URL
 */
export function toClient(model: string, options: AnthropicModelOptions): Connection<Anthropic> {
  const baseURL = options.baseURL ?? fromEnvironment('ANTHROPIC_BASE_URL');
  const apiKey =
    options.apiKey ?? keyFromEnvironment() ?? (baseURL === undefined ? undefined : PLACEHOLDER_KEY);
  if (apiKey === undefined || apiKey === '') throw withoutKey(model);
  const client = once({
    apiKey,
    // Left undefined, the SDK would ask the environment, and null stands for its own default.
    baseURL: baseURL ?? null,
    defaultHeaders: {
      'anthropic-version': options.apiVersion ?? DEFAULT_VERSION,
      ...options.headers,
    },
    defaultQuery: options.query,
    fetch: modelFetch(options.fetch),
    // A redirect would carry the conversation to another host.
    fetchOptions: { redirect: 'error' },
    // The reader of the answer keeps all time limits.
    timeout: NO_TIMEOUT,
    // One request for each attempt: the loop and `retried` decide about another.
    maxRetries: 0,
    // ANTHROPIC_LOG=debug would write whole conversations to the log.
    logLevel: 'warn',
    // Spans are written for a run as a whole, by `@toolloop/telemetry`.
    openTelemetry: false,
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

/** The host of Anthropic itself. */
const ANTHROPIC_SERVER = 'api.anthropic.com';

/** Returns the host to which a model's requests go. */
export function serverOf({
  baseURL = fromEnvironment('ANTHROPIC_BASE_URL'),
}: AnthropicModelOptions): string {
  return serverAt(baseURL) ?? ANTHROPIC_SERVER;
}

/** Creates the client when it is first asked for. */
function once(options: ClientOptions): () => Promise<Anthropic> {
  let client: Promise<Anthropic> | undefined;
  return () => (client ??= import('@anthropic-ai/sdk').then((sdk) => new sdk.Anthropic(options)));
}

function keyFromEnvironment(): string | undefined {
  return fromEnvironment('ANTHROPIC_API_KEY') ?? fromEnvironment('ANTHROPIC_AUTH_TOKEN');
}

function fromEnvironment(name: string): string | undefined {
  return process.env[name]?.trim() || undefined;
}

function withoutKey(model: string): ConfigurationError {
  return new ConfigurationError([
    {
      at: `anthropic('${model}')`,
      problem: 'there is no API key.',
      remedy:
        'Set ANTHROPIC_API_KEY or pass { apiKey }. For a server that needs no key, set ANTHROPIC_BASE_URL or pass { baseURL }.',
    },
  ]);
}

/** The target of a request: a model, and the options that hold for each of its answers. */
export interface AnthropicTarget extends Pick<
  AnthropicModelOptions,
  | 'baseURL'
  | 'maxTokens'
  | 'promptCache'
  | 'parallelToolCalls'
  | 'apiVersion'
  | 'serverTools'
  | 'strictTools'
  | 'thinking'
  | 'effort'
> {
  readonly model: string;
}

/** The time, from its last use, for which the provider caches a prompt; false for no caching. */
export type PromptCache = '5m' | '1h' | false;

/** Marks the last of some blocks: the provider caches the prompt up to there. */
export function marked(blocks: readonly Uint8Array[], cache: PromptCache): readonly JsonPart[] {
  const last = blocks.at(-1);
  if (cache === false || last === undefined) return blocks;
  const mark = `,"cache_control":{"type":"ephemeral"${cache === '1h' ? ',"ttl":"1h"' : ''}}}`;
  return [...blocks.slice(0, -1), last.subarray(0, -1), mark];
}
