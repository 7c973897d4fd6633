import { type LoopEventBody, type Message, RunError, type ToolCall } from '@toolloop/protocol';
import type { Told } from '../../call/emit-event.js';
import { Interruption, type LinkedSignal, linkSignal } from '../../contracts/interruption.js';
import { strictlyListed } from '../../call/resolve-tool.js';
import { asRun } from '../../call/store-calls.js';
import { Toolset } from '../../catalog/toolset.js';
import type { SessionCallOptions } from '../../contracts/session.js';
import { Logger } from '../../findings/logger.js';
import {
  assistantMessage,
  callState,
  type LoopState,
  type PendingStep,
  waitingForIn,
} from '../../loop/loop-state.js';
import { abandonStep } from '../../loop/tool-message.js';
import { EventOutlet } from '../../run/event-outlet.js';
import { FinishedRun } from '../../run/finished-run.js';
import { LiveRun } from '../../run/live-run.js';
import type { RunParts } from '../../run/loop-run.js';
import { finishFor, isUnavailable } from '../../run/run-fault.js';
import { RunInputs } from '../../run/run-inputs.js';
import { identityOf, type RunPlan, startEvent } from '../../run/run-plan.js';
import { processStateOf, savedRun } from '../../run/saved-run.js';
import { accountRead } from './account-read.js';
import { CalledTool } from './called-tool.js';

/**
 * A run of one call until it ends or waits: a step of the loop without a model before it. What
 * waits is resumed as a run like any other.
 */
export class CallRun {
  private readonly signal: AbortSignal;
  private readonly link: LinkedSignal;
  private readonly outlet: EventOutlet | undefined;
  /** The ids of the tools that the result brought. */
  private readonly injected: string[] = [];

  /**
   * @param within aborts the call with its session, which ends what it makes; absent for a call
   *   without a session
   * @param onProgress is told what the tool says of its progress
   */
  constructor(
    private readonly plan: RunPlan,
    private readonly services: RunParts,
    private readonly within?: AbortSignal,
    private readonly onProgress?: SessionCallOptions['onProgress'],
  ) {
    const { runMs: ms } = plan.execution.limits;
    this.link = linkSignal(plan.options.signal, {
      ms,
      message: `The call took longer than ${ms} ms.`,
    });
    if (within?.aborted) this.follow();
    this.signal = this.link.signal;
    const onFailure = (cause: unknown): false => {
      this.link.abort(new Interruption('failed', 'A critical sink failed.', { cause }));
      return false;
    };
    this.outlet =
      services.sinks.length > 0
        ? new EventOutlet(identityOf(plan), services.sinks, onFailure)
        : undefined;
  }

  /**
   * Makes the call.
   *
   * @throws {RunError} For a call that was aborted, or that a store or a part of the application
   *   has kept from being made.
   */
  make(call: ToolCall): Promise<CalledTool> {
    return this.attend(asRun(this.signal, () => this.step(call)));
  }

  /**
   * Has the call end with its session or the application, and lets go of its time limit once it is
   * over.
   */
  private attend(called: Promise<CalledTool>): Promise<CalledTool> {
    if (!this.within) this.services.open.add(this, called);
    else this.within.addEventListener('abort', this.follow, { once: true });
    return called.finally(() => {
      this.link.release();
      this.within?.removeEventListener('abort', this.follow);
    });
  }

  cancel(reason: string): void {
    this.link.abort(new Interruption('aborted', reason));
  }

  private readonly follow = (): void => {
    if (this.within) this.link.abort(Interruption.from(this.within));
  };

  private async step(call: ToolCall): Promise<CalledTool> {
    const { plan, services, signal } = this;
    const { loop, subRuns, plugins } = services;
    const toolset = plan.strictListing && !plan.session ? await this.listed() : plan.toolset;
    const failure = await accountRead(plan, toolset);
    const first = callState(toolset, call, plan.account?.labels);
    if (this.outlet) await this.tellStart(this.outlet, first.state);
    const live = new LiveRun(plan, { ...START, subRuns, plugins }, signal, (event) =>
      this.emit(event),
    );
    const history = (): readonly Message[] => [assistantMessage(first.answer)];
    const context = { step: 1, toolset, offered: toolset, history, live, session: plan.session };
    const made = failure ? Promise.reject(failure.cause) : loop.callOnce(call, context);
    const state = await loop
      .stateAfter(first.state, first, made, { live })
      .catch((error: unknown) => this.failed(first.state, error));
    loop.leave(plan.execution.run.runId);
    const ended = await this.endStep(state, first, live);
    return this.end(signal.aborted ? this.failed(ended, Interruption.from(signal)) : ended, live);
  }

  /** Tells that the call is over. A plugin that fails at that takes nothing back. */
  private async endStep(
    state: LoopState,
    step: ReturnType<typeof callState>,
    live: LiveRun,
  ): Promise<LoopState> {
    if (state.pending || !(this.outlet || live.plugins.hooks.stepped)) return state;
    const finish = await this.services.loop.endStep(state, step, live);
    return finish && !finish.error && !state.finish ? { ...state, finish } : state;
  }

  private failed(state: LoopState, error: unknown): LoopState {
    return {
      ...state,
      finish: finishFor(error, 'internal', { runId: this.plan.execution.run.runId, logger }),
    };
  }

  private emit(event: LoopEventBody): Told {
    if (event.type === 'tools-injected') this.injected.push(...event.tools);
    if (event.type === 'tool-progress') this.onProgress?.(event.value);
    return this.outlet?.emit(event);
  }

  /**
   * The tools that the call may name. A call that is aborted before their hooks have answered has
   * none.
   */
  private listed(): Promise<Toolset> {
    const { toolset, execution } = this.plan;
    return strictlyListed(toolset, { ...execution, signal: this.signal }).catch(() =>
      Toolset.of([]),
    );
  }

  private async tellStart(outlet: EventOutlet, { step, toolset }: LoopState): Promise<void> {
    await outlet.emit(startEvent(this.plan, toolset));
    await outlet.emit({ type: 'step-start', step, tools: toolset.specs.length });
  }

  /** The state of a call that was not made: it waits in the log, or was given up. */
  private async paused(state: LoopState, pending: PendingStep, live: LiveRun): Promise<LoopState> {
    if (state.finish?.reason !== 'waiting' && !isUnavailable(state))
      return abandonStep(state, pending, []);
    const { requestId } = this.plan.execution;
    // The run-end follows, and is the last event of this part of the run.
    const saved = savedRun(state, pending, live, {
      requestId,
      past: 0,
      sequence: this.outlet ? this.outlet.lastSequence + 1 : 0,
    });
    try {
      await this.services.suspended.suspend(
        { ...identityOf(this.plan), ...waitingForIn(state) },
        saved,
        processStateOf(state, pending, live),
      );
      return isUnavailable(state) ? abandonStep(state, pending, []) : state;
    } catch (error) {
      const cause =
        error instanceof Interruption
          ? error
          : new Error('The waiting call could not be stored.', { cause: error });
      return this.failed(abandonStep(state, pending, []), cause);
    }
  }

  /** Tells and keeps the end of a call; one that has its result needs neither without sinks. */
  private async end(last: LoopState, live: LiveRun): Promise<CalledTool> {
    const { run } = this.plan.execution;
    if (isOver(last) && !this.outlet) return CalledTool.from(run.runId, last, this.injected);
    const paused = last.pending ? await this.paused(last, last.pending, live) : last;
    const state: LoopState = paused.finish ? paused : { ...paused, finish: { reason: 'stop' } };
    const result = new FinishedRun(run.runId, state);
    if (this.outlet) await this.outlet.emit(result.end);
    const { finishReason } = result;
    if (finishReason === 'error' || finishReason === 'aborted') {
      if (!isUnavailable(state)) await this.services.suspended.withdrawPending(run);
      throw new RunError(result, { cause: state.finish?.cause });
    }
    return CalledTool.from(run.runId, state, this.injected);
  }
}

const logger = new Logger('CallRun');

/** The beginning of every call: there are no messages before it, and none come meanwhile. */
const START = { instructions: undefined, history: [], inputs: new RunInputs() };

/** Returns whether a call has its result, and nothing more is to be done. */
function isOver({ pending, finish }: LoopState): boolean {
  return !pending && !finish?.error && finish?.reason !== 'aborted';
}
