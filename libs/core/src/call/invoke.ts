import { ToolError, type ToolFailure } from '@toolloop/protocol';
import { AttachedResult } from '../contracts/attachment.js';
import { type InterceptorNote, ToolInterceptor } from '../contracts/interceptor.js';
import type { ToolLayers } from '../contracts/tool.js';
import { discreet } from '../plugins/connections/discreet.js';
import type { AskedQuestions } from '../plugins/questions/asked-questions.js';
import { SubRunMethod } from '../plugins/sub-runs/sub-run-call.js';
import type { ToolExplorer } from '../tools/discovery/tool-explorer.js';
import type { CallContextFactory } from './call-context.js';
import {
  CallFailure,
  answerLost,
  causeOf,
  explained,
  failureOf,
  interruptionFailure,
  notBegun,
  notCalled,
} from './call-failure.js';
import type { AuthorisedCall } from './call.js';
import { ConcurrencySlots, type FreeSlot } from './concurrency-slots.js';
import { Interruption, inTime } from '../contracts/interruption.js';
import type { InterceptorAnswer, InvokedResult } from './outcome.js';
import type { OnProgress } from './progress-report.js';
import { NONE, ToolMethod, drain } from './tool-method.js';

/**
 * Stages 6 and 7: a concurrency slot, interceptors, time budget and cancellation round the tool's
 * method, which runs inside AsyncLocalStorage.
 */
export class ToolInvoker {
  private readonly slots = new ConcurrencySlots();
  private interceptors: readonly ToolInterceptor[] | undefined;

  constructor(
    private readonly explorer: ToolExplorer,
    private readonly contexts: CallContextFactory,
    private readonly questions: AskedQuestions,
  ) {}

  /**
   * Calls the method of a tool once.
   *
   * @throws what a tool that reads threw, or `timeout` or `aborted` where it was interrupted. Of a
   *   tool that changes things a `CallFailure` that says how far its method had come:
   *   `unknown_outcome` where it was in flight, `invalid_output` where it had answered.
   */
  async invoke(call: AuthorisedCall, built: unknown): Promise<InvokedResult> {
    const { tool, scope } = call;
    if (scope.signal.aborted) throw notBegun(scope.signal);
    const { context, report, close } = this.contexts.open(call, (question) =>
      this.questions.ask(question, call),
    );
    let layers: ToolLayers | undefined;
    let freeSlot: FreeSlot | undefined;
    const onProgress: OnProgress = (value) => report.show(value, tool.output);
    const inner = tool.subRun && new SubRunMethod(tool.subRun, call);
    const method = new ToolMethod(inner?.performed ?? tool, { input: built, context }, (result) =>
      drain(result, onProgress, context.signal),
    );
    const running: RunningCall = { method, inner, call, answers: [] };
    try {
      if (tool.concurrency !== undefined)
        freeSlot = await this.slots.take(tool.spec.declaredId, tool.concurrency, context.signal);
      // Within the time limit: of a request-scoped provider the layers are made with it.
      layers = await inTime(tool.layers?.(scope.run), context.signal);
      const answer = this.contexts.run(context, () =>
        this.intercepted(running, layers, onProgress),
      );
      const result: unknown = await inTime(answer, context.signal);
      method.close();
      inner?.assertEnded();
      assertSettled(method);
      return toInvoked(result, running);
    } catch (thrown) {
      method.close();
      throw await toFailure(thrown, layers, running);
    } finally {
      close();
      freeSlot?.();
    }
  }

  /** Finds the interceptors, which every provider of the application is asked for. */
  prepare(): readonly ToolInterceptor[] {
    return (this.interceptors = this.explorer.instancesOf(ToolInterceptor));
  }

  /** `ToolInterceptor`s, then Nest's, then the method. */
  private intercepted(
    { method, call: made, answers }: RunningCall,
    layers: ToolLayers | undefined,
    onProgress: OnProgress,
  ): unknown {
    // since it was decided on, its start was told, and it may have waited for its key or its turn
    this.contexts.assertNotStopped(made);
    const interceptors = this.interceptors ?? this.prepare();
    if (interceptors.length === 0 && !layers) return method.call();
    const { invocation } = method;
    const call = (): Promise<unknown> => Promise.resolve().then(() => method.call());
    const note: InterceptorNote = (interceptor, answer) =>
      void answers.push({ interceptor, answer });
    const innermost = layers
      ? (): Promise<unknown> => layers.around(invocation.input, invocation.context, call, note)
      : call;
    const outermost = interceptors.reduceRight<() => Promise<unknown>>(
      (next, interceptor) => () =>
        noted(interceptor.intercept(invocation, next), interceptor.constructor.name, note),
      innermost,
    );
    return drain(outermost(), onProgress, invocation.context.signal);
  }
}

/** A call under way. */
interface RunningCall {
  readonly method: ToolMethod;
  /** Set where it is a run. */
  readonly inner: SubRunMethod | undefined;
  readonly call: AuthorisedCall;
  /** Filled while it runs, the innermost first. */
  readonly answers: InterceptorAnswer[];
}

/** An interceptor's answer cannot stand for an effect that is still under way, or that failed. */
function assertSettled(method: ToolMethod): void {
  if (!method.changesThings) return;
  if (method.state === 'in_flight')
    throw new Error('An interceptor answered while the method was still running.');
  if (method.state === 'threw') throw method.thrown;
}

/** Only what is awaited anyway is noted. */
function noted(
  answering: Promise<unknown>,
  interceptor: string,
  note: InterceptorNote,
): Promise<unknown> {
  if (answering instanceof Promise)
    answering.then(
      (answer) => note(interceptor, answer),
      () => undefined,
    );
  return answering;
}

/**
 * Makes the live result of the method's own value, so that no serializer hides an entity;
 * attachments of an interceptor replace the method's.
 */
function toInvoked(
  returned: unknown,
  { method: { answer, state }, answers }: RunningCall,
): InvokedResult {
  const replaced = returned instanceof AttachedResult ? returned : undefined;
  const result: unknown = replaced ? replaced.value : returned;
  const attachments = (replaced ?? answer)?.attachments ?? NONE;
  const words = answer?.words;
  return {
    live: answer ? answer.live : result,
    result,
    attachments,
    method: state,
    answers,
    ...(words !== undefined && { words }),
  };
}

/**
 * Returns the error for an exception of a call. For a tool that changes things it depends on the
 * state of its method alone.
 */
async function toFailure(
  thrown: unknown,
  layers: ToolLayers | undefined,
  { method, inner, call }: RunningCall,
): Promise<unknown> {
  const { input, context } = method.invocation;
  if (inner) return inner.thrown(thrown, method);
  const error = discreet(thrown, call);
  const interruption = context.signal.aborted ? Interruption.from(context.signal) : undefined;
  // filters know it by its class
  const worded = interruption ? undefined : await explained(layers, thrown, { input, context });
  if (method.changesThings && method.state !== 'not_called')
    return effectFailure(method, { error, interruption, worded }, call);
  const failure = interruption
    ? { ...interruptionFailure(interruption), retryable: interruption.kind === 'timeout' }
    : worded;
  const told = failure ? new CallFailure(failure, { cause: error }) : error;
  return method.changesThings ? notCalled(told) : told;
}

/** An exception that reached the caller of a method which was called. */
interface ThrownBehind {
  readonly error: unknown;
  readonly interruption: Interruption | undefined;
  /** The failure in the words of an exception filter. */
  readonly worded: ToolFailure | undefined;
}

/**
 * Returns the failure of a tool that changes things. Interceptors and filters can only word a
 * failure of the method; the effect depends on the method alone.
 */
function effectFailure(
  method: ToolMethod,
  { error, interruption, worded }: ThrownBehind,
  call: AuthorisedCall,
): CallFailure {
  const { tool, context } = method.invocation;
  if (method.state === 'threw') {
    const words = worded ?? (interruption ? undefined : wordsOf(error));
    return thrownFailure(discreet(method.thrown, call), words);
  }
  const cause = causeOf(error);
  if (!interruption)
    context.logger.warn(
      `An interceptor failed after ${tool.declaredId} was called (${context.toolCallId}).`,
      cause,
    );
  if (method.state === 'answered') return answerLost(error);
  const why = interruption?.message ?? 'An interceptor ended the call while the tool was running.';
  return unknownOutcomeOf(why, cause);
}

function unknownOutcomeOf(why: string, cause: unknown): CallFailure {
  const safeMessage = `${why} It is unknown whether its effect took place. Do not repeat the call; check first.`;
  return new CallFailure({ code: 'unknown_outcome', safeMessage }, { cause, method: 'in_flight' });
}

/**
 * The failure of a method that threw, as an interceptor or a filter words it, unless it says itself
 * that it cannot tell what it has done.
 */
function thrownFailure(error: unknown, words: ToolFailure | undefined): CallFailure {
  if (error instanceof ToolError && error.isOutcomeUnknown)
    return unknownOutcomeOf(error.safeMessage, error);
  const { correlationId, ...failure } = failureOf(error);
  const told = words
    ? { ...failure, safeMessage: words.safeMessage }
    : { ...failure, ...(correlationId !== undefined && { correlationId }) };
  return new CallFailure(told, { cause: causeOf(error), method: 'threw' });
}

/** Returns the failure that an interceptor threw on purpose for the model to read. */
function wordsOf(error: unknown): ToolFailure | undefined {
  const failure = failureOf(error);
  return failure.correlationId === undefined ? failure : undefined;
}
