import { Readable } from 'node:stream';
import { types } from 'node:util';
import { isObject, ToolError, type ToolFailure } from '@toolloop/protocol';
import {
  from,
  fromEvent,
  isObservable,
  lastValueFrom,
  map,
  type Observable,
  pairwise,
  startWith,
  takeUntil,
  tap,
} from 'rxjs';
import {
  AttachedResult,
  type Attachment,
  type RunContext,
  type ToolCallContext,
} from '../contracts/tool-call.js';
import {
  type InterceptorNote,
  type Tool,
  ToolInterceptor,
  type ToolInvocation,
  type ToolLayers,
} from '../contracts/tool.js';
import type { ToolExplorer } from '../discovery/tool-explorer.js';
import type { AskedQuestions } from './asked-values.js';
import {
  type CallContextFactory,
  type OnProgress,
  StreamedText,
  StreamedValues,
} from './call-context.js';
import {
  answerLost,
  CallFailure,
  causeOf,
  explained,
  failureOf,
  Interruption,
  interruptionFailure,
  type MethodState,
  notCalled,
  notBegun,
  untilAborted,
} from './call-failure.js';
import {
  type AuthorisedCall,
  CallPending,
  type InterceptorAnswer,
  type InvokedResult,
  type MethodAnswer,
} from './call.js';
import { discreet } from './credentials.js';
import { ConcurrencySlots, type FreeSlot } from './perform.js';
import { SubRunMethod } from './sub-run-call.js';

/** A call under way. */
interface RunningCall {
  readonly method: ToolMethod;
  /** Set where it is a run. */
  readonly inner: SubRunMethod | undefined;
  readonly call: AuthorisedCall;
  /** Filled while it runs, the innermost first. */
  readonly answers: InterceptorAnswer[];
}

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
    const onProgress = (value: unknown): void | Promise<void> => report.show(value, tool.output);
    const inner = tool.subRun && new SubRunMethod(tool.subRun, call);
    const method = new ToolMethod(inner?.performed ?? tool, { input: built, context }, (result) =>
      drain(result, onProgress, context.signal),
    );
    const running: RunningCall = { method, inner, call, answers: [] };
    try {
      if (tool.concurrency !== undefined)
        freeSlot = await this.slots.take(tool.spec.declaredId, tool.concurrency, context.signal);
      // Within the time limit: of a request-scoped provider the layers are made with it.
      const finding = layersOf(tool, scope.run, context.signal);
      layers = finding instanceof Promise ? await finding : finding;
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
    // it may have waited for its key, its turn or another attempt
    if (method.changesThings || made.scope.retry) this.contexts.assertNotStopped(made);
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

/** Only what takes its time is waited for under the signal. */
const inTime = <Result>(
  work: Result | Promise<Result>,
  signal: AbortSignal,
): Result | Promise<Result> => (work instanceof Promise ? untilAborted(work, signal) : work);

function layersOf(
  { layers }: Tool,
  run: RunContext,
  signal: AbortSignal,
): ReturnType<NonNullable<Tool['layers']>> {
  return inTime(layers?.(run), signal);
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

/**
 * A tool's method and what it is about to receive, inside all interceptors: it alone knows whether
 * the effect took place. It is called when the interceptors let it, in time, and where it changes
 * things once.
 */
export class ToolMethod {
  readonly invocation: ToolInvocation;
  private wasCalled = false;
  private isOver = false;
  private answered: MethodAnswer | undefined;
  private failed: { readonly error: unknown } | undefined;

  constructor(
    private readonly tool: Tool,
    { input, context }: { readonly input: unknown; readonly context: ToolCallContext },
    /** Reads a streaming result to its end. */
    private readonly drained: (result: unknown) => unknown,
  ) {
    this.invocation = { tool: tool.spec, input, context };
  }

  /**
   * A method that settles after its call was interrupted stays in flight: it may have been cut off
   * anywhere.
   */
  get state(): MethodState {
    if (this.answered) return 'answered';
    if (this.failed) return 'threw';
    return this.wasCalled ? 'in_flight' : 'not_called';
  }

  /**
   * The method's own result, before any interceptor saw it; undefined while it has not answered. An
   * interceptor may have answered in its place.
   */
  get answer(): MethodAnswer | undefined {
    return this.answered;
  }

  /** The method's own exception, independent of the interceptors. */
  get thrown(): unknown {
    return this.failed?.error;
  }

  get changesThings(): boolean {
    return this.tool.spec.effect !== 'read_only';
  }

  /**
   * From now on a method that changes things is not called any more: the outcome of its call is
   * about to be told.
   */
  close(): void {
    this.isOver = true;
  }

  call(): unknown {
    const { input, context } = this.invocation;
    if (context.signal.aborted) throw Interruption.from(context.signal);
    // no retry of an interceptor makes it answer
    if (this.thrown instanceof CallPending) throw this.thrown;
    if (this.changesThings) this.assertCallable();
    this.wasCalled = true;
    try {
      const result = this.drained(this.tool.invoke(input, context));
      return result instanceof Promise ? this.settled(result) : this.keep(result);
    } catch (error) {
      throw this.fail(error);
    }
  }

  private assertCallable(): void {
    const { declaredId } = this.tool.spec;
    if (this.wasCalled)
      throw new Error(
        `An interceptor called next() twice, but ${declaredId} changes things, so it is called only once.`,
      );
    if (this.isOver)
      throw new Error(
        `An interceptor called next() too late: the call of ${declaredId} is over, so it is not made.`,
      );
  }

  private settled(running: Promise<unknown>): Promise<unknown> {
    const { signal } = this.invocation.context;
    return running.then(
      (returned) => (signal.aborted ? returned : this.keep(returned)),
      (error: unknown) => {
        throw signal.aborted && !(error instanceof CallPending) ? error : this.fail(error);
      },
    );
  }

  /**
   * Interceptors see the plain value: they need not know of attachments, and none is lost in them.
   */
  private keep(returned: unknown): unknown {
    this.answered =
      returned instanceof AttachedResult
        ? {
            live: returned.value,
            attachments: returned.attachments,
            ...(returned.words !== undefined && { words: returned.words }),
          }
        : { live: returned, attachments: NONE };
    const { live } = this.answered;
    const failure = this.tool.failed?.(live);
    if (failure !== true && typeof failure !== 'string') return live;
    this.answered = undefined; // the method itself says that it has failed
    throw this.fail(
      new ToolError(typeof failure === 'string' ? failure : 'The tool says that it has failed.'),
    );
  }

  private fail(error: unknown): unknown {
    this.failed = { error };
    return error;
  }
}

const NONE: readonly Attachment[] = [];

/**
 * Reads a streaming result to its end: an Observable, an async iterable, a generator, or a stream
 * of Node or of the web. Returns the value that a generator returns, or else the last value, and
 * hands the others to `onProgress`; of a stream of text or bytes it returns the whole text. Any
 * other iterator, such as `rows.values().map(save)`, is a list that does its work once it is read,
 * and is read; promises in a list are awaited. Aborting ends the stream at its source, and a stream
 * that comes too late is not begun.
 *
 * @throws An error that is the result, and TypeError for a function, which has done nothing yet
 */
export function drain(result: unknown, onProgress: OnProgress, signal: AbortSignal): unknown {
  if (typeof result === 'function')
    throw new TypeError(
      'A tool returned a function, which nothing calls: call it, and return what it returns.',
    );
  if (result instanceof Error) throw result;
  if (isObservable(result)) return drainObservable(result, onProgress, signal);
  if (isAsyncIterable(result) || types.isGeneratorObject(result))
    return drainIterable(result, onProgress, signal);
  if (isThenable(result))
    return Promise.resolve(result).then((value) => drain(value, onProgress, signal));
  const list = isIterator(result) ? firstOf(result) : result;
  return Array.isArray(list) && list.some(isThenable) ? Promise.all(list) : list;
}

async function drainObservable(
  source: Observable<unknown>,
  onProgress: OnProgress,
  signal: AbortSignal,
): Promise<unknown> {
  if (signal.aborted) throw Interruption.from(signal);
  const values = from(source).pipe(
    takeUntil(fromEvent(signal, 'abort')),
    map((value) => ({ value })),
    startWith(undefined),
    pairwise(),
    tap(([before]) => before && void onProgress(before.value)),
    map(([, last]) => last?.value),
  );
  return drain(await lastValueFrom(values, { defaultValue: undefined }), onProgress, signal);
}

async function drainIterable(
  source: AsyncIterable<unknown> | Generator,
  onProgress: OnProgress,
  signal: AbortSignal,
): Promise<unknown> {
  if (signal.aborted) throw Interruption.from(signal);
  // Object mode tells nothing of a stream of Node: `Readable.from` sets it for texts, too.
  const mayBeText = source instanceof ReadableStream || source instanceof Readable;
  const streamed = mayBeText ? new StreamedText(onProgress) : new StreamedValues(onProgress);
  for await (const value of opened(source, signal)) {
    if (signal.aborted || streamed.isFull) break;
    await streamed.take(value);
  }
  return drain(streamed.result, onProgress, signal);
}

/**
 * Yields the values of a source, and at last the one that it returns, if any: a generator's result.
 * Aborting closes the source.
 */
async function* opened(
  source: AsyncIterable<unknown> | Generator,
  signal: AbortSignal,
): AsyncGenerator {
  const iterator = types.isGeneratorObject(source) ? source : source[Symbol.asyncIterator]();
  signal.addEventListener('abort', () => void closeIterator(iterator), { once: true });
  const returned: unknown = yield* Symbol.iterator in iterator
    ? iterator
    : { [Symbol.asyncIterator]: () => iterator };
  if (returned !== undefined) yield returned;
}

/** Told at once, even while a value is awaited; what the source makes of it is its own business. */
async function closeIterator(iterator: { return?(value: undefined): unknown }): Promise<void> {
  try {
    await iterator.return?.(undefined);
  } catch {
    // the call has its outcome already
  }
}

/**
 * More than a result may hold, so that an iterator without an end is refused and not read for ever.
 */
const MOST_ITEMS = 100_001;

function firstOf(iterator: IterableIterator<unknown>): readonly unknown[] {
  const items: unknown[] = [];
  for (const item of iterator) if (items.push(item) === MOST_ITEMS) break;
  return items;
}

function isIterator(value: unknown): value is IterableIterator<unknown> {
  return (
    isObject(value) &&
    Symbol.iterator in value &&
    'next' in value &&
    typeof value['next'] === 'function'
  );
}

function isAsyncIterable(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === 'object' && value !== null && Symbol.asyncIterator in value;
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return (
    typeof value === 'object' &&
    value !== null &&
    'then' in value &&
    typeof value.then === 'function'
  );
}
