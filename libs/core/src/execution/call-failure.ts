import { randomUUID } from 'node:crypto';
import { HttpException } from '@nestjs/common';
import {
  type ArgumentProblem,
  type JsonApiError,
  ToolError,
  type ToolErrorCode,
  type ToolFailure,
} from '@toolloop/protocol';
import type { ToolCallContext } from '../contracts/tool-call.js';
import type { ToolLayers } from '../contracts/tool.js';

/**
 * The progress of a tool's method in a call. It alone decides on the effect of a tool that changes
 * things: not called, the effect did not take place; in flight, it is unknown; answered, it took
 * place; and the exception of a method that threw speaks for itself.
 */
export type MethodState = 'not_called' | 'in_flight' | 'answered' | 'threw';

/** Thrown by a stage of the pipeline; the runner turns it into the call's result. */
export class CallFailure extends Error {
  override readonly name = 'CallFailure';
  /** Set where the call had passed the journal, of a tool that changes things. */
  readonly method: MethodState | undefined;

  constructor(
    readonly failure: ToolFailure,
    { cause, method }: { readonly cause?: unknown; readonly method?: MethodState | undefined } = {},
  ) {
    super(failure.safeMessage, cause === undefined ? {} : { cause });
    this.method = method;
  }

  static of(
    code: ToolErrorCode,
    safeMessage: string,
    problems?: readonly ArgumentProblem[],
  ): CallFailure {
    return new CallFailure({ code, safeMessage, ...(problems && { problems }) });
  }
}

/**
 * Returns the failure that the model reads for an exception: a tool's own words if it chose them,
 * else a fixed text and an id that is in the log too.
 */
export function failureOf(error: unknown): ToolFailure {
  if (error instanceof CallFailure) return error.failure;
  if (error instanceof Interruption) return interruptionFailure(error);
  if (error instanceof ToolError) return toolFailure(error);
  if (error instanceof HttpException) return httpFailure(error);
  return unexplained();
}

/** Problems of arguments are told as those that a schema finds, each at its argument. */
function toolFailure({ safeMessage, retryable, problems }: ToolError): ToolFailure {
  const told = { safeMessage: shortened(safeMessage), retryable };
  if (problems.length === 0) return { code: 'execution_failed', ...told };
  const shown = problems
    .slice(0, MOST_PROBLEMS)
    .map(({ pointer, message }) => ({ pointer, message: shortened(message) }));
  return { code: 'invalid_args', ...told, problems: shown };
}

/** A failure of which the model learns nothing but where to look it up. */
export function unexplained(): ToolFailure {
  return {
    code: 'execution_failed',
    safeMessage: 'The tool failed unexpectedly. Do not repeat the call with the same arguments.',
    correlationId: randomUUID(),
  };
}

/** The failure of a call whose run was interrupted before the method was called. */
export function notBegun(signal: AbortSignal): CallFailure {
  return new CallFailure(interruptionFailure(Interruption.from(signal)), { method: 'not_called' });
}

/** Makes the failure of a call whose method was not called: the effect did not take place. */
export function notCalled(error: unknown): CallFailure {
  return new CallFailure(failureOf(error), { cause: causeOf(error), method: 'not_called' });
}

/**
 * Makes the failure of a call whose method had answered, no matter what threw afterwards: the
 * effect took place, and only the answer is missing.
 */
export function answerLost(error: unknown): CallFailure {
  return new CallFailure(
    { code: 'invalid_output', safeMessage: LOST },
    { cause: causeOf(error), method: 'answered' },
  );
}

const LOST =
  'The tool ran, but its result cannot be shown. Its effect took place: do not repeat the call.';

/** Returns the cause of a failure of the pipeline; any other error itself. */
export function causeOf(error: unknown): unknown {
  return error instanceof CallFailure ? error.cause : error;
}

/** Returns the failure of a call that had not begun, or that only reads. */
export function interruptionFailure({ kind, message }: Interruption): ToolFailure {
  return { code: kind === 'timeout' ? 'timeout' : 'aborted', safeMessage: message };
}

/** The longest text of an exception that the model reads, in characters. */
const MOST_CHARACTERS = 2_000;
const MOST_PROBLEMS = 10;

function shortened(text: string): string {
  return text.length > MOST_CHARACTERS ? `${text.slice(0, MOST_CHARACTERS)}…` : text;
}

/** A Nest exception's message is shown for 4xx only: a 5xx may speak of the inside. */
function httpFailure(error: HttpException): ToolFailure {
  const status = error.getStatus();
  if (status === 401 || status === 403)
    return { code: 'forbidden', safeMessage: shortened(error.message) };
  if (status >= 400 && status < 500)
    return { code: 'execution_failed', safeMessage: shortened(error.message) };
  return {
    code: 'execution_failed',
    safeMessage: 'The tool failed unexpectedly.',
    correlationId: randomUUID(),
  };
}

const TITLES: Record<ToolErrorCode, string> = {
  unknown_tool: 'Unknown tool',
  tool_gone: 'Tool no longer available',
  invalid_json: 'Arguments are not JSON',
  invalid_args: 'Invalid arguments',
  tenant_override: 'Reserved argument',
  forbidden: 'Forbidden',
  policy_denied: 'Unknown tool',
  approval_denied: 'Approval denied',
  unknown_outcome: 'Outcome unknown',
  invalid_output: 'Invalid result',
  timeout: 'Timed out',
  aborted: 'Aborted',
  budget_exceeded: 'Limit reached',
  storage_unavailable: 'Storage unavailable',
  execution_failed: 'Tool failed',
};

const FORBIDDEN = new Set<ToolErrorCode>(['forbidden', 'approval_denied']);
const INVALID = new Set<ToolErrorCode>([
  'unknown_tool',
  'policy_denied',
  'tool_gone',
  'invalid_json',
  'invalid_args',
  'tenant_override',
]);

/**
 * A failure as the model reads it, in JSON:API form. A tool that policy denies reads like one that
 * does not exist.
 */
export function toJsonApi(
  failure: ToolFailure,
  shownAs: ToolErrorCode = failure.code,
): { readonly errors: readonly JsonApiError[] } {
  const status = FORBIDDEN.has(shownAs) ? '403' : INVALID.has(shownAs) ? '400' : '500';
  const base = { status, code: shownAs, title: TITLES[shownAs] };
  if (!failure.problems?.length) return { errors: [{ ...base, detail: withCorrelation(failure) }] };
  return {
    errors: failure.problems.map(({ pointer, message }) => ({
      ...base,
      detail: message,
      source: { pointer },
    })),
  };
}

function withCorrelation({ safeMessage, correlationId }: ToolFailure): string {
  return correlationId === undefined ? safeMessage : `${safeMessage} (Reference ${correlationId})`;
}

/**
 * The failure as an exception filter tells it; undefined when no filter is responsible. A filter
 * words an error, it never turns one into a success. Our own signals pass untouched: they are not
 * the application's errors.
 */
export async function explained(
  layers: ToolLayers | undefined,
  error: unknown,
  { input, context }: { readonly input: unknown; readonly context: ToolCallContext },
): Promise<ToolFailure | undefined> {
  if (!layers || error instanceof CallFailure || error instanceof Interruption) return undefined;
  try {
    const detail: unknown = await untilAborted(
      layers.explain(error, input, context),
      context.signal,
    );
    if (detail === undefined || detail === null) return undefined;
    const text = typeof detail === 'string' ? detail : JSON.stringify(detail);
    const { correlationId: _unneeded, ...failure } = failureOf(error);
    return { ...failure, safeMessage: text.slice(0, MOST_CHARACTERS) };
  } catch (thrown) {
    // Nest hands back what no filter caught; a filter that throws itself, such as one made for
    // HTTP, has nothing to say here either.
    if (thrown !== error)
      context.logger.warn(
        `An exception filter failed on a tool call (${context.toolCallId}).`,
        thrown,
      );
    return undefined;
  }
}

const FIRST_MS = 200;
const LONGEST_MS = 5_000;

/**
 * Milliseconds to wait after a failed attempt, from 1: as long as the error asks for, else any time
 * up to 200 ms, 400 ms and so on, so that calls that failed together do not come back together; 5 s
 * at most. Undefined where another attempt would fail as well.
 */
export function retryDelay(error: unknown, attempt: number): number | undefined {
  const cause = rootCauseOf(error);
  if (cause === undefined) return undefined;
  const asked = askedFor(cause.thrown);
  return asked === undefined
    ? Math.random() * atMost(FIRST_MS * 2 ** (attempt - 1))
    : atMost(asked);
}

/**
 * Milliseconds that the error asks to be waited for, 0 where it says nothing. Undefined where
 * another attempt would fail as well.
 */
export function askedWait(error: unknown): number | undefined {
  const cause = rootCauseOf(error);
  return cause && (askedFor(cause.thrown) ?? 0);
}

function atMost(ms: number): number {
  return Math.min(ms, LONGEST_MS);
}

/** Returns the exception behind a failure that may pass. */
function rootCauseOf(error: unknown): { readonly thrown: unknown } | undefined {
  if (!(error instanceof CallFailure)) return isTransient(error) ? { thrown: error } : undefined;
  const { code } = error.failure;
  if (code === 'timeout' || code === 'unknown_outcome') return { thrown: undefined };
  // An exception filter worded it; what it says is no more or less likely to pass.
  return code === 'execution_failed' && isTransient(error.cause)
    ? { thrown: error.cause }
    : undefined;
}

/**
 * Returns whether a failure may pass. An unknown exception says nothing of its cause, and most of
 * them are a network's.
 */
function isTransient(thrown: unknown): boolean {
  if (thrown instanceof Interruption) return false;
  if (thrown instanceof ToolError) return thrown.retryable;
  if (!(thrown instanceof HttpException)) return true;
  const status = thrown.getStatus();
  return status === 408 || status === 429 || status >= 500;
}

function askedFor(thrown: unknown): number | undefined {
  const ms =
    thrown instanceof ToolError
      ? thrown.retryAfterMs
      : thrown instanceof HttpException
        ? retryAfterOf(thrown)
        : undefined;
  return ms !== undefined && ms >= 0 ? ms : undefined;
}

/** In the body of a Nest exception, as the header would have it: seconds, or a date. */
function retryAfterOf(exception: HttpException): number | undefined {
  const status = exception.getStatus();
  const body = exception.getResponse();
  if ((status !== 429 && status !== 503) || typeof body !== 'object') return undefined;
  const fields = new Map(
    Object.entries(body).map(([name, value]: [string, unknown]) => [name.toLowerCase(), value]),
  );
  const value = fields.get('retry-after') ?? fields.get('retryafter');
  if (typeof value !== 'number' && typeof value !== 'string') return undefined;
  const seconds = Number(value);
  const ms = Number.isNaN(seconds) ? Date.parse(String(value)) - Date.now() : seconds * 1000;
  return Number.isNaN(ms) ? undefined : Math.max(0, ms);
}

/** Why a run or a call was interrupted. The reason of every signal we abort. */
export class Interruption extends Error {
  override readonly name = 'Interruption';

  constructor(
    readonly kind: 'aborted' | 'timeout' | 'failed',
    message: string,
    options: { readonly cause?: unknown } = {},
  ) {
    super(message, options);
  }

  /** A signal's reason as an interruption: a signal of the application's own may carry anything. */
  static from(signal: AbortSignal): Interruption {
    const reason: unknown = signal.reason;
    return reason instanceof Interruption
      ? reason
      : new Interruption('aborted', 'The run was aborted.', { cause: reason });
  }
}

/**
 * A signal that follows another and can be aborted by itself; `release` forgets the other and the
 * timer.
 */
export interface LinkedSignal {
  readonly signal: AbortSignal;
  abort(interruption: Interruption): void;
  release(): void;
}

/** Node fires a timer beyond this at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/**
 * Links a signal to a parent and a time limit. Unlike `AbortSignal.any` with `timeout` it leaves no
 * timer behind once released.
 */
export function linkSignal(
  parent: AbortSignal | undefined,
  timeLimit?: { readonly ms: number; readonly message: string },
): LinkedSignal {
  const controller = new AbortController();
  const follow = (): void => controller.abort(parent && Interruption.from(parent));
  const timer =
    timeLimit && timeLimit.ms <= LONGEST_TIMER_MS
      ? setTimeout(
          () => controller.abort(new Interruption('timeout', timeLimit.message)),
          timeLimit.ms,
        )
      : undefined;
  if (parent?.aborted) follow();
  else parent?.addEventListener('abort', follow, { once: true });
  return {
    signal: controller.signal,
    abort: (interruption) => controller.abort(interruption),
    release: () => {
      clearTimeout(timer);
      parent?.removeEventListener('abort', follow);
    },
  };
}

/**
 * Settles as the work does, or rejects with the signal's interruption as soon as it is aborted,
 * whether the work listens or not.
 */
export function untilAborted<Result>(work: Promise<Result>, signal: AbortSignal): Promise<Result> {
  return new Promise((resolve, reject) => {
    const interrupt = (): void => reject(Interruption.from(signal));
    if (signal.aborted) interrupt();
    else signal.addEventListener('abort', interrupt, { once: true });
    // Two callbacks and no `finally`, which would cost every call three more promises.
    const settle =
      <Value>(outcome: (value: Value) => void) =>
      (value: Value): void => {
        signal.removeEventListener('abort', interrupt);
        outcome(value);
      };
    work.then(settle(resolve), settle<unknown>(reject));
  });
}

/**
 * Settles as the work does, or rejects when it has not after so many milliseconds: a store that is
 * slow must not keep a run from ending.
 */
export async function withinTime<Result>(
  work: Promise<Result>,
  ms: number,
  parent?: AbortSignal,
): Promise<Result> {
  const link = linkSignal(parent, { ms, message: `It took longer than ${ms} ms.` });
  try {
    return await untilAborted(work, link.signal);
  } finally {
    link.release();
  }
}
