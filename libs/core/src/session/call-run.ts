import { Logger } from '@nestjs/common';
import { RunError, type ToolCall } from '@toolloop/protocol';
import { Toolset } from '../catalog/toolset.js';
import { Interruption, type LinkedSignal, linkSignal } from '../execution/call-failure.js';
import { strictlyListed } from '../execution/resolve-tool.js';
import { asRun } from '../execution/store-calls.js';
import { EventOutlet, RunInputs } from '../loop/event-outlet.js';
import { LiveRun } from '../loop/live-run.js';
import { type RunParts, startEvent } from '../loop/loop-run.js';
import { callState, finishFor, FinishedRun, isUnavailable, type LoopState, type PendingStep } from '../loop/loop-state.js';
import { identityOf, type RunPlan } from '../loop/run-plan.js';
import { processStateOf, savedRun } from '../loop/saved-run.js';
import { abandonStep } from '../loop/tool-step.js';

const logger = new Logger('CallRun');

/** A run of one call until it ends or waits: a step of the loop without a model before it. What waits is resumed as a run like any other. */
export class CallRun {
  private readonly link: LinkedSignal;
  private readonly outlet: EventOutlet | undefined;

  constructor(
    private readonly plan: RunPlan,
    private readonly services: RunParts,
  ) {
    const { runMs: ms } = plan.execution.limits;
    this.link = linkSignal(plan.options.signal, { ms, message: `The call took longer than ${ms} ms.` });
    const onFailure = (cause: unknown): void => this.link.abort(new Interruption('failed', 'A critical sink failed.', { cause }));
    this.outlet = services.sinks.length > 0 ? new EventOutlet(identityOf(plan), services.sinks, onFailure) : undefined;
  }

  /**
   * Makes the call.
   *
   * @throws {RunError} For a call that was aborted, or that a store or a part of the application has kept from being made.
   */
  async make(call: ToolCall): Promise<FinishedRun<unknown>> {
    const made = asRun(this.link.signal, () => this.made(call));
    this.services.open.add(this, made);
    try {
      return await made;
    } finally {
      this.link.release();
    }
  }

  cancel(reason: string): void {
    this.link.abort(new Interruption('aborted', reason));
  }

  private async made(call: ToolCall): Promise<FinishedRun<unknown>> {
    const { plan, link, outlet } = this;
    const first = callState(plan.strictListing ? await this.listed() : plan.toolset, call);
    if (outlet) await this.tellStart(outlet, first);
    const start = { instructions: undefined, history: [], inputs: new RunInputs(), subRuns: this.services.subRuns };
    const live = new LiveRun(plan, start, link.signal, (event) => outlet?.emit(event));
    const last = await this.services.loop.resume(first, first.pending, live);
    return this.end(last.pending ? await this.paused(last, last.pending, live) : last);
  }

  /** The tools that the call may name. A call that is aborted before their hooks have answered has none. */
  private listed(): Promise<Toolset> {
    const { toolset, execution } = this.plan;
    return strictlyListed(toolset, { ...execution, signal: this.link.signal }).catch(() => Toolset.of([]));
  }

  private async tellStart(outlet: EventOutlet, { step, toolset }: LoopState): Promise<void> {
    await outlet.emit(startEvent(this.plan, toolset));
    await outlet.emit({ type: 'step-start', step, tools: toolset.specs.length });
  }

  /** The state of a call that was not made: it waits in the log, or was given up. */
  private async paused(state: LoopState, pending: PendingStep, live: LiveRun): Promise<LoopState> {
    if (state.finish?.reason !== 'waiting' && !isUnavailable(state)) return abandonStep(state, pending, []);
    const { run, requestId } = this.plan.execution;
    const { runId } = run;
    // The run-end follows, and is the last event of this part of the run.
    const saved = savedRun(state, pending, live, { requestId, past: 0, sequence: this.outlet ? this.outlet.lastSequence + 1 : 0 });
    try {
      await this.services.suspended.suspend(identityOf(this.plan), saved, processStateOf(state, pending, live));
      return isUnavailable(state) ? abandonStep(state, pending, []) : state;
    } catch (error) {
      const cause = error instanceof Interruption ? error : new Error('The waiting call could not be stored.', { cause: error });
      return { ...abandonStep(state, pending, []), finish: finishFor(cause, 'internal', { runId, logger }) };
    }
  }

  private async end(state: LoopState): Promise<FinishedRun<unknown>> {
    const { run } = this.plan.execution;
    const result = new FinishedRun(run.runId, state);
    if (this.outlet) await this.outlet.emit(result.end);
    const { finishReason } = result;
    if (finishReason === 'error' || finishReason === 'aborted') {
      if (!isUnavailable(state)) await this.services.suspended.withdrawApprovals(run);
      throw new RunError(result, { cause: state.finish?.cause });
    }
    return result;
  }
}
