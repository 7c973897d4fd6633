import { Injectable } from '@nestjs/common';
import { ToolExplorer } from '../discovery/tool.explorer.js';
import { AttachedResult, withoutAttachments } from '../protocol/attachment.js';
import { ToolInterceptor } from '../protocol/tool-interceptor.js';
import type { ToolLayers } from '../protocol/tool-layers.js';
import type { ToolFailure } from '../protocol/tool-error.js';
import type { Tool } from '../protocol/tool.js';
import { CallContextFactory } from './call.context.factory.js';
import { discreet } from './call.credentials.js';
import {
  answerLost,
  CallFailure,
  causeOf,
  failureOf,
  interruptionFailure,
  notCalled,
  refuseWhenAborted,
  type MethodState,
} from './call.failure.js';
import { ConcurrencySlots, type FreeSlot } from './concurrency.slots.js';
import type { CallProgress } from './execution.scope.js';
import { explained } from './explained.error.js';
import { Interruption, untilAborted } from './interruption.js';
import { drain } from './result.drain.js';
import { SubRunMethod } from './sub-run.method.js';
import { ToolCallStorage } from './tool-call.storage.js';
import { ToolMethod, type MethodAnswer } from './tool.method.js';

/** A result, before and after the interceptors. */
export interface InvokedResult extends MethodAnswer {
  /** What the interceptors made of it. */
  readonly result: unknown;
  /** `not_called` where an interceptor answered in the method's place. */
  readonly method: MethodState;
}

/** A call that goes on. */
interface RunningCall {
  readonly method: ToolMethod;
  /** Set where it is a run. */
  readonly inner: SubRunMethod | undefined;
  readonly progress: CallProgress;
}

/** Stages 6 and 7: a concurrency slot, interceptors, time budget and cancellation round the tool's method, which runs inside AsyncLocalStorage. */
@Injectable()
export class ToolInvoker {
  private readonly slots = new ConcurrencySlots();
  private found: readonly ToolInterceptor[] | undefined;

  constructor(
    private readonly explorer: ToolExplorer,
    private readonly storage: ToolCallStorage,
    private readonly contexts: CallContextFactory,
  ) {}

  /**
   * Calls the method of a tool once.
   *
   * @throws what a tool that reads threw, or `timeout` or `aborted` where it was interrupted. Of a tool that changes things a `CallFailure` that says how far its
   * method had come: `unknown_outcome` where it was in flight, `invalid_output` where it had answered.
   */
  async invoke(tool: Tool, built: unknown, progress: CallProgress): Promise<InvokedResult> {
    refuseWhenAborted(progress.scope.signal);
    const { context, report, close } = this.contexts.open(tool, progress);
    let layers: ToolLayers | undefined;
    let freeSlot: FreeSlot | undefined;
    const onProgress = (value: unknown): void | Promise<void> => report.show(value, tool.output);
    const inner = tool.subRun && new SubRunMethod(tool, tool.subRun, progress);
    const method = new ToolMethod(inner?.performed ?? tool, { input: built, context }, (result) =>
      drain(result, onProgress, context.signal),
    );
    const call: RunningCall = { method, inner, progress };
    try {
      if (tool.concurrency !== undefined) freeSlot = await this.slots.take(tool.spec.declaredId, tool.concurrency, context.signal);
      // Within the time limit: of a request-scoped provider the layers are made with it.
      layers = tool.layers && (await untilAborted(Promise.resolve(tool.layers(progress.scope.run)), context.signal));
      const running = this.storage.run(context, () => drain(this.intercepted(method, layers), onProgress, context.signal));
      const result: unknown = running instanceof Promise ? await untilAborted(running, context.signal) : running;
      method.close();
      inner?.assertEnded();
      assertSettled(method);
      return toInvoked(result, method);
    } catch (thrown) {
      method.close();
      throw await toFailure(thrown, layers, call);
    } finally {
      close();
      freeSlot?.();
    }
  }

  /** `ToolInterceptor`s, then Nest's, then the method. */
  private intercepted(method: ToolMethod, layers: ToolLayers | undefined): unknown {
    this.found ??= this.explorer.instancesOf(ToolInterceptor);
    if (this.found.length === 0 && !layers) return method.call();
    const { invocation } = method;
    const call = (): Promise<unknown> => Promise.resolve().then(() => method.call());
    const innermost = layers ? (): Promise<unknown> => layers.around(invocation.input, invocation.context, call) : call;
    return this.found.reduceRight<() => Promise<unknown>>(
      (next, interceptor) => () => interceptor.intercept(invocation, next),
      innermost,
    )();
  }
}

/** An interceptor's answer cannot stand for an effect that is still under way, or that failed. */
function assertSettled(method: ToolMethod): void {
  if (!method.changesThings) return;
  if (method.state === 'in_flight') throw new Error('An interceptor answered while the method was still running.');
  if (method.state === 'threw') throw method.thrown;
}

/** What the method returned is the live result, so that no serializer hides an entity; attachments of an interceptor replace the method's. */
function toInvoked(returned: unknown, { answer, state }: ToolMethod): InvokedResult {
  const result = withoutAttachments(returned);
  const attachments = returned instanceof AttachedResult ? returned.attachments : (answer?.attachments ?? []);
  return { live: answer ? answer.live : result, result, attachments, method: state };
}

/** What is thrown for what a call threw. Of a tool that changes things it depends on the state of its method alone. */
async function toFailure(thrown: unknown, layers: ToolLayers | undefined, { method, inner, progress }: RunningCall): Promise<unknown> {
  const { input, context } = method.invocation;
  if (inner) return inner.thrown(thrown, method);
  const error = discreet(thrown, progress);
  const interruption = context.signal.aborted ? Interruption.from(context.signal) : undefined;
  const worded = interruption ? undefined : await explained(layers, thrown, { input, context }); // filters know it by its class
  if (method.changesThings && method.state !== 'not_called') return effectFailure(method, { error, interruption, worded }, progress);
  const failure = interruption ? { ...interruptionFailure(interruption), retryable: interruption.kind === 'timeout' } : worded;
  const told = failure ? new CallFailure(failure, { cause: error }) : error;
  return method.changesThings ? notCalled(told) : told;
}

/** What was thrown to the caller of a method that was called. */
interface ThrownBehind {
  readonly error: unknown;
  readonly interruption: Interruption | undefined;
  /** By an exception filter. */
  readonly worded: ToolFailure | undefined;
}

/** Of an effect only the method itself has a word: what interceptors and filters throw can put a failure of the method into words, and no more. */
function effectFailure(method: ToolMethod, { error, interruption, worded }: ThrownBehind, progress: CallProgress): CallFailure {
  const { tool, context } = method.invocation;
  if (method.state === 'threw') {
    const words = worded ?? (interruption ? undefined : wordsOf(error));
    return failureInWords(discreet(method.thrown, progress), words);
  }
  const cause = causeOf(error);
  if (!interruption) context.logger.warn(`An interceptor failed after ${tool.declaredId} was called (${context.toolCallId}).`, cause);
  if (method.state === 'answered') return answerLost(error);
  const why = interruption?.message ?? 'An interceptor ended the call while the tool was running.';
  const safeMessage = `${why} It is unknown whether its effect took place. Do not repeat the call; check first.`;
  return new CallFailure({ code: 'unknown_outcome', safeMessage }, { cause, method: 'in_flight' });
}

/** The failure of a method, as somebody else words it. */
function failureInWords(error: unknown, words: ToolFailure | undefined): CallFailure {
  const { correlationId, ...failure } = failureOf(error);
  const told = words
    ? { ...failure, safeMessage: words.safeMessage }
    : { ...failure, ...(correlationId !== undefined && { correlationId }) };
  return new CallFailure(told, { cause: causeOf(error), method: 'threw' });
}

/** What an interceptor threw on purpose for the model to read. */
function wordsOf(error: unknown): ToolFailure | undefined {
  const failure = failureOf(error);
  return failure.correlationId === undefined ? failure : undefined;
}
