import { setTimeout as wait } from 'node:timers/promises';
import { Injectable, Logger } from '@nestjs/common';
import { StorageUnavailableError, type ToolErrorCode, type ToolFailure } from '@toolloop/protocol';
import type { JournalOutcome } from '../contracts/stores.js';
import type { Tool } from '../contracts/tool.js';
import { fromCanonical } from '../schema/canonical-json.js';
import { CallLog } from './call-audit.js';
import {
  answerLost,
  CallFailure,
  causeOf,
  failureOf,
  type MethodState,
  notCalled,
  refuseWhenAborted,
  retryDelay,
  untilAborted,
} from './call-failure.js';
import { CallPending, type CallProgress, type ToolOutcome } from './call.js';
import { EffectGuard, left } from './effect-guard.js';
import { isRepeatable } from './idempotency-key.js';
import { type InvokedResult, ToolInvoker } from './invoke.js';
import { succeeded } from './outcome.js';
import { RedactionError } from './progress.js';
import { type ReadArguments, readInput } from './read-arguments.js';
import { type DescribedResult, ResultDescriber } from './results.js';
import { hadEffect } from './sub-run-call.js';

/** Stages 6 to 9: the method, its result, and the journal's last word. */
@Injectable()
export class ResultRunner {
  private readonly logger = new Logger(ResultRunner.name);
  private readonly attempts = new CallAttempts();

  constructor(
    private readonly invoker: ToolInvoker,
    private readonly describer: ResultDescriber,
    private readonly effects: EffectGuard,
  ) {}

  run(tool: Tool, input: ReadArguments, progress: CallProgress): Promise<ToolOutcome> {
    return this.concluded(tool, progress, () => this.invoke(tool, input, progress));
  }

  /** Of a call that was done and never said so: what its transaction returned stands for what its method would have. */
  recall(tool: Tool, kept: unknown, progress: CallProgress): Promise<ToolOutcome> {
    return this.concluded(tool, progress, () => Promise.resolve({ live: kept, result: kept, attachments: [], method: 'answered' }));
  }

  private async concluded(tool: Tool, progress: CallProgress, invoke: () => Promise<InvokedResult>): Promise<ToolOutcome> {
    try {
      return await this.shown(tool, await invoke(), progress);
    } catch (error) {
      if (error instanceof CallPending || isLeftInFlight(error, progress)) throw error;
      throw await this.failed(tool, progress.hasTakenOver ? stillUnknown(error) : error, progress);
    }
  }

  /** Whatever fails from here on says nothing about the effect. */
  private async shown(tool: Tool, invoked: InvokedResult, progress: CallProgress): Promise<ToolOutcome> {
    try {
      const result = this.describer.describe(tool, invoked, progress);
      await this.effects.succeed(tool, toOutcome(result), progress);
      return succeeded(progress, invoked.live, result);
    } catch (error) {
      const isOfStorage = progress.scope.performing === undefined && StorageUnavailableError.in(error) !== undefined;
      if (tool.spec.effect === 'read_only' || isOfStorage) throw error;
      if (!(error instanceof CallFailure))
        this.logger.error(`The result of ${tool.spec.declaredId} could not be shown (run ${progress.scope.run.runId}).`, error);
      if (invoked.method === 'not_called') throw new CallFailure(UNSHOWN, { cause: causeOf(error), method: 'not_called' });
      throw hadEffect(tool, progress) ? answerLost(error) : error;
    }
  }

  private async failed(tool: Tool, error: unknown, progress: CallProgress): Promise<CallFailure> {
    const { scope } = progress;
    const failure = scope.performing?.read(error, tool, scope.signal) ?? failureOf(error);
    const cause = causeOf(error);
    const method = error instanceof CallFailure ? error.method : undefined;
    if (cause instanceof RedactionError) await scope.emit(cause.warning(tool, progress));
    await this.effects.fail(tool, { failure, method }, progress);
    return error instanceof CallFailure && error.failure === failure ? error : new CallFailure(failure, { cause: cause ?? error, method });
  }

  private invoke(tool: Tool, input: ReadArguments, progress: CallProgress): Promise<InvokedResult> {
    if (!this.attempts.apply(tool, progress)) return this.invoker.invoke(tool, input.built, progress);
    return this.attempts.run(tool, input, progress, (built) => this.invoker.invoke(tool, built, progress));
  }
}

/** An interceptor's answer in the place of the method's. */
const UNSHOWN: ToolFailure = {
  code: 'execution_failed',
  safeMessage: 'The tool was not called: an interceptor answered in its place, and that answer cannot be shown.',
};

/** Of a call that was taken over, an attempt that did not call the method tells nothing about the attempt before it. */
function stillUnknown(error: unknown): unknown {
  if (!(error instanceof CallFailure) || error.method !== 'not_called') return error;
  return new CallFailure(left().failure, { cause: error.cause, method: 'not_called' });
}

/** A store failed under a call that a run makes: its run ends or is handed over, and nothing is said of the call. A directive says it itself. */
function isLeftInFlight(error: unknown, progress: CallProgress): boolean {
  if (progress.scope.performing || !StorageUnavailableError.in(error)) return false;
  progress.isInFlight = true;
  return true;
}

function toOutcome({ lasting: content, ui, attachments }: DescribedResult): JournalOutcome {
  return { status: 'succeeded', content, ui, ...(attachments && { attachments }) };
}

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
