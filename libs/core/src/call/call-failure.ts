import { randomUUID } from 'node:crypto';
import { HttpException } from '@nestjs/common';
import {
  type ArgumentProblem,
  ToolError,
  type ToolErrorCode,
  type ToolFailure,
} from '@toolloop/protocol';
import type { ToolCallContext } from '../contracts/tool-call.js';
import type { ToolLayers } from '../contracts/tool.js';
import { Interruption, untilAborted } from '../contracts/interruption.js';

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
 * The progress of a tool's method in a call. It alone decides on the effect of a tool that changes
 * things: not called, the effect did not take place; in flight, it is unknown; answered, it took
 * place; and the exception of a method that threw speaks for itself.
 */
export type MethodState = 'not_called' | 'in_flight' | 'answered' | 'threw';

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
