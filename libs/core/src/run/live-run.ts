import {
  AnswerFold,
  type HiddenValue,
  type Message,
  type ModelRequest,
  type ToolInvocationRecord,
  type Usage,
} from '@toolloop/protocol';
import type { ExecutionScope } from '../call/call.js';
import type { EmitEvent } from '../call/emit-event.js';
import { selects } from '../catalog/tool-selection.js';
import { ToolsetNarrowing } from '../catalog/toolset-narrowing.js';
import type { Toolset } from '../catalog/toolset.js';
import type { Tool } from '../contracts/tool.js';
import { nameOfModel } from '../models/model-name.js';
import { assistantMessage, hiddenIn, type LoopState } from '../loop/loop-state.js';
import { readModel } from '../loop/model-step.js';
import { RunApprovals } from '../plugins/approvals/run-approvals.js';
import { StandingCalls, isStanding } from '../plugins/conversations/standing-calls.js';
import { RunEntityHandles } from '../plugins/entities/entity-handles.js';
import { RunInstances } from '../plugins/entities/run-instances.js';
import { MessageFlow } from '../plugins/flow/message-flow.js';
import { RunFlow } from '../plugins/flow/run-flow.js';
import type { InjectionRules } from '../plugins/injection/apply-injection.js';
import type { RunReserve } from '../plugins/injection/tool-reserve.js';
import { ResultPages } from '../plugins/pages/result-pages.js';
import { RESULT_READER, resultReader } from '../plugins/pages/result-reader.js';
import { RunRehearsal } from '../plugins/rehearsals/run-rehearsal.js';
import type { PluginsOfRun } from '../plugin/plugins.js';
import { SpendingLedger } from '../plugins/usage/spending.js';
import { RunValues } from '../plugins/values/value-references.js';
import { VALUE_TOOLS, valueTools } from '../plugins/values/value-tools.js';
import { isPermitted } from '../policy/decide.js';
import { hiddenBeyond } from '../policy/rules.js';
import { CallIds } from './call-ids.js';
import type { RunInputs } from './run-inputs.js';
import {
  type CallSession,
  type EnclosingRun,
  type RunPlace,
  type RunPlan,
  type RunStart,
} from './run-plan.js';
import { type EntryJournal, RunRecorder } from './run-recorder.js';
import { earlierCalls } from './earlier-calls.js';
import { factsOf } from './run-facts.js';
import { type Authority, RunRoles } from './run-roles.js';
import { RunUse, type UsedBefore } from './run-use.js';
import type { ResumedRun, SavedPlace, SavedRun } from './saved-run.js';
import { SentTools } from './sent-tools.js';

/**
 * Everything of a run that changes beside its `LoopState`. One per run, so that two runs never
 * meet.
 */
export class LiveRun implements EnclosingRun {
  readonly handles: RunEntityHandles;
  readonly instances: RunInstances;
  readonly flow: RunFlow;
  readonly plugins: PluginsOfRun;
  readonly approvals: RunApprovals;
  readonly pages: ResultPages | undefined;
  /**
   * Set where nothing that the run changes is kept. A sub-run has none, since a rehearsal begins
   * none.
   */
  readonly rehearsal: RunRehearsal | undefined;
  /** One for a run and all its sub-runs: budgets of policy are about what they do together. */
  readonly spending: SpendingLedger;
  readonly use: RunUse;
  readonly roles: RunRoles;
  /** The version of the catalog that the tools of the run follow. */
  listedAt: number;
  /** The tools that strategies withhold under the present roles. */
  reserve: RunReserve;
  /** Stores the entries of a durable run. */
  recorder: RunRecorder | undefined;
  private recorded: Pick<ExecutionScope, 'journal' | 'keepValues'> = {};
  private readonly ofModels: ModelAccounts;
  private knownValues: RunValues | undefined;
  private standing: Pick<ExecutionScope, 'standing'> = {};

  constructor(
    readonly plan: RunPlan,
    readonly start: RunStart,
    readonly signal: AbortSignal,
    readonly emit: EmitEvent,
  ) {
    const { saved } = start.resumed ?? {};
    const { session } = plan;
    const accounts = accountsOf(plan, saved);
    this.handles = accounts.handles;
    this.instances = accounts.instances;
    this.ofModels = {
      ...(accounts.sentBefore && { sentTools: new SentTools(accounts.sentBefore) }),
    };
    this.flow = new RunFlow(accounts.flow);
    this.spending = accounts.spending;
    this.use = accounts.use;
    this.roles = accounts.roles;
    this.reserve = session?.live.reserve ?? plan.injection.reserve;
    this.listedAt = plan.listedAt;
    this.plugins = this.withPlugins(saved);
    this.rehearsal = rehearsalOf(plan, saved);
    this.approvals = approvalsOf(plan, saved);
    const hidden = hiddenBefore(start);
    if (hidden.length > 0) this.values?.learn(hidden);
    this.pages = session ? session.live.pages : pagesFor(plan, start.history, start.resumed);
  }

  private withPlugins(saved: SavedRun | undefined): PluginsOfRun {
    const { plan, start, signal } = this;
    const facts = {
      ...factsOf(plan, signal),
      journal: () => this.recorded.journal,
      earlier: saved && (() => earlierCalls(saved)),
    };
    const around = { around: plan.within?.live.plugins, session: plan.session?.live.plugins };
    return start.plugins.begin(facts, around, saved?.slots);
  }

  /**
   * One for a run and all its sub-runs, whose models know texts by the same references; absent
   * where no model asks.
   */
  get values(): RunValues | undefined {
    const { isOneCall, session, within } = this.plan;
    if (isOneCall || session) return undefined;
    return (this.knownValues ??= within?.live.values ?? new RunValues());
  }

  /** The texts that the run's models know by reference; undefined while nothing is hidden. */
  get hiddenTexts(): RunValues | undefined {
    const known = this.knownValues ?? this.plan.within?.live.hiddenTexts;
    return known?.isEmpty === false ? known : undefined;
  }

  get sentTools(): SentTools {
    return (this.ofModels.sentTools ??= new SentTools());
  }

  get narrowing(): ToolsetNarrowing {
    return (this.ofModels.narrowing ??= new ToolsetNarrowing());
  }

  /** The warnings of models that were shown. */
  get warnings(): Set<string> {
    return (this.ofModels.warnings ??= new Set());
  }

  get callIds(): CallIds {
    const { start, plan, ofModels } = this;
    const pending = start.resumed?.saved.pending;
    const asked = pending ? [assistantMessage(pending.answer)] : [];
    return (ofModels.callIds ??= new CallIds(
      [...start.history, ...asked],
      plan.execution.limits.toolCallIdLength,
    ));
  }

  /** From here on a durable run is written down; a sub-run where the run around it is. */
  recordTo(journal: EntryJournal | undefined, from: LoopState, place: () => SavedPlace): void {
    const { within, execution } = this.plan;
    const into =
      journal ?? within?.live.recorder?.within({ ...within, runId: execution.run.runId });
    if (!into) return;
    this.recorder = new RunRecorder(into, this, place, from);
    this.recorded = { journal: into, keepValues: (callId) => this.keepValues(callId) };
  }

  /** Keeps what plugins have changed, in the runs around as well, before the effect of a call. */
  async keepValues(callId: string): Promise<void> {
    const { within, execution } = this.plan;
    await within?.live.keepValues(`${execution.run.runId}/${callId}`);
    await this.recorder?.keepValues(callId);
  }

  /**
   * Notes the changes that stand of an answer whose place this run's takes, which are among the
   * messages that it adds.
   */
  stand(added: readonly Message[]): void {
    const results = added.filter(isStanding);
    if (results.length > 0) this.standing = { standing: new StandingCalls(results) };
  }

  /** Set once another process continues the run. */
  get isElsewhere(): boolean {
    return this.recorder?.isElsewhere ?? this.plan.within?.live.isElsewhere ?? false;
  }

  /** Counts one answer of a model, at once for the run itself. Never rejects. */
  async answered(usage: Usage, model: string): Promise<void> {
    this.use.recordUsage(usage);
    const { hooks, view } = this.plugins;
    await hooks.answered?.({ model, usage }, view);
  }

  /** The rules by which tools are injected under an authority. */
  injectionRules(authority: Authority = this.roles.now()): InjectionRules {
    const { execution, injection, strictListing } = this.plan;
    const { exclude, entities } = injection;
    return {
      ...execution,
      ...authority,
      exclude,
      entities,
      instances: this.instances,
      strictListing,
      signal: this.signal,
    };
  }

  /**
   * Returns the scope of calls whose model had read these messages. Only `offered` of the run's
   * tools may be called; its sub-runs choose among all of them.
   */
  scope(offered: Toolset, read: () => readonly Message[], toolset: Toolset): ExecutionScope {
    this.reserve.follow(toolset);
    const { actor, policies } = this.roles.now();
    const values = this.valuesUnder(policies, actor);
    this.noteOffer(offered, read(), values);
    const { plan, plugins, approvals, spending, pages, rehearsal, emit, signal } = this;
    const subRuns = this.start.subRuns.within(this, toolset);
    return {
      ...plan.execution,
      actor,
      policies,
      plugins,
      approvals,
      spending,
      retry: plan.options.onToolError === 'retry',
      toolset: offered,
      flow: this.flow.at(read()),
      ...(pages && { pages }),
      ...(values && { values }),
      ...(rehearsal && { rehearsal }),
      ...(subRuns && { subRuns }),
      ...this.recorded,
      ...this.standing,
      emit,
      signal,
    };
  }

  /** Notes which tools the model of these calls was offered. */
  private noteOffer(
    offered: Toolset,
    read: readonly Message[],
    values: RunValues | undefined,
  ): void {
    this.flow.offer(offered);
    if (values && !values.isEmpty) this.flow.offerEntities(offered, read);
  }

  /** The texts that are hidden, once a policy hides some: most runs have none. */
  private valuesUnder(
    policies: Authority['policies'],
    actor: Authority['actor'],
  ): RunValues | undefined {
    const { knownValues, plan } = this;
    const mayHide =
      knownValues ||
      plan.within ||
      (!plan.isOneCall && hiddenBeyond(policies, actor) !== undefined);
    return mayHide ? this.values : undefined;
  }

  /**
   * With the tool that reads on in what was cut, as soon as something was. It answers a limit of
   * ours, so the cap of injected tools does not hold.
   */
  async withReader(toolset: Toolset, step: number): Promise<Toolset> {
    const { pages, knownValues: values } = this;
    const isDue = (tool: Tool): boolean => this.mayJoin(tool, toolset);
    const joining = [
      ...(pages?.hasHandles && isDue(RESULT_READER) ? [resultReader(pages)] : []),
      ...(values && !values.isEmpty && VALUE_TOOLS.some(isDue)
        ? this.toolsFor(values).filter(isDue)
        : []),
    ];
    if (joining.length === 0) return toolset;
    const tools = joining.map(({ spec }) => spec.id);
    await this.emit({ type: 'tools-injected', step, provider: 'results', tools });
    return toolset.inject(joining).toolset;
  }

  private toolsFor(values: RunValues): readonly Tool[] {
    return valueTools({ values, ask: (request, signal) => this.ask(request, signal) });
  }

  private mayJoin(tool: Tool, toolset: Toolset): boolean {
    if (toolset.find(tool.spec.id) || toolset.withholds(tool.spec)) return false;
    const isKeptOut = this.plan.injection.exclude.some((selector) => selects(selector, { tool }));
    return !isKeptOut && isPermitted(tool, this.roles.now());
  }

  /**
   * Asks the run's model about texts that it is not to act on: without tools, and counted as the
   * run's.
   */
  private async ask(request: ModelRequest, signal: AbortSignal): Promise<string> {
    const { model, execution } = this.plan;
    const fold = new AnswerFold();
    const failure = await readModel(model, request, { signal, limits: execution.limits }, (event) =>
      fold.take(event),
    );
    const { answer } = fold;
    await this.answered(answer.usage, answer.answeredBy ?? nameOfModel(model));
    if (failure !== undefined) throw failure;
    return answer.text;
  }

  /** The messages that the user adds during the run. */
  get inputs(): RunInputs {
    return this.start.inputs;
  }
}

/**
 * The part of a run that only its models need, made when they first do: a run of one call has none.
 */
interface ModelAccounts {
  sentTools?: SentTools;
  narrowing?: ToolsetNarrowing;
  warnings?: Set<string>;
  callIds?: CallIds;
}

/** The counters of a run, beside its state. */
type RunAccounts = Pick<LiveRun, 'handles' | 'instances' | 'spending' | 'use' | 'roles'> & {
  readonly flow: MessageFlow;
  readonly sentBefore: readonly string[] | undefined;
};

function accountsOf(plan: RunPlan, saved: SavedRun | undefined): RunAccounts {
  if (plan.within) return sharedWith(plan.within, plan, saved);
  return plan.session ? ofSession(plan.session, plan) : ownOf(plan, saved);
}

/** The values that were hidden in the messages so far, and in the calls of a step that waited. */
function hiddenBefore({ history, resumed }: RunStart): readonly HiddenValue[] {
  const outcomes = resumed?.saved.pending?.outcomes ?? [];
  return [...hiddenIn(history), ...outcomes.flatMap(({ hidden = [] }) => hidden)];
}

function approvalsOf(
  { options, session, within }: RunPlan,
  saved: SavedRun | undefined,
): RunApprovals {
  const { approvals: mode = 'suspend' } = options;
  return new RunApprovals(
    mode,
    saved?.approvals,
    undefined,
    session?.live.approvals,
    within?.live.approvals,
  );
}

function rehearsalOf({ options }: RunPlan, saved: SavedRun | undefined): RunRehearsal | undefined {
  return options.rehearse ? new RunRehearsal(saved?.rehearsal) : undefined;
}

function ownOf(plan: RunPlan, saved: SavedRun | undefined): RunAccounts {
  const { execution, listedUnder, rolesNow, assumed } = plan;
  const spending = plan.account?.spending ?? ledgerOf(saved);
  return {
    handles: new RunEntityHandles(saved?.handles),
    instances: new RunInstances(saved?.instances),
    sentBefore: saved?.sentTools,
    roles: new RunRoles({ ...execution, listedUnder }, rolesNow, saved?.roles ?? assumed),
    flow: flowOf(plan),
    spending,
    use: new RunUse(execution.limits, spending, undefined, saved && usedBefore(saved)),
  };
}

/**
 * A call of a session shares everything with the session's other calls but what it asks and uses
 * itself.
 */
function ofSession(
  { live: { handles, instances, spending, roles } }: CallSession,
  { execution }: RunPlan,
): RunAccounts {
  return {
    handles,
    instances,
    spending,
    roles,
    sentBefore: undefined,
    flow: MessageFlow.instructed('public'),
    use: new RunUse(execution.limits, spending),
  };
}

/**
 * Returns the flow that a run begins with. The labels of a single call say by themselves what its
 * writer has read.
 */
function flowOf({ isOneCall, options }: RunPlan): MessageFlow {
  return MessageFlow.instructed(isOneCall ? 'public' : (options.labels?.reads ?? 'private'));
}

/** A sub-run knows entities by the same names, and what it does the run around it has done. */
function sharedWith(
  { live, flow }: RunPlace,
  { execution, listedUnder, rolesNow }: RunPlan,
  saved: SavedRun | undefined,
): RunAccounts {
  const { handles, instances, spending, use, roles } = live;
  return {
    handles,
    instances: new RunInstances(saved?.instances ?? instances.save()),
    sentBefore: saved?.sentTools,
    roles: new RunRoles({ ...execution, listedUnder }, rolesNow, saved?.roles, roles),
    flow: MessageFlow.within(flow),
    spending,
    use: new RunUse(execution.limits, spending, use, saved && usedBefore(saved)),
  };
}

function usedBefore({
  state: { usage, step },
  innerSteps = 0,
  hasUnknownCost = false,
}: SavedRun): UsedBefore {
  return { usage, steps: step, innerSteps, hasUnknownCost };
}

function ledgerOf(saved: SavedRun | undefined): SpendingLedger {
  const ledger = new SpendingLedger(saved?.spent);
  if (!saved) return ledger;
  const { inputTokens, outputTokens, costUsd = 0 } = saved.state.usage;
  const { hasUnknownCost = false } = saved;
  return Object.assign(ledger, {
    tokens: inputTokens + outputTokens,
    usd: costUsd,
    hasUnknownCost,
  });
}

/**
 * Returns the place in which a run keeps the results that were cut: as it was before the run
 * waited, or empty. Undefined if no tool may join it, or not the one that reads pages: then the
 * model is shown no way to the rest.
 */
export function pagesFor(
  { injection, execution }: RunPlan,
  history: readonly Message[],
  resumed?: ResumedRun,
): ResultPages | undefined {
  const isKeptOut = injection.exclude.some((selector) =>
    selects(selector, { tool: RESULT_READER }),
  );
  if (isKeptOut || injection.strategies.length === 0) return undefined;
  if (resumed?.processState?.pages) return resumed.processState.pages;
  const results = history.filter(({ role }) => role === 'tool').length;
  const records = resumed ? recordsOf(resumed.saved) : { ended: [], waiting: [] };
  const hasHandles = [...records.ended, ...records.waiting].some(({ truncated }) => truncated);
  return new ResultPages(execution.limits.keptResultBytes, {
    results: results + records.waiting.length,
    hasHandles,
  });
}

function recordsOf({
  state,
  pending,
}: SavedRun): Readonly<Record<'ended' | 'waiting', readonly ToolInvocationRecord[]>> {
  return { ended: state.records, waiting: pending?.outcomes.map(({ record }) => record) ?? [] };
}
