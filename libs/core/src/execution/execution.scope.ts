import type { StorageUnavailableError } from '../protocol/errors.js';
import type { Toolset } from '../catalog/toolset.js';
import type { SpendingLedger } from '../policy/spending.ledger.js';
import type { DirectiveRecord } from '../protocol/directive.js';
import type { ExecutionOptions } from '../protocol/execution-options.js';
import type { JsonObject } from '../protocol/json.js';
import type { Limits } from '../protocol/limits.js';
import type { LoopEventBody } from '../protocol/loop-event.js';
import type { MessageLabels, ToolCall, ToolMessage } from '../protocol/message.js';
import type { Decision, InformationFlow, PolicyActor, PolicyEngine, RunSpending } from '../protocol/policy.js';
import type { SubRunRecord } from '../protocol/sub-run.js';
import type { RunContext } from '../protocol/tool-call-context.js';
import type { ToolInvocationRecord } from '../protocol/tool-invocation-record.js';
import type { EntityKey, NoticedResult } from '../protocol/tool-injection.js';
import type { Tool, ToolSurface } from '../protocol/tool.js';
import type { ToolFailure } from '../protocol/tool-error.js';
import type { OperationsOn } from './available-operations.js';
import type { CallCredentials } from './call.credentials.js';
import type { DirectiveAttempt } from './directive.attempt.js';
import type { ResultPages } from './result.pages.js';
import type { RunApprovals } from './run.approvals.js';
import type { BegunSubRun, SubRuns } from './sub-runs.js';

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
