import type {
  Decision,
  JsonObject,
  LoopEventBody,
  MessageLabels,
  StorageUnavailableError,
  SubRunRecord,
  ToolCall,
  ToolFailure,
  ToolInvocationRecord,
  ToolMessage,
  ToolSpec,
} from '@toolloop/protocol';
import type { Toolset } from '../catalog/toolset.js';
import type { DirectiveApproval, DirectiveRecord } from '../contracts/directive.js';
import type { EntityKey, NoticedResult } from '../contracts/injection.js';
import type { Limits } from '../contracts/limits.js';
import type { SubRun } from '../contracts/loop-request.js';
import type { InformationFlow, PolicyActor, PolicyEngine, RunSpending } from '../contracts/policy.js';
import type { ExecutionOptions, RunContext } from '../contracts/tool-call.js';
import type { MeantCall, Tool, ToolSurface } from '../contracts/tool.js';
import type { SpendingLedger } from '../policy/rules.js';
import { canonicalDeclaration, compactJson, parseJson } from '../schema/canonical-json.js';
import { list, object, pair, TEXT } from '../schema/saved-form.js';
import type { CallCredentials } from './credentials.js';
import type { DirectiveAttempt } from './directive-attempt.js';
import type { OperationsOn, ResultPages } from './result-pages.js';

/** Where a call is executed: whose run, which tools, under which policies and limits. */
export interface ExecutionScope {
  readonly run: RunContext;
  readonly requestId: string;
  /** Part of the idempotency key, so that one actor's key never answers another. */
  readonly actorId: string | undefined;
  /** In a sub-run the steps and indexes of the calls around it, from the root. Part of the idempotency key, so that no call has that of another. */
  readonly place?: readonly number[];
  readonly toolset: Toolset;
  /** For whom policies decide. */
  readonly actor: PolicyActor;
  readonly policies: readonly PolicyEngine[];
  /** What the model had read when it made the call. */
  readonly flow: InformationFlow;
  readonly spending: SpendingLedger;
  readonly approvals: RunApprovals;
  /** Where results that are too large are kept, so that the model can read on in them; absent where the run has no way to. */
  readonly pages?: ResultPages;
  readonly limits: Limits;
  /** What the run says of how its calls are executed. */
  readonly options?: Partial<ExecutionOptions>;
  /** Who calls, in the metadata of results. */
  readonly agentName?: string;
  /** Attempts reads, and writes with a key of their own, again when that may help. @default false */
  readonly retry?: boolean;
  /** Set where a directive is performed: then its effect happens, and is not asked for again. */
  readonly performing?: DirectiveAttempt;
  /** Performs tools whose call is a run; absent outside of a run, and where runs are nested as deep as they may be. */
  readonly subRuns?: SubRuns;
  readonly signal: AbortSignal;
  /** May return a promise when the reader of the events is slow. Never throws. */
  emit(event: LoopEventBody): void | Promise<void>;
}

/** One call and its place in the run. */
export interface CallRequest {
  readonly call: ToolCall;
  /** From 1. */
  readonly step: number;
  /** Position among the calls of the step, from 0. */
  readonly index: number;
  /** Set where the loop does not let the call happen, e.g. for a limit; the pipeline answers it with this. */
  readonly refusal?: ToolFailure;
  /** Set where an earlier call of the step waits for a decision: the call may ask for one as well, but is neither made nor refused before that call has its result. */
  readonly isHeld?: boolean;
  /** Set where a process that is gone may have begun the call. @default false */
  readonly mayHaveRun?: boolean;
  /** Set where the call is a sub-run that has begun, and waited. */
  readonly begun?: BegunSubRun;
}

/** What the pipeline has found out about a call so far; the record is made from it, however far the call came. */
export interface CallProgress {
  readonly request: CallRequest;
  readonly scope: ExecutionScope;
  readonly startedAt: Date;
  /** The tool's own are in it once the call is known to be permitted: until then it must read like one of no tool. */
  options: ExecutionOptions;
  /** Set on a call over a surface: the tool it means, and how it was called. `request` holds what it means already. */
  readonly routed?: { readonly tool: Tool; readonly surface: ToolSurface; readonly calledAs: string };
  tool?: Tool;
  args?: JsonObject;
  decision?: Decision;
  /** What the call counts for in budgets of policy, once it is let in. */
  charge?: RunSpending['calls'][number];
  /** Uses up the approval of a call that becomes a directive; rejects where that cannot be. It is kept with the directive, or not at all. */
  takeApproval?: () => Promise<void>;
  /** Of a call that becomes a directive: the one that has its key already. */
  standing?: DirectiveRecord;
  /** Of a call whose tool declares one, once it is known. */
  idempotencyKey?: string;
  /** Set where its method was called and a store has failed since. */
  isInFlight?: true;
  /** Under which the key was taken, once it was asked for. */
  claimId?: string;
  /** Set where somebody who is gone had begun the call, so that it may have taken place already. */
  hasTakenOver?: true;
  /** Set once the tool was handed a credential. */
  credentials?: CallCredentials;
  /** From 1. @default 1 */
  attempt?: number;
  /** Of a call that is a run, as far as it came. */
  subRun?: SubRunRecord;
  /** What the result is worth, where that is not the same for every call of the tool. */
  labels?: MessageLabels;
}

/** What became of a call. */
export interface ToolOutcome {
  readonly record: ToolInvocationRecord;
  /** The model's projection: text, and behind it what is attached. */
  readonly content: ToolMessage['content'];
  readonly tool?: Tool;
  /** What the tool's method returned, before any projection. Absent when it failed or was answered from the journal. */
  readonly live?: unknown;
  /** The model's projection once more, with what can be called on the entities in it by now. Set where the model is to be told. */
  readonly hinted?: (operationsOn: OperationsOn) => ToolMessage['content'];
  /** The entities in `live` that a resolver finds again, of a call whose run waits. */
  readonly entities?: readonly EntityKey[];
  /** What strategies noticed in `live`. */
  readonly noticed?: NoticedResult;
  /** Set where the call was not made yet, for want of a decision. */
  readonly isPending?: true;
  /** Set where it was not made, or nobody knows whether, since a store does not answer. The run ends or is handed over, and nothing is told to the model. */
  readonly unavailable?: StorageUnavailableError;
  /** Set where it is a run that waits. */
  readonly begun?: BegunSubRun;
  /** In the place of the tool's own. */
  readonly labels?: MessageLabels;
}

/** What of a sub-run that waits is no JSON: whoever performs it knows what it is. It lives as long as the process does. */
export abstract class SubRunRemains {
  /** Of results that its model can read on in. */
  abstract readonly keptBytes: number;
  abstract forgetPages(): void;
}

/** A sub-run that waits for a decision. */
export interface BegunSubRun {
  /** Enough to go on. */
  readonly saved: JsonObject;
  /** With which it was begun. */
  readonly args: JsonObject;
  /** What it did until now. */
  readonly record: SubRunRecord;
  readonly remains?: SubRunRemains;
}

/** A call that is a run. */
export interface SubRunCall {
  readonly subRun: SubRun;
  readonly tool: ToolSpec;
  readonly prompt: string;
  readonly args: JsonObject;
  readonly request: CallRequest;
  readonly scope: ExecutionScope;
  /** How long it may take. */
  readonly ms: number;
  readonly signal: AbortSignal;
}

/** What a sub-run came to. */
export type SubRunEnding = { readonly record: SubRunRecord } & (
  | { readonly status: 'succeeded'; readonly result: JsonObject; readonly labels: MessageLabels }
  | { readonly status: 'failed'; readonly failure: ToolFailure; readonly labels: MessageLabels }
  /** `unavailable` where it waits for a store that does not answer for now, not for a person. */
  | { readonly status: 'waiting'; readonly begun: BegunSubRun; readonly unavailable?: StorageUnavailableError }
);

/** Performs the calls that are runs, within one run. Whatever happens, a sub-run that has begun ends, and says how. */
export interface SubRuns {
  run(call: SubRunCall): Promise<SubRunEnding>;
}

type CallLimits = Pick<Limits, 'argumentBytes' | 'resultBytes' | 'toolCallMs'>;

/** A sub-run whose time is up ends by itself and says so; until then its call is not cut off. */
const GRACE_MS = 1_000;

/** The limits of one call: the run's, and below them what its policy says. Known once the tool is. */
export function limitsOf(progress: CallProgress): CallLimits {
  const limits = limitsBelow(progress);
  return progress.tool?.subRun ? { ...limits, toolCallMs: limits.toolCallMs + GRACE_MS } : limits;
}

/** How long the run of a call may take. */
export function subRunMs(progress: CallProgress): number {
  return limitsBelow(progress).toolCallMs;
}

function limitsBelow({ scope, decision, tool }: CallProgress): CallLimits {
  const { argumentBytes, resultBytes } = scope.limits;
  const toolCallMs = timeOf(tool, scope.limits);
  const budget = decision?.callBudget;
  if (!budget) return { argumentBytes, resultBytes, toolCallMs };
  return {
    argumentBytes: Math.min(argumentBytes, budget.maxArgsBytes ?? Infinity),
    resultBytes: Math.min(resultBytes, budget.maxResultBytes ?? Infinity),
    toolCallMs: Math.min(toolCallMs, budget.maxRuntimeMs ?? Infinity),
  };
}

function timeOf(tool: Tool | undefined, limits: Limits): number {
  if (!tool?.subRun) return tool?.timeoutMs ?? limits.toolCallMs;
  return Math.min(tool.timeoutMs ?? Infinity, tool.subRun.limits?.runMs ?? Infinity, limits.runMs);
}

/** Thrown to say that a call was not made yet: a signal, no failure. It passes every filter and every retry, and only the runner takes it. */
export class CallPending extends Error {
  override readonly name = 'CallPending';

  /** Without an approval's id the call waits for an earlier one of its step. */
  constructor(
    readonly approvalId?: string,
    /** Set where the call is a run that has begun, and waits for one of its own. */
    readonly begun?: BegunSubRun,
    /** Set where it waits for a store that does not answer for now, not for a person. */
    readonly unavailable?: StorageUnavailableError,
  ) {
    super('The call waits for a decision.');
  }
}

/** More than what a surface adds to the arguments: a larger text has too large arguments, whatever it means. */
const MOST_ADDED_BYTES = 1024;

/** A call over a surface, and the tool of an entity that it means. */
export interface RoutedCall {
  /** The call as it would have been made of the entity's own tool. */
  readonly call: ToolCall;
  readonly tool: Tool;
}

/**
 * What a call over a surface means; undefined for a call of any other tool, and for one that means nothing that is there. Everything behind this sees
 * the very call of the entity's own tool, so that policy, approvals, records and events cannot tell one surface from another.
 */
export function meantCall(call: ToolCall, toolset: Toolset, mostArgumentBytes: number): RoutedCall | undefined {
  const surface = toolset.find(call.name)?.surface;
  if (!surface || Buffer.byteLength(call.arguments) > mostArgumentBytes + MOST_ADDED_BYTES) return undefined;
  const sent = parseJson(call.arguments);
  const meant = sent === undefined ? undefined : surface.meant(sent);
  const tool = meant && toolset.member(meant.declaredId, meant.instanceId);
  return meant && tool && { call: routed(call, tool, meant), tool };
}

function routed(call: ToolCall, { spec }: Tool, { args }: MeantCall): ToolCall {
  return { ...call, name: spec.id, arguments: compactJson(args) };
}

/** Between the versions of several policies that all ask. */
const JOINED = ' + ';

/** What a run does with a call that needs a person's yes. */
export type ApprovalMode = 'suspend' | 'wait' | 'deny';

/** The approvals of one run: which call asked for which, and the decisions that hold for more than one call. */
export class RunApprovals {
  private readonly asked: Map<string, string>;
  private readonly repeated: Map<string, string>;
  private readonly remembered: Map<string, string>;

  constructor(
    readonly mode: ApprovalMode,
    saved: SavedApprovals = { asked: [], repeated: [], remembered: [] },
    /** What a person said yes to before, where a directive is performed. */
    private readonly given?: DirectiveApproval,
  ) {
    this.asked = new Map(saved.asked);
    this.repeated = new Map(saved.repeated);
    this.remembered = new Map(saved.remembered);
  }

  approvalOf(toolCallId: string): string | undefined {
    return this.asked.get(toolCallId);
  }

  ask(toolCallId: string, approvalId: string): void {
    this.asked.set(toolCallId, approvalId);
  }

  /** The approval by which a call of which nobody knows may be made again. */
  repeatOf(toolCallId: string): string | undefined {
    return this.repeated.get(toolCallId);
  }

  askRepeat(toolCallId: string, approvalId: string): void {
    this.repeated.set(toolCallId, approvalId);
  }

  /** The approval whose answer holds for every call of this tool that this rule asks about. */
  standingFor(declaredId: string, rule: string): string | undefined {
    return this.remembered.get(JSON.stringify([declaredId, rule]));
  }

  remember(declaredId: string, rule: string, approvalId: string): void {
    this.remembered.set(JSON.stringify([declaredId, rule]), approvalId);
  }

  /** Whether the yes that a directive was given answers all that policy asks for now. */
  covers({ approval = [], policyVersion }: Decision): boolean {
    if (!this.given) return false;
    const { terms, policyVersion: approvedUnder } = this.given;
    const met = new Set(terms.map(canonicalDeclaration));
    const versions = new Set(approvedUnder.split(JOINED));
    return approval.every((one) => met.has(canonicalDeclaration(one))) && policyVersion.split(JOINED).every((one) => versions.has(one));
  }

  save(): SavedApprovals {
    return { asked: [...this.asked], repeated: [...this.repeated], remembered: [...this.remembered] };
  }
}

/** JSON. */
export interface SavedApprovals {
  readonly asked: readonly (readonly [string, string])[];
  readonly repeated: readonly (readonly [string, string])[];
  readonly remembered: readonly (readonly [string, string])[];
}

export const SAVED_APPROVALS = object<SavedApprovals>({
  asked: list(pair(TEXT)),
  repeated: list(pair(TEXT)),
  remembered: list(pair(TEXT)),
});
