import { Logger } from '@nestjs/common';
import type { Toolset } from '../catalog/toolset.js';
import type { ExecutionScope } from '../execution/execution.scope.js';
import { untilAborted } from '../execution/interruption.js';
import { RESULT_READER } from '../execution/result-reader.js';
import type { ResultPages } from '../execution/result.pages.js';
import { RunApprovals } from '../execution/run.approvals.js';
import { RunEntityHandles } from '../injection/entity.handles.js';
import { RunInstances } from '../injection/run.instances.js';
import type { RunReserve } from '../injection/run.reserve.js';
import { MessageFlow } from '../policy/message.flow.js';
import { isUnpinned } from '../policy/vouched-tools.js';
import { SpendingLedger } from '../policy/spending.ledger.js';
import type { JsonObject } from '../protocol/json.js';
import type { InformationFlow } from '../protocol/policy.js';
import type { LoopEventBody } from '../protocol/loop-event.js';
import type { Tool } from '../protocol/tool.js';
import type { LoopHooks } from '../protocol/loop-request.js';
import type { Message, MessageLabels } from '../protocol/message.js';
import type { Usage } from '../protocol/usage.js';
import { CallCounter } from './call.counter.js';
import { CallIds } from './call.ids.js';
import { assistantMessage } from './assistant-message.js';
import { RunRecorder } from './run.recorder.js';
import type { SavedPlace } from './saved-run.js';
import { pagesFor, withReader, type RunTools } from './result-offer.js';
import type { SavedRun } from './from-suspended-run.js';
import type { RunInputs } from './run.inputs.js';
import type { RunPlan } from './run.plan.js';
import { RunRoles } from './run.roles.js';
import { RunUse, type UsedBefore } from './run.use.js';
import type { EntryJournal } from './sub.run.journal.js';
import type { SubRunOpener } from './sub.run.opener.js';
import { SentTools } from './sent.tools.js';
import type { ResumedRun } from './suspended.runs.js';
import type { LoopState } from './loop.state.js';
import { ToolsetNarrowing } from './toolset.narrowing.js';

/** What a hook is called with, by its name. */
type HookCall = (hooks: LoopHooks) => void | Promise<void>;

/** What a run begins with, beside its plan. */
export interface RunStart {
  readonly instructions: string | undefined;
  readonly history: readonly Message[];
  /** Filled by `RunHandle.addInput` while the run goes on. */
  readonly inputs: RunInputs;
  /** Set where the run goes on after it stood still. */
  readonly resumed?: ResumedRun;
  readonly subRuns: SubRunOpener;
}

/** Where a sub-run stands in the run around it. */
export interface RunPlace {
  readonly live: LiveRun;
  /** What the model that asked for it had read. */
  readonly flow: InformationFlow;
  readonly toolCallId: string;
  /** With which it was begun. */
  readonly args: JsonObject;
  readonly tool: string;
  readonly step: number;
  /** Whether a process that is gone may have begun the sub-run, and made its calls. */
  readonly mayHaveRun: boolean;
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
  /** One for a run and all its sub-runs: budgets of policy are about what they do together. */
  readonly spending: SpendingLedger;
  readonly use: RunUse;
  readonly roles: RunRoles;
  /** What went with a role, by id; it comes back with it. */
  readonly laidDown: Map<string, Tool>;
  /** What strategies keep back under the roles of now. */
  reserve: RunReserve;
  /** Writes a durable run down. */
  recorder: RunRecorder | undefined;
  private flow: MessageFlow;
  private wasShownMore = false;
  private readonly logger = new Logger(LiveRun.name);

  constructor(
    readonly plan: RunPlan,
    readonly start: RunStart,
    readonly signal: AbortSignal,
    readonly emit: (event: LoopEventBody) => void | Promise<void>,
  ) {
    const { saved } = start.resumed ?? {};
    const accounts = plan.within ? sharedWith(plan.within, plan, saved) : ownOf(plan, saved);
    this.handles = accounts.handles;
    this.instances = accounts.instances;
    this.sentTools = new SentTools(accounts.sentBefore);
    this.counter = accounts.counter;
    this.flow = accounts.flow;
    this.spending = accounts.spending;
    this.use = accounts.use;
    this.roles = accounts.roles;
    this.reserve = plan.injection.reserve;
    this.laidDown = new Map(start.resumed?.remains?.laidDown);
    const asked = saved?.pending ? [assistantMessage(saved.pending.answer)] : [];
    this.callIds = new CallIds([...start.history, ...asked], plan.execution.limits.toolCallIdLength);
    this.approvals = new RunApprovals(plan.options.approvals ?? 'suspend', saved?.approvals);
    this.pages = pagesFor(plan, start.history, start.resumed);
  }

  /** From here on a durable run is written down; a sub-run where the run around it is. */
  recordTo(journal: EntryJournal | undefined, from: LoopState, place: () => SavedPlace): void {
    const { within, execution } = this.plan;
    const into = journal ?? within?.live.recorder?.within({ ...within, runId: execution.run.runId });
    this.recorder = into && new RunRecorder(into, this, place, from);
  }

  /** Whether another process goes on with the run. */
  get isElsewhere(): boolean {
    return this.recorder?.isElsewhere ?? this.plan.within?.live.isElsewhere ?? false;
  }

  /** Counts what the run has used until now in its own ledger, and what is new of it in its tenant's quotas. */
  async spend(usage: Usage): Promise<void> {
    const spent = this.use.spend(usage);
    await this.plan.quotas?.charge(spent, this.signal);
  }

  /** Notes what a model is shown beside the transcript: what it has read it has read, whatever the transcript says. */
  show(messages: readonly Message[]): void {
    this.flow = this.flow.beside(messages);
    this.wasShownMore = true;
  }

  /** Notes which tools a model is offered: a description that nobody pinned is a stranger's text. */
  offer(toolset: Toolset): void {
    if (!toolset.specs.some(({ id }) => isUnpinnedIn(toolset, id))) return;
    this.flow = this.flow.tainted();
    this.wasShownMore = true;
  }

  /** What an answer is worth whose model was shown more than the transcript tells. */
  get beyondTranscript(): MessageLabels | undefined {
    const { integrity, confidentiality } = this.flow;
    return this.wasShownMore ? { returns: integrity, reads: confidentiality } : undefined;
  }

  /** What all of it is worth that the model has read by the end of this transcript. */
  readIn(messages: readonly Message[]): MessageLabels {
    const { integrity, confidentiality } = this.flow.at(messages);
    return { returns: integrity, reads: confidentiality };
  }

  /** Where a call is executed whose model had read these messages. `offered` of the run's tools may be called; its sub-runs choose among all of them. */
  scope(offered: Toolset, read: readonly Message[], toolset: Toolset): ExecutionScope {
    const { plan, approvals, spending, pages, signal, emit } = this;
    this.offer(offered);
    this.flow = this.flow.at(read);
    this.reserve.follow(toolset);
    const subRuns = this.start.subRuns.within(this, toolset);
    const given = { ...(pages && { pages }), ...(subRuns && { subRuns }) };
    const own = { ...this.roles.now(), toolset: offered, flow: this.flow, approvals, spending, ...given, signal, emit };
    return { ...plan.execution, retry: plan.options.onToolError === 'retry', ...own };
  }

  /** With the tool that reads on in what was cut, as soon as something was. */
  async withReader(tools: RunTools, step: number): Promise<RunTools> {
    const offered = withReader(tools, this.pages, this.roles.now());
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

function isUnpinnedIn(toolset: Toolset, id: string): boolean {
  const tool = toolset.find(id);
  return tool !== undefined && isUnpinned(tool);
}

/** What a run counts and knows, beside its state. */
type RunAccounts = Pick<LiveRun, 'handles' | 'instances' | 'counter' | 'spending' | 'use' | 'roles'> & {
  readonly flow: MessageFlow;
  readonly sentBefore: readonly string[] | undefined;
};

function ownOf(plan: RunPlan, saved: SavedRun | undefined): RunAccounts {
  const { execution, rolesNow, assumed, options } = plan;
  const { limits } = execution;
  const spending = ledgerOf(saved);
  return {
    handles: new RunEntityHandles(saved?.handles),
    instances: new RunInstances(saved?.instances),
    sentBefore: saved?.sentTools,
    roles: new RunRoles(execution, rolesNow, saved?.roles ?? assumed),
    counter: new CallCounter(limits, saved?.counts),
    flow: MessageFlow.instructed(options.labels?.reads ?? 'private'),
    spending,
    use: new RunUse(limits, spending, undefined, saved && usedBefore(saved)),
  };
}

/** A sub-run knows entities by the same names, and what it does the run around it has done. */
function sharedWith({ live, flow }: RunPlace, { execution, rolesNow }: RunPlan, saved: SavedRun | undefined): RunAccounts {
  const { handles, instances, counter, spending, use, roles } = live;
  const { limits } = execution;
  return {
    handles,
    instances: new RunInstances(saved?.instances ?? instances.save()),
    sentBefore: saved?.sentTools,
    roles: new RunRoles(execution, rolesNow, saved?.roles, roles),
    counter: new CallCounter(limits, saved?.counts, counter),
    flow: MessageFlow.within(flow),
    spending,
    use: new RunUse(limits, spending, use, saved && usedBefore(saved)),
  };
}

function usedBefore({ state: { usage, step }, innerSteps = 0, hasUnknownCost = false }: SavedRun): UsedBefore {
  return { usage, steps: step, innerSteps, hasUnknownCost };
}

function ledgerOf(saved: SavedRun | undefined): SpendingLedger {
  const ledger = new SpendingLedger(saved?.spent);
  if (!saved) return ledger;
  const { inputTokens, outputTokens, costUsd = 0 } = saved.state.usage;
  const { hasUnknownCost = false } = saved;
  return Object.assign(ledger, { tokens: inputTokens + outputTokens, usd: costUsd, hasUnknownCost });
}
