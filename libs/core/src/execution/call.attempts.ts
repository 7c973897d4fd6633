import { setTimeout as wait } from 'node:timers/promises';
import type { ToolErrorCode } from '../protocol/tool-error.js';
import type { Tool } from '../protocol/tool.js';
import { readInput, type ReadArguments } from './argument.reader.js';
import { CallFailure, failureOf, notCalled, refuseWhenAborted, type MethodState } from './call.failure.js';
import { CallPending } from './call.pending.js';
import { CallLog } from './call.log.js';
import type { CallProgress } from './execution.scope.js';
import { fromCanonical } from './from-arguments.js';
import { isRepeatable } from './idempotency-key.js';
import { untilAborted } from './interruption.js';
import { retryDelay } from './retry-delay.js';
import type { InvokedResult } from './tool.invoker.js';

/** Invokes the method once, with this input. */
type Invocation = (built: unknown) => Promise<InvokedResult>;

/** An attempt that did not succeed. */
interface FailedAttempt {
  readonly number: number;
  readonly error: unknown;
  readonly code: ToolErrorCode;
  /** Milliseconds until the next; undefined where there is none. */
  readonly delay: number | undefined;
}

/**
 * Stages 6 and 7, again and again where the run wants that: of reads, and of writes with a key by which whoever performs them knows them again. To guards,
 * approval and journal all attempts are one call. Each has the whole time of the tool; waiting in between ends with the run.
 */
export class CallAttempts {
  private readonly log = new CallLog();

  /** Whether the call may be attempted more than once. */
  apply(tool: Tool, { scope }: CallProgress): boolean {
    return scope.retry === true && isRepeatable(tool);
  }

  /** Throws as the invocation does. */
  async run(tool: Tool, input: ReadArguments, progress: CallProgress, invoke: Invocation): Promise<InvokedResult> {
    let standing: FailedAttempt | undefined;
    let delay: number | undefined;
    for (let number = 1; ; number += 1) {
      try {
        const built = delay === undefined ? input.built : await rebuiltAfter(delay, tool, input, progress).catch(refuse);
        const result = await invoke(built);
        progress.attempt = number;
        return result;
      } catch (error) {
        if (error instanceof CallPending) throw error;
        const failed = { number, error, code: failureOf(error).code, delay: delayAfter(error, number, progress) };
        this.log.attemptFailed(progress, failed);
        standing = outcomeOf(tool, standing, failed);
        progress.attempt = standing.number;
        if (failed.delay === undefined) throw standing.error;
        delay = failed.delay;
      }
    }
  }
}

/** A method that changes things is not called again while it runs, nor once it has answered. */
function delayAfter(error: unknown, number: number, { scope }: CallProgress): number | undefined {
  const method = methodOf(error);
  if (method === 'in_flight' || method === 'answered') return undefined;
  return number < scope.limits.attempts && !scope.signal.aborted ? retryDelay(error, number) : undefined;
}

/** What the first attempt did to its input is not the second's. */
async function rebuiltAfter(
  delay: number,
  { input }: Tool,
  { canonical }: ReadArguments,
  { scope, options }: CallProgress,
): Promise<unknown> {
  await wait(delay, undefined, { signal: scope.signal }).catch(() => refuseWhenAborted(scope.signal));
  const rebuilding = readInput(input, fromCanonical(canonical), { ...options, validation: false });
  const reading = rebuilding instanceof Promise ? await untilAborted(rebuilding, scope.signal) : rebuilding;
  if ('value' in reading) return reading.value;
  throw CallFailure.of('invalid_args', 'The arguments are not valid any more.', reading.problems);
}

/** What the attempts of a call have come to. Of one that changes things, an attempt that did not call the method tells nothing about an earlier one that did. */
function outcomeOf(tool: Tool, standing: FailedAttempt | undefined, latest: FailedAttempt): FailedAttempt {
  if (!standing || tool.spec.effect === 'read_only' || methodOf(latest.error) !== 'not_called') return latest;
  return methodOf(standing.error) === 'not_called' ? latest : standing;
}

function refuse(error: unknown): never {
  throw notCalled(error);
}

function methodOf(error: unknown): MethodState | undefined {
  return error instanceof CallFailure ? error.method : undefined;
}
