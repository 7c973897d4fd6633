import { Logger, type Type } from '@nestjs/common';
import type { JsonObject, LanguageModel, LoopEventBody, Message, MessageLabels, ToolInvocationRecord, Usage } from '@toolloop/protocol';
import { selects } from '../catalog/tool-selection.js';
import { type Toolset, ToolsetNarrowing } from '../catalog/toolset.js';
import type { HistoryPolicy, LoopHooks, LoopRequest, PrepareStep, StopCondition, UpcomingStep } from '../contracts/loop-request.js';
import type { InformationFlow, Policy } from '../contracts/policy.js';
import type { ConversationKey } from '../contracts/stores.js';
import { untilAborted } from '../execution/call-failure.js';
import { type ExecutionScope, RunApprovals } from '../execution/call.js';
import { ResultPages } from '../execution/result-pages.js';
import { RESULT_READER, resultReader } from '../execution/result-reader.js';
import type { InjectionRules } from '../injection/apply-injection.js';
import { RunEntityHandles, RunInstances } from '../injection/run-entities.js';
import type { ListedTools, RunInjection } from '../injection/starting-toolset.js';
import type { RunReserve } from '../injection/tool-reserve.js';
import { MessageFlow } from '../policy/flow.js';
import { isPermitted } from '../policy/policy-engine.js';
import { SpendingLedger } from '../policy/rules.js';
import { isUnpinned } from '../policy/vouched-tools.js';
import type { RunInputs } from './event-outlet.js';
import { assistantMessage, type LoopState } from './loop-state.js';
import { type QuotaGuard, RunUse, type UsedBefore } from './quota-guard.js';
import { type AssumedRoles, type Authority, CallCounter, RunRoles, SentTools } from './run-accounts.js';
import { type EntryJournal, RunRecorder } from './run-log.js';
import type { SavedPlace, SavedRun } from './saved-run.js';
import type { AnswerShape } from './structured-answer.js';
import type { SubRunOpener } from './sub-run.js';
import type { ResumedRun } from './suspended-runs.js';

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
    if (!toolset.shown.some(isUnpinned)) return;
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

  /** The rules by which tools are injected under an authority. */
  injectionRules(authority: Authority = this.roles.now()): InjectionRules {
    const { execution, injection, strictListing } = this.plan;
    const { exclude, entities } = injection;
    return { ...execution, ...authority, exclude, entities, instances: this.instances, strictListing, signal: this.signal };
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

  /** With the tool that reads on in what was cut, as soon as something was. It answers a limit of ours, so the cap of injected tools does not hold. */
  async withReader(toolset: Toolset, step: number): Promise<Toolset> {
    if (!this.pages?.hasHandles || toolset.find(RESULT_READER.spec.id)) return toolset;
    if (toolset.keepsAway(RESULT_READER.spec) || !isPermitted(RESULT_READER, this.roles.now())) return toolset;
    await this.emit({ type: 'tools-injected', step, provider: 'results', tools: [RESULT_READER.spec.id] });
    return toolset.inject([resultReader(this.pages)]).toolset;
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

/** A request that was checked, with everything that is fixed for the run. */
export interface RunPlan<Output = unknown> {
  readonly model: LanguageModel;
  /** Asked once, when the run starts. */
  readonly instructions: () => string | undefined | Promise<string | undefined>;
  /** Set in a sub-run: the run around it. */
  readonly within?: RunPlace;
  /** What the request adds to the conversation, or all of it where there is no conversation. */
  readonly messages: readonly Message[];
  readonly conversation: ConversationKey | undefined;
  /** What policy lets the run start with. */
  readonly toolset: Toolset;
  /** Whether the model is told of a tool only once the tool's own `canCall` has let the actor in. */
  readonly strictListing: boolean;
  readonly execution: Pick<
    ExecutionScope,
    'run' | 'requestId' | 'actorId' | 'place' | 'actor' | 'policies' | 'limits' | 'options' | 'agentName'
  >;
  /** Absent where the tenant has none. */
  readonly quotas: QuotaGuard | undefined;
  /** The policies of the run and its loop, beside the application's. */
  readonly narrowing: readonly Policy[];
  /** The actor's roles at this moment. */
  readonly rolesNow: () => readonly string[];
  /** Which of them the run begins with. @default all */
  readonly assumed?: AssumedRoles | undefined;
  /** What the run would begin with under another authority. Absent in a sub-run, which has what the run around it had. */
  readonly relist?: ((authority: Authority, records: readonly ToolInvocationRecord[]) => ListedTools) | undefined;
  readonly injection: RunInjection;
  readonly history: HistoryPolicy | undefined;
  /** Knows the run already. */
  readonly prepareStep: ((step: Omit<UpcomingStep, 'run'>) => ReturnType<PrepareStep>) | undefined;
  /** Each of them ends the run. */
  readonly stopWhen: readonly StopCondition[];
  readonly answer: (AnswerShape & { readonly type: Type<Output> }) | undefined;
  readonly options: Pick<
    LoopRequest,
    'labels' | 'onToolError' | 'onForbidden' | 'approvals' | 'hooks' | 'toolChoice' | 'keepToolChoice' | 'modelOptions' | 'signal'
  >;
}

/**
 * Where a run keeps what was cut: what it kept before it waited, or nothing yet. Undefined where no tool may appear in it, or not the one that reads: then
 * the model is shown no way to the rest.
 */
export function pagesFor({ injection, execution }: RunPlan, history: readonly Message[], resumed?: ResumedRun): ResultPages | undefined {
  const isKeptOut = injection.exclude.some((selector) => selects(selector, { tool: RESULT_READER }));
  if (isKeptOut || injection.strategies.length === 0) return undefined;
  if (resumed?.remains?.pages) return resumed.remains.pages;
  const results = history.filter(({ role }) => role === 'tool').length;
  const records = resumed ? recordsOf(resumed.saved) : { ended: [], waiting: [] };
  const hasHandles = [...records.ended, ...records.waiting].some(({ truncated }) => truncated);
  return new ResultPages(execution.limits.keptResultBytes, { results: results + records.waiting.length, hasHandles });
}

function recordsOf({ state, pending }: SavedRun): Readonly<Record<'ended' | 'waiting', readonly ToolInvocationRecord[]>> {
  return { ended: state.records, waiting: pending?.outcomes.map(({ record }) => record) ?? [] };
}

/** The call ids of one run. A provider's id is kept unless it is unusable or was used before. */
export class CallIds {
  private readonly used: Set<string>;

  constructor(
    history: readonly Message[],
    private readonly maxLength: number,
  ) {
    this.used = new Set(
      history.flatMap((message) => (message.role === 'assistant' ? (message.toolCalls ?? []) : [])).map(({ toolCallId }) => toolCallId),
    );
  }

  claim(providerId: string, step: number, index: number): string {
    const isUsable = providerId !== '' && providerId.length <= this.maxLength && !this.used.has(providerId);
    const id = isUsable ? providerId : this.unused(`call_${step}_${index}`);
    this.used.add(id);
    return id;
  }

  private unused(base: string): string {
    let id = base;
    for (let suffix = 2; this.used.has(id); suffix += 1) id = `${base}_${suffix}`;
    return id;
  }
}
