import type { LoopResult } from './loop-result.js';

/** One thing wrong with a declaration, and how to mend it. */
export interface Finding {
  /** Where, e.g. `CustomerTools.searchCustomers`. */
  readonly at: string;
  readonly problem: string;
  readonly remedy: string;
}

const HEADLINES = { declarations: 'in the declarations and does not start', request: 'in the request and does not run it' } as const;

/** Thrown at bootstrap, or for what the application says in a request, with every finding at once: the developer must act. */
export class ConfigurationError extends Error {
  override readonly name = 'ConfigurationError';
  readonly code = 'configuration';

  constructor(
    readonly findings: readonly Finding[],
    foundIn: keyof typeof HEADLINES = 'declarations',
  ) {
    super(
      [
        `Toolloop found ${findings.length} ${findings.length === 1 ? 'problem' : 'problems'} ${HEADLINES[foundIn]}:`,
        ...findings.map(({ at, problem, remedy }, index) => `  ${index + 1}. ${at}: ${problem}\n     ${remedy}`),
      ].join('\n'),
    );
  }
}

/** A request that cannot be run as it is: the caller must act. Over HTTP it is a 400. */
export class InvalidRequestError extends Error {
  override readonly name = 'InvalidRequestError';

  constructor(
    readonly code:
      'invalid_request' | 'invalid_messages' | 'unknown_tool' | 'unknown_model' | 'unknown_run' | 'unreadable_run' | 'unknown_actor',
    message: string,
  ) {
    super(message);
  }
}

/** What is known of a model's failure. */
export interface ModelErrorOptions {
  /** Of HTTP, as the provider answered it or as its word for the failure stands for. */
  readonly status?: number;
  /** Whether the same request may succeed a little later. @default false */
  readonly retryable?: boolean;
  /** What the provider calls the request: its support asks for it. */
  readonly requestId?: string;
  /** How long the provider wants to be left alone. */
  readonly retryAfterMs?: number;
  readonly cause?: unknown;
}

/** A failure of a provider or of the way to it. `message` is for logs, with neither key nor prompt in it; users and models read a fixed text. */
export class ModelError extends Error {
  override readonly name = 'ModelError';
  readonly status: number | undefined;
  readonly isRetryable: boolean;
  readonly requestId: string | undefined;
  readonly retryAfterMs: number | undefined;

  constructor(message: string, { status, retryable = false, requestId, retryAfterMs, cause }: ModelErrorOptions = {}) {
    super(message, { cause });
    this.status = status;
    this.isRetryable = retryable;
    this.requestId = requestId;
    this.retryAfterMs = retryAfterMs;
  }
}

/**
 * A failure of storage that may pass: a lost connection, a server that restarts, a full pool, an answer that does not come. An adapter throws it, or the error of the
 * driver as its `cause`, for these and for nothing else: the statement is repeated where that does no harm, and the model is never told. `message` is for logs.
 */
export class StorageUnavailableError extends Error {
  override readonly name = 'StorageUnavailableError';
  readonly code = 'storage_unavailable';

  constructor(message = 'The storage does not answer for now.', options: { readonly cause?: unknown } = {}) {
    super(message, options);
  }

  /** The one that an error is, or that caused it. */
  static in(error: unknown): StorageUnavailableError | undefined {
    for (let cause = error; cause instanceof Error; cause = cause.cause) if (cause instanceof StorageUnavailableError) return cause;
    return undefined;
  }
}

/** The `result` of a durable run that another process goes on with, or goes on later: ask for the run by its id. */
export class RunElsewhereError extends Error {
  override readonly name = 'RunElsewhereError';

  constructor(readonly runId: string) {
    super(`The run ${runId} is not this process's any more; it goes on elsewhere, or later. Ask for it by its id.`);
  }
}

/** What `run()` rejects with. The partial result, with its valid transcript, is never lost. */
export class RunError extends Error {
  override readonly name = 'RunError';

  constructor(
    readonly result: LoopResult,
    options: { readonly cause?: unknown } = {},
  ) {
    super(result.error?.message ?? `The run ended with "${result.finishReason}".`, options);
  }
}

/** What a `ToolError` says beside its message. */
export interface ToolErrorOptions {
  /** Whether the same call may succeed later. @default true where `retryAfterMs` is given, else false */
  readonly retryable?: boolean;
  /** Milliseconds to wait before another attempt; more than 5,000 are not waited. @default exponential back-off with jitter */
  readonly retryAfterMs?: number;
  readonly cause?: unknown;
}

/**
 * Thrown by a tool that wants to tell the model something: the message reaches the model as it stands, so write it for the model.
 */
export class ToolError extends Error {
  override readonly name = 'ToolError';
  readonly retryable: boolean;
  readonly retryAfterMs: number | undefined;

  constructor(
    readonly safeMessage: string,
    { retryAfterMs, retryable = retryAfterMs !== undefined, cause }: ToolErrorOptions = {},
  ) {
    super(safeMessage, { cause });
    this.retryable = retryable;
    this.retryAfterMs = retryAfterMs;
  }
}
