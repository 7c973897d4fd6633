import { recogniseCopies } from './copies.js';
import type { LoopResult } from './loop-result.js';
import type { ArgumentProblem } from './tool-definition.js';

/** A problem of a declaration, and how to fix it. */
export interface Finding {
  /** The place of the declaration, e.g. `CustomerTools.searchCustomers`. */
  readonly at: string;
  readonly problem: string;
  readonly remedy: string;
}

const HEADLINES = {
  declarations: 'in the declarations and does not start',
  request: 'in the request and does not run it',
  policy: 'in the policy and does not put it in force',
} as const;

/** The folder of these pages in an application. */
const PAGES = 'node_modules/@toolloop/core/docs/fix';

/**
 * The pages of the documentation by what their findings say, the first that fits. The package core
 * brings the pages.
 */
const FIX_PAGES: readonly (readonly [page: string, said: RegExp])[] = [
  // These quote names of the application or of options, which must not decide about the page.
  [
    'option-refused',
    /^There is no option "|^The option "|^It has no "|^unknown field "|^must |^is required$|^The level "/,
  ],
  ['start-refused', /needs the package/],
  ['plugin-refused', /\bplugins?\b|\b[Ss]lots?\b|^No point has/],
  ['two-copies', /copies of|that this copy of/],
  ['no-api-key', /API key|base URL/],
  ['console-closed', /\bconsole\b/],
  ['actor-not-loaded', /nothing loads|The actor has no id/],
  [
    'storage-unusable',
    /PostgreSQL|database folder|^The folder|migrated|may not .* the schema|where to keep things/,
  ],
  [
    'tool-in-quarantine',
    /pinned|\bpins?\b|\b[Ss]ource|^The server |vouches|not answered|connectionId|Its (?:address|command|headers) /,
  ],
  ['reserved-argument', /reserved|type of the actor/],
  [
    'policy-names-nothing',
    /no tool has|no such id|^(?:There is no|No) (?:tool|model|phase|server) |short (?:name|for)|nothing is allowed|ignores it|this rule/,
  ],
  [
    'name-refused',
    /already|safe name|tool id|valid prefix|is the name of|prefix "|every model provider|does not fit into|of this name|Two of its tools|keeps its id/,
  ],
  [
    'resource-refused',
    /row level security|sql_mode|its tenant|\bshared\b|\bORM\b|primary key|key of one field|bulk|counts no versions|resource\b|such (?:role|table) in|no tenant would see/,
  ],
  ['directive-refused', /[Dd]irective|external side effect|idempoten/],
  [
    'tool-incomplete',
    /no description|declares no effect|not an effect|data may leave|list of one class|has no tools|not a provider of tools|parameters are decorated/,
  ],
  [
    'provider-not-found',
    /in its place|no module|Nest does not apply|not a singleton|in a circle|is no provider|provided in place|list that holds|Only a request/,
  ],
  [
    'schema-refused',
    /schema|@ToolInput|decorator|argument|[Pp]arameter|pattern|not supported|^"[^"]*" (?:is|has|allows|never|cannot) |must be "object"/,
  ],
  ['result-refused', /expos|@Expose|shows|origin|who wrote|group/],
  ['entity-refused', /entit|prefix|instance|resolve|rehydrate|property or method/],
  [
    'option-refused',
    /option|[Ll]imit|number|milliseconds| ms\b|^It (?:is not|has no|says) |^Its \w+ (?:is|are) |bytes|heartbeats|trigger/,
  ],
];

/** Names the page of the documentation that a finding is explained on. */
export function pageOfFinding({ problem }: Pick<Finding, 'problem'>): string {
  return FIX_PAGES.find(([, said]) => said.test(problem))?.[0] ?? 'start-refused';
}

/**
 * Thrown at bootstrap, or for options that the application sets on a request. It lists every
 * finding at once: the developer has to fix them.
 */
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
        ...findings.map(
          ({ at, problem, remedy }, index) =>
            `  ${index + 1}. ${at}: ${problem}\n     ${remedy}\n     ${PAGES}/${pageOfFinding({ problem })}.md`,
        ),
      ].join('\n'),
    );
  }
}

/**
 * Thrown for a request that cannot be run as it is: the caller has to change it. Over HTTP it is a
 * 400; `forbidden`, for a tenant that does not exist, a 403, and `too_many_sessions` a 429.
 */
export class InvalidRequestError extends Error {
  override readonly name = 'InvalidRequestError';

  constructor(
    readonly code:
      | 'invalid_request'
      | 'invalid_messages'
      | 'unknown_tool'
      | 'unknown_model'
      | 'unknown_run'
      | 'unreadable_run'
      | 'unknown_actor'
      | 'unknown_session'
      | 'too_many_sessions'
      | 'forbidden',
    message: string,
  ) {
    super(message);
  }
}

/**
 * The kind of a model's failure, for code that decides what to do.
 *
 * - `unauthorized`, `forbidden`: the key is missing or wrong, or may not do this ·
 *   `quota_exceeded`: there is no credit left
 * - `invalid_request`, `request_too_large`, `not_found`: the request is refused as it is; there is
 *   no such model or address
 * - `context_length`: the request is longer than the model's context · `refused`: the provider
 *   refused the content
 * - `rate_limited`, `overloaded`, `provider_error`: too many requests; too little capacity; any
 *   other failure of the provider
 * - `unreachable`, `connection_lost`: there is no connection; it broke in the middle of an answer
 * - `no_response`, `no_content`, `idle`: the provider did not begin to answer in time; it was alive
 *   and sent no content; it fell silent in the middle
 * - `incomplete`, `invalid_answer`: the answer ended before it began; it was no answer of the API
 * - `unknown`: none of these can be told
 */
export type ModelErrorCode =
  | 'unauthorized'
  | 'forbidden'
  | 'quota_exceeded'
  | 'invalid_request'
  | 'request_too_large'
  | 'not_found'
  | 'context_length'
  | 'refused'
  | 'rate_limited'
  | 'overloaded'
  | 'provider_error'
  | 'unreachable'
  | 'connection_lost'
  | 'no_response'
  | 'no_content'
  | 'idle'
  | 'incomplete'
  | 'invalid_answer'
  | 'unknown';

/** Details of a model's failure, as far as they are known. */
export interface ModelErrorOptions {
  /** @default what the status stands for */
  readonly code?: ModelErrorCode;
  /** The HTTP status of the provider's answer, or the one that its error code stands for. */
  readonly status?: number;
  /** `true` if the same request may succeed a little later. @default false */
  readonly retryable?: boolean;
  /** The provider's id of the request, which its support asks for. */
  readonly requestId?: string;
  /** The milliseconds to wait before the next request, as the provider asks for. */
  readonly retryAfterMs?: number;
  readonly cause?: unknown;
}

/**
 * A failure of a provider or of the connection to it. `message` is for logs and holds neither key
 * nor prompt; users and models read a fixed text.
 */
export class ModelError extends Error {
  override readonly name = 'ModelError';
  readonly code: ModelErrorCode;
  readonly status: number | undefined;
  readonly isRetryable: boolean;
  readonly requestId: string | undefined;
  readonly retryAfterMs: number | undefined;

  constructor(
    message: string,
    { code, status, retryable = false, requestId, retryAfterMs, cause }: ModelErrorOptions = {},
  ) {
    super(message, { cause });
    this.code = code ?? codeForStatus(status);
    this.status = status;
    this.isRetryable = retryable;
    this.requestId = requestId;
    this.retryAfterMs = retryAfterMs;
  }
}

const CODES: ReadonlyMap<number, ModelErrorCode> = new Map([
  [400, 'invalid_request'],
  [401, 'unauthorized'],
  [402, 'quota_exceeded'],
  [403, 'forbidden'],
  [404, 'not_found'],
  [408, 'provider_error'],
  [409, 'provider_error'],
  [413, 'request_too_large'],
  [422, 'invalid_request'],
  [429, 'rate_limited'],
  [503, 'overloaded'],
  [529, 'overloaded'],
]);

/** Returns the kind of failure that an HTTP status stands for. */
function codeForStatus(status: number | undefined): ModelErrorCode {
  if (status === undefined) return 'unknown';
  // none is followed: there is no API at this address
  const isRedirect = status >= 300 && status < 400;
  return (
    CODES.get(status) ??
    (status >= 500 ? 'provider_error' : isRedirect ? 'not_found' : 'invalid_request')
  );
}

/** Options of a `StorageUnavailableError`. */
export interface StorageUnavailableOptions {
  /** The error of the driver, for logs. */
  readonly cause?: unknown;
  /**
   * False for a failure that does not pass by itself as far as is known, such as a missing right:
   * the statement is not repeated. @default true
   */
  readonly mayPass?: boolean;
}

/**
 * A failure of the storage that says nothing of what was asked of it. An adapter throws it for what
 * passes, with the driver's error as its `cause`: a lost connection, a restarting server, a full
 * pool, a timeout. An idempotent statement is repeated then, and the model never sees the failure.
 * `message` is for logs.
 */
export class StorageUnavailableError extends Error {
  override readonly name: string = 'StorageUnavailableError';
  readonly code = 'storage_unavailable';
  readonly mayPass: boolean;

  constructor(
    message = 'The storage does not answer for now.',
    { cause, mayPass = true }: StorageUnavailableOptions = {},
  ) {
    super(message, cause === undefined ? {} : { cause });
    this.mayPass = mayPass;
  }

  /** Finds the storage failure that an error is or that caused it. */
  static in(error: unknown): StorageUnavailableError | undefined {
    for (let cause = error; cause instanceof Error; cause = cause.cause)
      if (cause instanceof StorageUnavailableError) return cause;
    return undefined;
  }
}

/**
 * Rejects the `result` of a durable run that another process has taken over, that resumes later, or
 * whose end is not stored yet: ask for the run by its id.
 */
export class RunElsewhereError extends Error {
  override readonly name = 'RunElsewhereError';

  constructor(readonly runId: string) {
    super(
      `The run ${runId} is not told here any more: another process has taken it over, it resumes later, or its end is being stored. Ask for it by its id.`,
    );
  }
}

/**
 * Rejects `run()` where the run did not finish. Its `result` holds all that was done until then,
 * with a valid transcript.
 */
export class RunError extends Error {
  override readonly name = 'RunError';

  constructor(
    readonly result: LoopResult,
    options: { readonly cause?: unknown } = {},
  ) {
    const { error, finishDetail, finishReason } = result;
    super(error?.message ?? finishDetail ?? `The run ended with "${finishReason}".`, options);
  }
}

/** Options of a `ToolError` beside its message. */
export interface ToolErrorOptions {
  /**
   * `true` if the same call may succeed later. @default true where `retryAfterMs` is given, else
   * false
   */
  readonly retryable?: boolean;
  /**
   * The milliseconds to wait before another attempt; at most 5,000 are waited. @default exponential
   * back-off with jitter
   */
  readonly retryAfterMs?: number;
  /**
   * True where a tool that changes things cannot tell whether it did, such as one whose connection
   * broke while it waited for the answer. Its call then ends as `unknown_outcome` and is never
   * repeated by itself; of a tool that only reads it means nothing. @default false
   */
  readonly isOutcomeUnknown?: boolean;
  /**
   * The arguments that are wrong, which only the tool can tell. The model reads `invalid_args` with
   * a pointer to each of them. At most ten are shown. @default none
   */
  readonly problems?: readonly ArgumentProblem[];
  readonly cause?: unknown;
}

/**
 * Thrown by a tool to tell the model something: the message reaches the model as it stands, so
 * write it for the model.
 *
 * @example
 * throw new ToolError('The order was shipped and can no longer be cancelled.');
 */
export class ToolError extends Error {
  override readonly name = 'ToolError';
  readonly retryable: boolean;
  readonly retryAfterMs: number | undefined;
  readonly problems: readonly ArgumentProblem[];
  readonly isOutcomeUnknown: boolean;

  constructor(
    readonly safeMessage: string,
    {
      retryAfterMs,
      retryable = retryAfterMs !== undefined,
      problems = [],
      isOutcomeUnknown = false,
      cause,
    }: ToolErrorOptions = {},
  ) {
    super(safeMessage, { cause });
    this.isOutcomeUnknown = isOutcomeUnknown;
    this.problems = problems;
    this.retryable = retryable;
    this.retryAfterMs = retryAfterMs;
  }
}

const CLASSES = {
  ConfigurationError,
  InvalidRequestError,
  ModelError,
  StorageUnavailableError,
  RunElsewhereError,
  RunError,
  ToolError,
};
for (const [name, type] of Object.entries(CLASSES)) recogniseCopies(name, type);
