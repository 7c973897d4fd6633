import { setTimeout as wait } from 'node:timers/promises';
import {
  type JsonObject,
  type JsonValue,
  StorageUnavailableError,
  type ToolErrorCode,
  type ToolFailure,
  visible,
} from '@toolloop/protocol';
import type { JournalOutcome } from '../contracts/call-journal.js';
import { Logger } from '../findings/logger.js';
import { hadEffect } from '../plugins/sub-runs/changed-records.js';
import { fromCanonical } from '../schema/canonical-json.js';
import {
  answerLost,
  CallFailure,
  causeOf,
  failureOf,
  type MethodState,
  notBegun,
  notCalled,
} from './call-failure.js';
import { advance, type AuthorisedCall, type Call, inPlace, MOST_OF_A_NAME } from './call.js';
import type { EffectGuard } from './effect-guard.js';
import { isRepeatable } from './idempotency-key.js';
import { inTime } from '../contracts/interruption.js';
import type { ToolInvoker } from './invoke.js';
import { CallPending, type InvokedResult, type ToolOutcome } from './outcome.js';
import { succeeded } from './outcomes.js';
import { readInput } from './read-arguments.js';
import { type DescribedResult, RedactionError, type ResultDescriber } from './result-describer.js';
import { retryDelay } from './retry-delay.js';
import { shownArguments } from './shown-arguments.js';
import { unknownOutcome } from './unknown-outcome.js';

/** Stages 6 to 8: the method, its result, and the outcome that the journal keeps. */
export class CallPerformer {
  private readonly logger = new Logger(CallPerformer.name);

  constructor(
    private readonly invoker: ToolInvoker,
    private readonly describer: ResultDescriber,
    private readonly effects: EffectGuard,
  ) {}

  /** @throws What the call failed with. */
  async perform(call: AuthorisedCall): Promise<ToolOutcome> {
    const { tool, request, scope, input, options, decision, rehearsal } = call;
    const { hidden } = tool.input;
    const shown = options.logArguments && {
      arguments: cutArguments(shownArguments(input.args, hidden), options.truncateLogs),
    };
    logCall('debug', 'Tool call started', call, { ...(rehearsal && { rehearsal }), ...shown });
    const { toolCallId } = request.call;
    const { id, effect } = tool.spec;
    if (decision)
      await scope.emit({
        type: 'tool-start',
        step: request.step,
        toolCallId,
        tool: id,
        effect,
        decision,
      });
    tellStart(call);
    return this.concluded(call, this.invoke(call));
  }

  /**
   * The outcome of a call that was done and did not say so: the return value of its transaction
   * stands for that of its method.
   */
  async recall(call: AuthorisedCall, kept: unknown): Promise<ToolOutcome> {
    const answered = { live: kept, result: kept, attachments: [], method: 'answered' } as const;
    return this.concluded(call, Promise.resolve(answered));
  }

  /**
   * Calls the method of a rehearsed call once more, within the transaction of another. Nothing is
   * told, and nothing is kept.
   */
  again(call: AuthorisedCall): Promise<InvokedResult> {
    return this.invoker.invoke(call, call.input.built);
  }

  private async concluded(
    call: AuthorisedCall,
    invoking: Promise<InvokedResult>,
  ): Promise<ToolOutcome> {
    try {
      return await this.shown(call, await invoking);
    } catch (error) {
      if (error instanceof CallPending || isLeftInFlight(error, call)) throw error;
      throw await this.failed(call, call.hasTakenOver ? stillUnknown(error) : error);
    }
  }

  /** Whatever fails from here on says nothing about the effect. */
  private async shown(call: AuthorisedCall, invoked: InvokedResult): Promise<ToolOutcome> {
    try {
      const result = this.describer.describe(call, invoked);
      if (call.lease) await this.effects.succeed(call, toOutcome(result, call));
      return succeeded(call, invoked.live, result);
    } catch (error) {
      throw this.unshown(call, invoked, error);
    }
  }

  /** The failure of a call whose method has answered, and whose result cannot be shown or kept. */
  private unshown(call: AuthorisedCall, { method }: InvokedResult, error: unknown): unknown {
    const { tool, scope } = call;
    const isOfStorage =
      scope.performing === undefined && StorageUnavailableError.in(error) !== undefined;
    if (tool.spec.effect === 'read_only' || isOfStorage) return error;
    if (!(error instanceof CallFailure))
      this.logger.error(
        `The result of ${tool.spec.declaredId} could not be shown (run ${scope.run.runId}).`,
        error,
      );
    if (method === 'not_called')
      return new CallFailure(UNSHOWN, { cause: causeOf(error), method: 'not_called' });
    return hadEffect(call) ? answerLost(error) : error;
  }

  private async failed(call: AuthorisedCall, error: unknown): Promise<CallFailure> {
    const { tool, scope } = call;
    const failure = scope.performing?.read(error, tool, scope.signal) ?? failureOf(error);
    const cause = causeOf(error);
    const method = error instanceof CallFailure ? error.method : undefined;
    if (cause instanceof RedactionError) await scope.emit(cause.warning(call));
    if (call.lease) await this.effects.fail(call, { failure, method });
    return error instanceof CallFailure && error.failure === failure
      ? error
      : new CallFailure(failure, { cause: cause ?? error, method });
  }

  private async invoke(call: AuthorisedCall): Promise<InvokedResult> {
    const { tool, scope, input, hasTakenOver } = call;
    if (scope.beforeEffect && !hasTakenOver) await scope.beforeEffect();
    return scope.retry === true && isRepeatable(tool)
      ? repeatedly(call, (built) => this.attempt(call, built))
      : this.attempt(call, input.built);
  }

  /**
   * One attempt. One that asked a question ends with that, whatever its method made of the signal.
   */
  private async attempt(call: AuthorisedCall, built: unknown): Promise<InvokedResult> {
    if (call.asking) advance(call, { asking: undefined });
    try {
      const invoked = await inPlace(call, () => this.invoker.invoke(call, built));
      if (call.asking) throw call.asking;
      return invoked;
    } catch (error) {
      throw call.asking ?? error;
    }
  }
}

/**
 * A sub-run that continues after it waited has begun before, and so has a call that asked a
 * question.
 */
function tellStart(call: AuthorisedCall): void {
  const { tool, request, scope, hooks } = call;
  const hasAsked = !tool.client && scope.approvals.hasLetIn(request.call.toolCallId);
  hooks.started?.(advance(call, { isContinued: request.checkpoint !== undefined || hasAsked }));
}

/** An interceptor's answer in the place of the method's. */
const UNSHOWN: ToolFailure = {
  code: 'execution_failed',
  safeMessage:
    'The tool was not called: an interceptor answered in its place, and that answer cannot be shown.',
};

/**
 * Returns the failure of a call that was taken over: an attempt that did not call the method tells
 * nothing about the attempt before it.
 */
function stillUnknown(error: unknown): unknown {
  if (!(error instanceof CallFailure) || error.method !== 'not_called') return error;
  return new CallFailure(unknownOutcome().failure, { cause: error.cause, method: 'not_called' });
}

/**
 * A store failed under a call that a run makes: its run ends or is handed over, and nothing is said
 * of the call. A directive says it itself.
 */
function isLeftInFlight(error: unknown, call: AuthorisedCall): boolean {
  if (call.scope.performing || !StorageUnavailableError.in(error)) return false;
  advance(call, { isInFlight: true });
  return true;
}

/**
 * The labels of what is kept: a text that the model did not read is told when the call is answered
 * again.
 */
function toOutcome(
  { lasting: content, ui, attachments, isHidden }: DescribedResult,
  { labels: told }: AuthorisedCall,
): JournalOutcome {
  const labels = told && isHidden ? ({ returns: 'untrusted', reads: told.reads } as const) : told;
  return {
    status: 'succeeded',
    content,
    ui,
    ...(attachments && { attachments }),
    ...(labels && { labels }),
  };
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
 * Stages 6 and 7, repeated where the run wants that: for reads, and for writes with a key by which
 * their receiver knows them again. To guards, approval and journal all attempts are one call. Each
 * has the whole time of the tool; waiting in between ends with the run.
 *
 * @throws As the invocation does.
 */
async function repeatedly(call: AuthorisedCall, invoke: Invocation): Promise<InvokedResult> {
  let reported: FailedAttempt | undefined;
  let delay: number | undefined;
  for (let number = 1; ; number += 1) {
    try {
      const built =
        delay === undefined ? call.input.built : await rebuiltAfter(delay, call).catch(refuse);
      const result = await invoke(built);
      advance(call, { attempt: number });
      return result;
    } catch (error) {
      if (error instanceof CallPending) throw error;
      const failed = {
        number,
        error,
        code: failureOf(error).code,
        delay: delayAfter(error, number, call),
      };
      logAttempt(call, failed);
      reported = chooseDecidingAttempt(call, reported, failed);
      advance(call, { attempt: reported.number });
      if (failed.delay === undefined) throw reported.error;
      delay = failed.delay;
    }
  }
}

function logAttempt(call: AuthorisedCall, { number, code, error }: FailedAttempt): void {
  logCall(
    'warn',
    'Tool call attempt failed',
    call,
    { attempt: number, code },
    error instanceof CallFailure ? error.cause : error,
  );
}

/** A method that changes things is not called again while it runs, nor once it has answered. */
function delayAfter(error: unknown, number: number, { scope }: AuthorisedCall): number | undefined {
  const method = methodOf(error);
  if (method === 'in_flight' || method === 'answered') return undefined;
  return number < scope.limits.attempts && !scope.signal.aborted
    ? retryDelay(error, number)
    : undefined;
}

/** Waits, and rebuilds the input: the first attempt may have changed it. */
async function rebuiltAfter(
  delay: number,
  { tool, input, scope, options }: AuthorisedCall,
): Promise<unknown> {
  await wait(delay, undefined, { signal: scope.signal }).catch(() => {
    throw notBegun(scope.signal);
  });
  const unchecked = { ...options, validation: false };
  const rebuilding = readInput(tool.input, fromCanonical(input.canonical), unchecked);
  const reading = await inTime(rebuilding, scope.signal);
  if ('value' in reading) return reading.value;
  throw CallFailure.of('invalid_args', 'The arguments are not valid any more.', reading.problems);
}

/**
 * The attempt that decides. Of a call that changes things, an attempt that did not call the method
 * tells nothing about an earlier one that did.
 */
function chooseDecidingAttempt(
  { tool }: AuthorisedCall,
  reported: FailedAttempt | undefined,
  latest: FailedAttempt,
): FailedAttempt {
  if (!reported || tool.spec.effect === 'read_only' || methodOf(latest.error) !== 'not_called')
    return latest;
  return methodOf(reported.error) === 'not_called' ? latest : reported;
}

function refuse(error: unknown): never {
  throw notCalled(error);
}

function methodOf(error: unknown): MethodState | undefined {
  return error instanceof CallFailure ? error.method : undefined;
}

const logger = new Logger('ToolCall');

/**
 * Writes one line about a call, of a tool that logs: when it starts, when an attempt failed, and
 * when it has ended. None holds a result or a text that the model reads; what an attempt threw is
 * the last detail of its line.
 */
export function logCall(
  level: 'debug' | 'warn',
  message: string,
  { options, request, scope, tool }: Call,
  facts: JsonObject,
  ...details: readonly unknown[]
): void {
  if (!options.logging) return;
  const name = tool?.spec.declaredId ?? visible(request.call.name.slice(0, MOST_OF_A_NAME));
  const { toolCallId } = request.call;
  try {
    logger[level](
      message,
      { runId: scope.run.runId, step: request.step, toolCallId, tool: name, ...facts },
      ...details,
    );
  } catch {
    // a logger that fails must not turn a call that took place into one that did not
  }
}

function cutArguments(args: JsonObject, mostCharacters: number): JsonObject {
  return Object.fromEntries(
    Object.entries(args).map(([name, value]) => [
      cut(name, MOST_OF_A_NAME),
      cutValue(value, mostCharacters),
    ]),
  );
}

/** Numbers, booleans and null are short as they are; lists and objects are logged as JSON. */
function cutValue(value: JsonValue, mostCharacters: number): JsonValue {
  if (typeof value === 'string') return cut(value, mostCharacters);
  return typeof value === 'object' && value !== null
    ? cut(JSON.stringify(value), mostCharacters)
    : value;
}

function cut(text: string, mostCharacters: number): string {
  return visible(text.length > mostCharacters ? `${text.slice(0, mostCharacters)}…` : text);
}
