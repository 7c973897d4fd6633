import type { ToolFailure } from '@toolloop/protocol';
import type { SubRun } from '../../contracts/loop-request.js';
import type { ToolCallContext } from '../../contracts/tool-call.js';
import type { Tool } from '../../contracts/tool.js';
import {
  answerLost,
  CallFailure,
  interruptionFailure,
  type MethodState,
} from '../../call/call-failure.js';
import { Interruption } from '../../contracts/interruption.js';
import { advance, type ReadCall } from '../../call/call.js';
import { CallPending } from '../../call/outcome.js';
import { discreet } from '../connections/discreet.js';
import { subRunMs } from '../../call/call-limits.js';
import { hasChangedThings } from './changed-records.js';

/** A sub-run in the place of its tool's method. */
export class SubRunMethod {
  /** Set where the sub-run waits. */
  private pending: CallPending | undefined;
  private running: Promise<unknown> = Promise.resolve();

  constructor(
    private readonly subRun: SubRun,
    private readonly call: ReadCall,
  ) {}

  /** The tool, performed by the run. */
  get performed(): Tool {
    return {
      ...this.call.tool,
      invoke: (input, context) => (this.running = this.perform(input, context)),
    };
  }

  /** Throws the signal of a sub-run that waits, whatever an interceptor has made of it. */
  assertEnded(): void {
    if (this.pending) throw this.pending;
  }

  /**
   * Returns the error of the call, once the sub-run has ended by itself and reported: it is
   * interrupted with the call, and not left behind. If it has changed things, interceptors cannot
   * replace the error.
   */
  async thrown(thrown: unknown, method: CalledMethod): Promise<unknown> {
    await this.running.catch(() => undefined);
    const { signal } = method.invocation.context;
    const error = discreet(thrown, this.call);
    if (signal.aborted)
      return new CallFailure(this.interrupted(Interruption.from(signal)), { cause: error });
    if (this.pending) return this.pending;
    if (!hasChangedThings(this.call.subRun?.toolCalls ?? [])) return error;
    return method.state === 'threw' ? discreet(method.thrown, this.call) : answerLost(error);
  }

  /** Its records tell whether anything was changed. */
  private interrupted(interruption: Interruption): ToolFailure {
    if (!hasChangedThings(this.call.subRun?.toolCalls ?? []))
      return interruptionFailure(interruption);
    return {
      code: 'unknown_outcome',
      safeMessage: `${interruption.message} The sub-run had changed things by then. Do not repeat it; check first.`,
    };
  }

  private async perform(input: unknown, { signal }: ToolCallContext): Promise<unknown> {
    const { request, scope, tool, input: read, limits } = this.call;
    if (!scope.subRuns)
      throw CallFailure.of(
        'budget_exceeded',
        'No sub-run can be made here: they are nested as deep as they may be.',
      );
    const prompt: unknown = this.subRun.prompt(input);
    if (typeof prompt !== 'string' || prompt.trim() === '')
      throw CallFailure.of('invalid_args', 'The prompt is empty: say what is to be done.');
    const call = {
      subRun: this.subRun,
      tool: tool.spec,
      prompt,
      args: read.args,
      request,
      scope,
      ms: subRunMs(limits),
      signal,
    };
    const ending = await scope.subRuns.run(call);
    advance(this.call, { subRun: ending.record });
    if (ending.status === 'waiting')
      throw (this.pending = new CallPending(
        ending.waitingFor,
        ending.checkpoint,
        ending.unavailable,
      ));
    advance(this.call, { labels: ending.labels });
    if (ending.status === 'failed') throw new CallFailure(ending.failure);
    return ending.result;
  }
}

/** The method of a tool, as far as it has come. */
interface CalledMethod {
  readonly invocation: { readonly context: ToolCallContext };
  readonly state: MethodState;
  readonly thrown: unknown;
}
