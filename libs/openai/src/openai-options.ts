import { ConfigurationError, type ModelCapabilities } from '@toolloop/protocol';
import { boundedErrors, defaultFetch, type Fetch } from '@toolloop/wire';
import { OpenAI } from 'openai';

/** Where the model is, how to reach it and how to ask it. What is left out comes from the environment, as with the `openai` SDK. */
export interface OpenAiModelOptions {
  /**
   * Which of OpenAI's APIs to speak: `chat` (`/chat/completions`), which every compatible server knows, or `responses` (`/responses`), in which
   * OpenAI's own models keep their reasoning from step to step. @default 'chat'
   */
  readonly api?: 'chat' | 'responses';
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
  /**
   * Sends the requests: for a proxy, a recording, a test. @default {@link httpFetch}; the global `fetch` where that was replaced, given a dispatcher or
   * told to use a proxy
   */
  readonly fetch?: Fetch;
  /** How long the answer may take to begin, in milliseconds. The answer itself is bounded by `limits.modelIdleMs`. @default 600_000 */
  readonly timeoutMs?: number;
  /** Further attempts after 408, 409, 429, 5xx or a failed connection, before anything was answered. @default 2 */
  readonly maxRetries?: number;
  /** Holds the model to the schemas of those tools whose schemas allow it; `false` for a server that refuses `strict`. @default true */
  readonly strictTools?: boolean;
  /** What the model cannot do, e.g. `{ images: false }`. @default everything is taken for granted */
  readonly capabilities?: ModelCapabilities;
  /** Whether an answer may hold several calls. @default what the provider does by itself */
  readonly parallelToolCalls?: boolean;
  /** How long a reasoning model thinks. @default what the provider does by itself */
  readonly reasoningEffort?: 'none' | 'minimal' | 'low' | 'medium' | 'high' | 'xhigh';
  /** Whether `responses` shows a summary of the model's reasoning. @default none */
  readonly reasoningSummary?: 'auto' | 'concise' | 'detailed';
  /** Tools that the provider of `responses` runs itself, as it declares them: `{ type: 'web_search' }`. No policy of ours sees their calls. @default none */
  readonly builtInTools?: readonly object[];
  /** What `maxOutputTokens` is called in `chat`: older compatible servers know `max_tokens` only. @default 'max_completion_tokens' */
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
    fetch: boundedErrors(options.fetch ?? defaultFetch()),
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

/** What a request is written for: a model, and what its user wants of every answer. */
export interface OpenAiTarget extends Pick<
  OpenAiModelOptions,
  'parallelToolCalls' | 'reasoningEffort' | 'reasoningSummary' | 'builtInTools' | 'maxTokensField' | 'strictTools'
> {
  readonly model: string;
}
