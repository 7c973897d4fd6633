import { Logger } from '@nestjs/common';
import type { Toolset } from '../catalog/toolset.js';
import type { ExecutionScope } from '../execution/execution.scope.js';
import { untilAborted } from '../execution/interruption.js';
import { RunEntityHandles } from '../injection/entity.handles.js';
import type { LoopEventBody } from '../protocol/loop-event.js';
import type { LoopHooks } from '../protocol/loop-request.js';
import type { Message } from '../protocol/message.js';
import { CallCounter } from './call.counter.js';
import { CallIds } from './call.ids.js';
import type { RunInputs } from './run.inputs.js';
import type { RunPlan } from './run.plan.js';
import { ToolsetNarrowing } from './toolset.narrowing.js';

/** What a hook is called with, by its name. */
type HookCall = (hooks: LoopHooks) => void | Promise<void>;

/** What a run begins with, beside its plan. */
export interface RunStart {
  readonly instructions: string | undefined;
  readonly history: readonly Message[];
  /** Filled by `RunHandle.addInput` while the run goes on. */
  readonly inputs: RunInputs;
}

/** Everything of a run that changes beside its `LoopState`. One per run, so that two runs never meet. */
export class LiveRun {
  readonly handles = new RunEntityHandles();
  readonly narrowing = new ToolsetNarrowing();
  readonly counter: CallCounter;
  readonly callIds: CallIds;
  private readonly logger = new Logger(LiveRun.name);

  constructor(
    readonly plan: RunPlan,
    readonly start: RunStart,
    readonly signal: AbortSignal,
    readonly emit: (event: LoopEventBody) => void | Promise<void>,
  ) {
    const { limits } = plan.execution;
    this.counter = new CallCounter(limits);
    this.callIds = new CallIds(start.history, limits.toolCallIdLength);
  }

  scope(toolset: Toolset): ExecutionScope {
    return { ...this.plan.execution, retry: this.plan.options.onToolError === 'retry', toolset, signal: this.signal, emit: this.emit };
  }

  /** What the user adds while the run goes on. */
  get inputs(): RunInputs {
    return this.start.inputs;
  }

  /** A hook observes: what it throws is logged, and nothing else. The run waits for it, but not longer than it lives. */
  async notify(call: HookCall): Promise<void> {
    const { hooks } = this.plan.options;
    if (!hooks) return;
    try {
      await untilAborted(Promise.resolve(call(hooks)), this.signal);
    } catch (error) {
      if (this.signal.aborted) return;
      this.logger.warn(`A hook of run ${this.plan.execution.run.runId} failed.`, error);
    }
  }
}
