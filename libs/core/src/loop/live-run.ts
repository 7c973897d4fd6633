import type { LoopEventBody, Message, ToolInvocationRecord, Usage } from '@toolloop/protocol';
import { selects } from '../catalog/tool-selection.js';
import { type Toolset, ToolsetNarrowing } from '../catalog/toolset.js';
import type { ExecutionScope } from '../execution/call.js';
import { ResultPages } from '../execution/result-pages.js';
import { RESULT_READER, resultReader } from '../execution/result-reader.js';
import type { InjectionRules } from '../injection/apply-injection.js';
import { RunEntityHandles, RunInstances } from '../injection/run-entities.js';
import type { RunReserve } from '../injection/tool-reserve.js';
import { MessageFlow } from '../policy/flow.js';
import { isPermitted } from '../policy/policy-engine.js';
import { RunApprovals, SpendingLedger } from '../policy/rules.js';
import type { RunInputs } from './event-outlet.js';
import { assistantMessage, type LoopState } from './loop-state.js';
import { RunUse, type UsedBefore } from './run-use.js';
import { type Authority, CallCounter, CallIds, RunFlow, RunRoles, SentTools } from './run-accounts.js';
import { type EntryJournal, RunRecorder } from './run-log.js';
import type { EnclosingRun, RunPlace, RunPlan, RunStart } from './run-plan.js';
import type { ResumedRun, SavedPlace, SavedRun } from './saved-run.js';

/** Everything of a run that changes beside its `LoopState`. One per run, so that two runs never meet. */
export class LiveRun implements EnclosingRun {
  readonly handles: RunEntityHandles;
  readonly instances: RunInstances;
  readonly sentTools: SentTools;
  readonly narrowing = new ToolsetNarrowing();
  readonly counter: CallCounter;
  readonly callIds: CallIds;
  readonly flow: RunFlow;
  readonly approvals: RunApprovals;
  readonly pages: ResultPages | undefined;
  /** One for a run and all its sub-runs: budgets of policy are about what they do together. */
  readonly spending: SpendingLedger;
  readonly use: RunUse;
  readonly roles: RunRoles;
  /** The warnings of models that were shown. */
  readonly warnings = new Set<string>();
  /** The tools that strategies withhold under the present roles. */
  reserve: RunReserve;
  /** Stores the entries of a durable run. */
  recorder: RunRecorder | undefined;

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
    this.flow = new RunFlow(accounts.flow);
    this.spending = accounts.spending;
    this.use = accounts.use;
    this.roles = accounts.roles;
    this.reserve = plan.injection.reserve;
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

  /** Set once another process continues the run. */
  get isElsewhere(): boolean {
    return this.recorder?.isElsewhere ?? this.plan.within?.live.isElsewhere ?? false;
  }

  /** Counts one answer of a model. A promise only where the tenant has quotas; it never rejects. */
  answered(usage: Usage, model: string): Promise<void> | undefined {
    this.use.recordUsage(usage);
    return this.plan.meter.answered(usage, model, this.signal);
  }

  /** The rules by which tools are injected under an authority. */
  injectionRules(authority: Authority = this.roles.now()): InjectionRules {
    const { execution, injection, strictListing } = this.plan;
    const { exclude, entities } = injection;
    return { ...execution, ...authority, exclude, entities, instances: this.instances, strictListing, signal: this.signal };
  }

  /** Returns the scope of calls whose model had read these messages. Only `offered` of the run's tools may be called; its sub-runs choose among all of them. */
  scope(offered: Toolset, read: readonly Message[], toolset: Toolset): ExecutionScope {
    const { plan, approvals, spending, pages, signal, emit } = this;
    this.flow.offer(offered);
    this.reserve.follow(toolset);
    const subRuns = this.start.subRuns.within(this, toolset);
    const given = { ...(pages && { pages }), ...(subRuns && { subRuns }), ...(plan.hooks && { hooks: plan.hooks }) };
    const own = { ...this.roles.now(), toolset: offered, flow: this.flow.at(read), approvals, spending, ...given, signal, emit };
    return { ...plan.execution, retry: plan.options.onToolError === 'retry', ...own };
  }

  /** With the tool that reads on in what was cut, as soon as something was. It answers a limit of ours, so the cap of injected tools does not hold. */
  async withReader(toolset: Toolset, step: number): Promise<Toolset> {
    if (!this.pages?.hasHandles || toolset.find(RESULT_READER.spec.id)) return toolset;
    if (toolset.withholds(RESULT_READER.spec) || !isPermitted(RESULT_READER, this.roles.now())) return toolset;
    await this.emit({ type: 'tools-injected', step, provider: 'results', tools: [RESULT_READER.spec.id] });
    return toolset.inject([resultReader(this.pages)]).toolset;
  }

  /** The messages that the user adds during the run. */
  get inputs(): RunInputs {
    return this.start.inputs;
  }
}

/** The counters of a run, beside its state. */
type RunAccounts = Pick<LiveRun, 'handles' | 'instances' | 'counter' | 'spending' | 'use' | 'roles'> & {
  readonly flow: MessageFlow;
  readonly sentBefore: readonly string[] | undefined;
};

function ownOf(plan: RunPlan, saved: SavedRun | undefined): RunAccounts {
  const { execution, rolesNow, assumed } = plan;
  const { limits } = execution;
  const spending = ledgerOf(saved);
  return {
    handles: new RunEntityHandles(saved?.handles),
    instances: new RunInstances(saved?.instances),
    sentBefore: saved?.sentTools,
    roles: new RunRoles(execution, rolesNow, saved?.roles ?? assumed),
    counter: new CallCounter(limits, saved?.counts),
    flow: flowOf(plan),
    spending,
    use: new RunUse(limits, spending, undefined, saved && usedBefore(saved)),
  };
}

/** The arguments of a single call count as written by a model that has read everything: where they come from is not known. */
function flowOf({ isOneCall, options }: RunPlan): MessageFlow {
  return isOneCall ? MessageFlow.instructed('private').tainted() : MessageFlow.instructed(options.labels?.reads ?? 'private');
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

/**
 * Returns the place in which a run keeps the results that were cut: as it was before the run waited, or empty. Undefined if no tool may join it, or not the one
 * that reads pages: then the model is shown no way to the rest.
 */
export function pagesFor({ injection, execution }: RunPlan, history: readonly Message[], resumed?: ResumedRun): ResultPages | undefined {
  const isKeptOut = injection.exclude.some((selector) => selects(selector, { tool: RESULT_READER }));
  if (isKeptOut || injection.strategies.length === 0) return undefined;
  if (resumed?.processState?.pages) return resumed.processState.pages;
  const results = history.filter(({ role }) => role === 'tool').length;
  const records = resumed ? recordsOf(resumed.saved) : { ended: [], waiting: [] };
  const hasHandles = [...records.ended, ...records.waiting].some(({ truncated }) => truncated);
  return new ResultPages(execution.limits.keptResultBytes, { results: results + records.waiting.length, hasHandles });
}

function recordsOf({ state, pending }: SavedRun): Readonly<Record<'ended' | 'waiting', readonly ToolInvocationRecord[]>> {
  return { ended: state.records, waiting: pending?.outcomes.map(({ record }) => record) ?? [] };
}
