import { Anthropic } from '@anthropic-ai/sdk';
import { ConfigurationError, type ModelCapabilities } from '@toolloop/protocol';
import { boundedErrors, defaultFetch, type Fetch } from '@toolloop/wire';

/** Where the model is, how to reach it, and what every request says. What is left out comes from the environment, as with Anthropic's SDK. */
export interface AnthropicModelOptions {
  /**
   * Sent as `Authorization: Bearer`. @default process.env.ANTHROPIC_API_KEY, else ANTHROPIC_AUTH_TOKEN; with a base URL and no key at all, a
   * placeholder, which local servers ignore
   */
  readonly apiKey?: string;
  /** Without the version, e.g. `http://127.0.0.1:4000`. @default process.env.ANTHROPIC_BASE_URL, else Anthropic itself */
  readonly baseURL?: string;
  /** Sent with every request, beside the SDK's own, e.g. `anthropic-beta`. */
  readonly headers?: Readonly<Record<string, string>>;
  /**
   * Sends the requests: for a proxy, a recording, a test. @default {@link httpFetch}; the global `fetch` where that was replaced, given a dispatcher or
   * told to use a proxy
   */
  readonly fetch?: Fetch;
  /** How long the answer may take to begin, in milliseconds. The answer itself is bounded by `limits.modelIdleMs`. @default 600_000 */
  readonly timeoutMs?: number;
  /** Further attempts after 408, 409, 429, 5xx or a failed connection, before anything was answered. @default 2 */
  readonly maxRetries?: number;
  /** The version of the API. The older one takes `temperature` and `topP`, which are left out otherwise. @default '2026-10-21' */
  readonly apiVersion?: '2026-10-21' | '2023-06-01';
  /** Most tokens of one answer, thinking included, where `maxOutputTokens` says nothing: the API wants a number. @default 16_000 */
  readonly maxTokens?: number;
  /** How long the provider keeps the prompt, which makes every further step cheaper and the first one dearer. @default '5m' */
  readonly promptCache?: PromptCache;
  /** Whether one answer may hold several calls. @default true */
  readonly parallelToolCalls?: boolean;
  /** What the model cannot do: `{ structuredOutput: false }` for older ones, which take no schema. @default everything is taken for granted */
  readonly capabilities?: ModelCapabilities;
  /**
   * Holds the model to the schemas of the first 20 tools whose schemas allow it. The provider prepares a schema when it first sees it, and older models refuse
   * `strict`; the loop checks every argument anyway. @default false
   */
  readonly strictTools?: boolean;
  /** How much the model thinks, e.g. `{ type: 'adaptive' }`. @default what the model does by itself */
  readonly thinking?: Anthropic.ThinkingConfigParam;
  /** How much work the model puts into an answer. @default the model's own, 'high' */
  readonly effort?: 'low' | 'medium' | 'high' | 'xhigh' | 'max';
  /**
   * Tools the provider runs itself, as its API describes them, e.g. `{ type: 'web_search_20250305', name: 'web_search' }`. No policy, audit or
   * approval of ours sees their calls. @default none
   */
  readonly serverTools?: readonly Readonly<Record<string, unknown>>[];
}

const PLACEHOLDER_KEY = 'no-key';
const DEFAULT_VERSION = '2026-10-21';

/** The SDK's client, and the key it uses. Throws a `ConfigurationError` where no request could ever succeed. */
export function toClient(model: string, options: AnthropicModelOptions): { readonly client: Anthropic; readonly apiKey: string } {
  const baseURL = options.baseURL ?? fromEnvironment('ANTHROPIC_BASE_URL');
  const apiKey = options.apiKey ?? keyFromEnvironment() ?? (baseURL === undefined ? undefined : PLACEHOLDER_KEY);
  if (apiKey === undefined || apiKey === '') throw withoutKey(model);
  const client = new Anthropic({
    apiKey,
    // Left undefined, the SDK would ask the environment, and null stands for its own default.
    baseURL: baseURL ?? null,
    defaultHeaders: { 'anthropic-version': options.apiVersion ?? DEFAULT_VERSION, ...options.headers },
    fetch: boundedErrors(options.fetch ?? defaultFetch()),
    // A redirect would carry the conversation to another host.
    fetchOptions: { redirect: 'error' },
    timeout: options.timeoutMs,
    maxRetries: options.maxRetries,
    // ANTHROPIC_LOG=debug would write whole conversations to the log.
    logLevel: 'warn',
    // Spans are written for a run as a whole, by `@toolloop/telemetry`.
    openTelemetry: false,
  });
  return { client, apiKey };
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
      remedy: 'Set ANTHROPIC_API_KEY or pass { apiKey }. For a server that needs no key, set ANTHROPIC_BASE_URL or pass { baseURL }.',
    },
  ]);
}

/** What a request is written for: a model, and what its user wants of every answer. */
export interface AnthropicTarget extends Pick<
  AnthropicModelOptions,
  'maxTokens' | 'promptCache' | 'parallelToolCalls' | 'apiVersion' | 'serverTools' | 'strictTools' | 'thinking' | 'effort'
> {
  readonly model: string;
}

/** How long the provider keeps what it has read, from its last use; false for not at all. */
export type PromptCache = '5m' | '1h' | false;

/** Blocks with a mark in the last of them: the provider keeps all that stands up to there. */
export function marked(blocks: string, cache: PromptCache): string {
  if (cache === false) return blocks;
  return `${blocks.slice(0, -1)},"cache_control":{"type":"ephemeral"${cache === '1h' ? ',"ttl":"1h"' : ''}}}`;
}
