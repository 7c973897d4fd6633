import { ConfigurationError } from '@toolloop/core';
import { OpenAI, type ClientOptions } from 'openai';

/** Where the model is and how to reach it. What is left out comes from the environment, as with the `openai` SDK. */
export interface OpenAiModelOptions {
  /** @default process.env.OPENAI_API_KEY; with a base URL and no key at all, a placeholder, which local servers ignore */
  readonly apiKey?: string;
  /** Up to and including the version, e.g. `http://127.0.0.1:11434/v1`. @default process.env.OPENAI_BASE_URL, else OpenAI itself */
  readonly baseURL?: string;
  /** @default process.env.OPENAI_ORG_ID */
  readonly organization?: string;
  /** @default process.env.OPENAI_PROJECT_ID */
  readonly project?: string;
  /** Sent with every request, beside the SDK's own. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Replaces the global `fetch`: for a proxy, a recording, a test. */
  readonly fetch?: NonNullable<ClientOptions['fetch']>;
  /** How long the answer may take to begin, in milliseconds. The answer itself is bounded by `limits.modelIdleMs`. @default 600_000 */
  readonly timeoutMs?: number;
  /** Further attempts after 408, 409, 429, 5xx or a failed connection, before anything was answered. @default 2 */
  readonly maxRetries?: number;
  /** What `maxOutputTokens` is called: older compatible servers know `max_tokens` only. @default 'max_completion_tokens' */
  readonly maxTokensField?: 'max_completion_tokens' | 'max_tokens';
}

const PLACEHOLDER_KEY = 'no-key';

/** The SDK's client, and the key it uses. Throws a `ConfigurationError` where no request could ever succeed. */
export function toClient(model: string, options: OpenAiModelOptions): { readonly client: OpenAI; readonly apiKey: string } {
  const baseURL = options.baseURL ?? fromEnvironment('OPENAI_BASE_URL');
  const apiKey = options.apiKey ?? fromEnvironment('OPENAI_API_KEY') ?? (baseURL === undefined ? undefined : PLACEHOLDER_KEY);
  if (apiKey === undefined || apiKey === '') throw withoutKey(model);
  const client = new OpenAI({
    apiKey,
    baseURL,
    // An admin key in the environment would replace the key above.
    adminAPIKey: null,
    organization: options.organization,
    project: options.project,
    defaultHeaders: options.headers,
    fetch: options.fetch,
    // A redirect would carry the conversation to another host.
    fetchOptions: { redirect: 'error' },
    timeout: options.timeoutMs,
    maxRetries: options.maxRetries,
    // OPENAI_LOG=debug would write whole conversations to the log.
    logLevel: 'warn',
  });
  return { client, apiKey };
}

function fromEnvironment(name: string): string | undefined {
  return process.env[name]?.trim() || undefined;
}

function withoutKey(model: string): ConfigurationError {
  return new ConfigurationError([
    {
      at: `openai('${model}')`,
      problem: 'there is no API key.',
      remedy: 'Set OPENAI_API_KEY or pass { apiKey }. For a server that needs no key, set OPENAI_BASE_URL or pass { baseURL }.',
    },
  ]);
}
