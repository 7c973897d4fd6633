import { Injectable } from '@nestjs/common';
import { ToolExplorer } from '../discovery/tool.explorer.js';
import { AttachedResult, withoutAttachments } from '../protocol/attachment.js';
import { ToolInterceptor } from '../protocol/tool-interceptor.js';
import type { ToolLayers } from '../protocol/tool-layers.js';
import type { Tool } from '../protocol/tool.js';
import { CallContextFactory } from './call.context.factory.js';
import { discreet } from './call.credentials.js';
import { CallFailure, interruptionFailure, refuseWhenAborted } from './call.failure.js';
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
   * Throws what the tool threw; `timeout` or `aborted` where it was interrupted, and `unknown_outcome` where the interrupted tool changes things.
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
      inner?.assertEnded();
      return toInvoked(result, method);
    } catch (thrown) {
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

/** What the method returned is the live result, so that no serializer hides an entity; attachments of an interceptor replace the method's. */
function toInvoked(returned: unknown, { answer }: ToolMethod): InvokedResult {
  const result = withoutAttachments(returned);
  const attachments = returned instanceof AttachedResult ? returned.attachments : (answer?.attachments ?? []);
  return { live: answer ? answer.live : result, result, attachments };
}

/** What is thrown for what a call threw. */
async function toFailure(thrown: unknown, layers: ToolLayers | undefined, { method, inner, progress }: RunningCall): Promise<unknown> {
  const { input, context } = method.invocation;
  if (inner) return inner.thrown(thrown, context.signal);
  const error = discreet(thrown, progress);
  if (context.signal.aborted) return interrupted(method, Interruption.from(context.signal), error);
  const failure = await explained(layers, thrown, { input, context }); // filters know it by its class
  return failure ? new CallFailure(failure, { cause: error }) : error;
}

/** A tool that changes things may have changed them before it was interrupted. */
function interrupted(method: ToolMethod, interruption: Interruption, cause: unknown): CallFailure {
  if (method.mayHaveChangedThings) {
    const safeMessage = `${interruption.message} It is unknown whether its effect took place. Do not repeat the call; check first.`;
    return new CallFailure({ code: 'unknown_outcome', safeMessage }, { cause });
  }
  const failure = interruptionFailure(interruption);
  return new CallFailure({ ...failure, retryable: failure.code === 'timeout' }, { cause });
}
