import { Logger } from '@nestjs/common';
import type { Toolset } from '../catalog/toolset.js';
import type { ExecutionScope } from '../execution/execution.scope.js';
import { untilAborted } from '../execution/interruption.js';
import { RESULT_READER } from '../execution/result-reader.js';
import type { ResultPages } from '../execution/result.pages.js';
import { RunApprovals } from '../execution/run.approvals.js';
import { RunEntityHandles } from '../injection/entity.handles.js';
import { RunInstances } from '../injection/run.instances.js';
import { MessageFlow } from '../policy/message.flow.js';
import { SpendingLedger } from '../policy/spending.ledger.js';
import type { LoopEventBody } from '../protocol/loop-event.js';
import type { LoopHooks } from '../protocol/loop-request.js';
import type { Message } from '../protocol/message.js';
import type { Usage } from '../protocol/usage.js';
import { CallCounter } from './call.counter.js';
import { CallIds } from './call.ids.js';
import { assistantMessage } from './assistant-message.js';
import { pagesFor, withReader, type RunTools } from './result-offer.js';
import type { SavedRun } from './from-suspended-run.js';
import type { RunInputs } from './run.inputs.js';
import type { RunPlan } from './run.plan.js';
import { SentTools } from './sent.tools.js';
import type { ResumedRun } from './suspended.runs.js';
import { ToolsetNarrowing } from './toolset.narrowing.js';

/** What a hook is called with, by its name. */
type HookCall = (hooks: LoopHooks) => void | Promise<void>;

/** What a run begins with, beside its plan. */
export interface RunStart {
  readonly instructions: string | undefined;
  readonly history: readonly Message[];
  /** Filled by `RunHandle.addInput` while the run goes on. */
  readonly inputs: RunInputs;
  /** Set where the run goes on after it waited. */
  readonly resumed?: ResumedRun;
}

/** Everything of a run that changes beside its `LoopState`. One per run, so that two runs never meet. */
export class LiveRun {
  readonly handles: RunEntityHandles;
  readonly instances: RunInstances;
  readonly sentTools: SentTools;
  readonly narrowing = new ToolsetNarrowing();
  readonly counter: CallCounter;
  readonly callIds: CallIds;
  readonly approvals: RunApprovals;
  readonly pages: ResultPages | undefined;
  readonly spending: SpendingLedger;
  private flow = MessageFlow.of([]);
  private readonly logger = new Logger(LiveRun.name);

  constructor(
    readonly plan: RunPlan,
    readonly start: RunStart,
    readonly signal: AbortSignal,
    readonly emit: (event: LoopEventBody) => void | Promise<void>,
  ) {
    const { limits } = plan.execution;
    const saved: Partial<SavedRun> = start.resumed?.saved ?? {};
    this.handles = new RunEntityHandles(saved.handles);
    this.instances = new RunInstances(saved.instances);
    this.sentTools = new SentTools(saved.sentTools);
    this.counter = new CallCounter(limits, saved.counts);
    const asked = saved.pending ? [assistantMessage(saved.pending.answer)] : [];
    this.callIds = new CallIds([...start.history, ...asked], limits.toolCallIdLength);
    this.approvals = new RunApprovals(plan.options.approvals ?? 'suspend', saved.approvals);
    this.spending = new SpendingLedger(saved.spent);
    this.pages = pagesFor(plan, start.history, start.resumed);
    if (saved.state) Object.assign(this.spending, spentIn(saved.state.usage));
  }

  /** Counts what the run has used until now in its own ledger, and what is new of it in its tenant's quotas. */
  async spend(usage: Usage): Promise<void> {
    const { tokens, usd } = spentIn(usage);
    const added = { tokens: tokens - this.spending.tokens, ...(usage.costUsd !== undefined && { usd: usd - this.spending.usd }) };
    Object.assign(this.spending, { tokens, usd });
    await this.plan.quotas?.charge(added, this.signal);
  }

  /** Notes what a model is shown beside the transcript: what it has read it has read, whatever the transcript says. */
  show(messages: readonly Message[]): void {
    this.flow = this.flow.beside(messages);
  }

  /** Where a call is executed whose model had read these messages. */
  scope(toolset: Toolset, read: readonly Message[]): ExecutionScope {
    const { plan, approvals, spending, pages, signal, emit } = this;
    this.flow = this.flow.at(read);
    const own = { toolset, flow: this.flow, approvals, spending, ...(pages && { pages }), signal, emit };
    return { ...plan.execution, retry: plan.options.onToolError === 'retry', ...own };
  }

  /** With the tool that reads on in what was cut, as soon as something was. */
  async withReader(tools: RunTools, step: number): Promise<RunTools> {
    const offered = withReader(tools, this.pages, this.plan);
    const { id } = RESULT_READER.spec;
    if (offered !== tools) await this.emit({ type: 'tools-injected', step, provider: 'results', tools: [id] });
    return offered;
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

function spentIn({ inputTokens, outputTokens, costUsd = 0 }: Usage): Pick<SpendingLedger, 'tokens' | 'usd'> {
  return { tokens: inputTokens + outputTokens, usd: costUsd };
}
