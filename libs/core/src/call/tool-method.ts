import { Readable } from 'node:stream';
import { types } from 'node:util';
import { ToolError, isObject } from '@toolloop/protocol';
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
import { AttachedResult, type Attachment } from '../contracts/attachment.js';
import type { ToolCallContext } from '../contracts/tool-call.js';
import { isThenable } from '../contracts/thenable.js';
import type { ToolInvocation } from '../contracts/tool-invocation.js';
import type { Tool } from '../contracts/tool.js';
import type { MethodState } from './call-failure.js';
import { Interruption } from '../contracts/interruption.js';
import { CallPending, type MethodAnswer } from './outcome.js';
import type { OnProgress } from './progress-report.js';
import { StreamedText, StreamedValues } from './streamed-values.js';

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

export const NONE: readonly Attachment[] = [];

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
