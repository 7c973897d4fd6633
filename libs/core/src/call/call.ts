import type {
  Decision,
  JsonObject,
  MessageLabels,
  SubRunRecord,
  ToolCall,
  ToolFailure,
  ToolMessage,
} from '@toolloop/protocol';
import type { Toolset } from '../catalog/toolset.js';
import type { ExecutionOptions } from '../contracts/execution-options.js';
import type { Lease } from '../contracts/lease.js';
import type { Limits } from '../contracts/limits.js';
import type {
  InformationFlow,
  PolicyActor,
  PolicyEngine,
  RunSpending,
} from '../contracts/policy.js';
import type { RunJournal } from '../contracts/run-log.js';
import type { RunContext } from '../contracts/tool-call.js';
import type { Tool, ToolSurface } from '../contracts/tool.js';
import type { RunApprovals } from '../plugins/approvals/run-approvals.js';
import type { CallCredentials } from '../plugins/connections/call-credentials.js';
import type { ResultPages } from '../plugins/pages/result-pages.js';
import type { RunRehearsal } from '../plugins/rehearsals/run-rehearsal.js';
import type { SubRunCheckpoint, SubRuns } from '../plugins/sub-runs/sub-runs.js';
import type { SpendingLedger } from '../plugins/usage/spending.js';
import type { OutsideArgument, RunValues } from '../plugins/values/value-references.js';
import type { CallHooks } from '../plugin/call-hooks.js';
import type { PluginsOfRun } from '../plugin/plugins.js';
import type { RunView } from '../plugin/run-view.js';
import type { EmitEvent } from './emit-event.js';
import { CallPending, type EffectAttempt, type RequestedEffect } from './outcome.js';

/**
 * One call on its way through the pipeline, with everything that is known of it. A stage takes the
 * type that the stage before returned and adds to the call with {@link advance} alone, so that a
 * call that fails is recorded as far as it came.
 */
export interface Call {
  readonly request: PlacedCall;
  readonly scope: ExecutionScope;
  /** The run as plugins see it. */
  readonly run: RunView;
  /** The hooks of the plugins that the call concerns; those of its tool once that is known. */
  readonly hooks: CallHooks;
  readonly startedAt: Date;
  /**
   * The tool's own are in it once the call is known to be permitted: until then it must read like a
   * call of no tool.
   */
  readonly options: ExecutionOptions;
  /**
   * Credentials handed to the tool, which nothing that leaves the call may tell. Absent until the
   * first.
   */
  readonly credentials?: CallCredentials;
  /**
   * Set on a call over a surface, with its name as the model wrote it. `request` holds the call of
   * the entity's own tool already.
   */
  readonly routed?: { readonly surface: ToolSurface; readonly calledAs: string };
  readonly tool?: Tool;
  /** The tool whose result the call shows. Absent if it is its own. */
  readonly shownTool?: Tool;
  readonly decision?: Decision;
  readonly limits?: CallLimits;
  readonly input?: ReadArguments;
  /** The same arguments before an approver changed them. */
  readonly sent?: ReadArguments;
  /** The call's part in budgets of policy, once it is let in. */
  readonly charge?: RunSpending['calls'][number];
  /** Set where the call requests its effect, which happens later. */
  readonly requested?: RequestedEffect;
  /**
   * Uses up the approval of a requested effect; rejects where that cannot be. It is kept with the
   * request, or not at all.
   */
  readonly takeApproval?: () => Promise<void>;
  /** The key that the tool declares for this input. */
  readonly idempotencyKey?: string;
  /** The lease of its key in the journal, once it is this call's. */
  readonly lease?: Lease;
  /**
   * Set where a process that is gone had begun the call, so that it may have taken place already.
   */
  readonly hasTakenOver?: true;
  /** The question at which its attempt has ended. */
  readonly asking?: CallPending | undefined;
  /** Set once its method is about to be called: whether the call has waited since a first time. */
  readonly isContinued?: boolean;
  /** Set where the method was called and a store has failed since. */
  readonly isInFlight?: true;
  /** From 1. @default 1 */
  readonly attempt?: number;
  /** The record of a call that is a run, as far as it came. */
  readonly subRun?: SubRunRecord;
  /**
   * Runs code of the application behind what was rehearsed before, and rolls it back. Set in a
   * rehearsal.
   */
  readonly rolledBack?: <Result>(work: () => Promise<Result>) => Promise<Result>;
  /** Set in a rehearsal, once it is known which. */
  readonly rehearsal?: 'rehearsed' | 'previewed';
  /** Labels of the result, where they are not the same for every call of the tool. */
  readonly labels?: MessageLabels;
}

/** As much of a name that a model made up as is said back to it, and logged. */
export const MOST_OF_A_NAME = 64;

/** The scope of a call: whose run, which tools, under which policies and limits. */
export interface ExecutionScope {
  readonly run: RunContext;
  readonly requestId: string;
  /** Part of the idempotency key, so that one actor's key never answers another. */
  readonly actorId: string | undefined;
  /**
   * The hash of the conversation's key: what waits in it is not asked for twice. Absent outside of
   * a conversation.
   */
  readonly conversation?: string;
  /**
   * In a sub-run the steps and indexes of the calls around it, from the root. Part of the
   * idempotency key, so that no call has that of another.
   */
  readonly callPath?: readonly number[];
  readonly toolset: Toolset;
  /**
   * The reason for which the application vouches for the client that makes the calls. Absent where
   * it does not.
   */
  readonly vouchedFor?: string | undefined;
  /** The actor for whom policies decide. */
  readonly actor: PolicyActor;
  readonly policies: readonly PolicyEngine[];
  /** The labels of what the model had read when it made the call. */
  readonly flow: InformationFlow;
  readonly spending: SpendingLedger;
  readonly approvals: RunApprovals;
  /**
   * The results that are too large, for the model to read in pages; absent if the run has no tool
   * for it.
   */
  readonly pages?: ResultPages;
  /** The texts from outside that the model knows by references; absent where no model asks. */
  readonly values?: RunValues;
  /** The changes of an answer that has given way to the run's. */
  readonly standing?: { same(call: ReadCall): ToolMessage | undefined };
  /** Set where the run is a rehearsal: nothing that its calls change is kept. */
  readonly rehearsal?: RunRehearsal;
  readonly limits: Limits;
  /** The run's execution options for its calls. */
  readonly options?: Partial<ExecutionOptions>;
  /** The name of the agent that calls, for the metadata of results. */
  readonly agentName?: string;
  /**
   * Attempts reads, and writes with a key of their own, again when that may help. @default false
   */
  readonly retry?: boolean;
  /** The plugins that take part in the run. */
  readonly plugins: PluginsOfRun;
  /**
   * Called once the key of a call is this caller's, before its method: what it rejects with is the
   * failure of the call, which is not made.
   */
  readonly beforeEffect?: () => Promise<void>;
  /**
   * The journal of a durable run. What was noted in it is kept with the key of a call, and before
   * anybody is asked about one; what the audit has not taken, with the outcome of a call.
   */
  readonly journal?: Pick<RunJournal, 'calls' | 'kept' | 'owe'>;
  /**
   * Keeps what plugins have changed with the key of a call, or before it is taken. Absent in a run
   * that is not durable.
   */
  readonly keepValues?: (callId: string) => Promise<void>;
  /** Set where an effect that was asked for before happens. */
  readonly performing?: EffectAttempt;
  /**
   * Performs tools whose call is a run; absent outside of a run, and where runs are nested as deep
   * as they may be.
   */
  readonly subRuns?: SubRuns;
  readonly signal: AbortSignal;
  /** Never throws, nor rejects. */
  readonly emit: EmitEvent;
}

/** One call and its place in the run. */
export interface PlacedCall {
  readonly call: ToolCall;
  /** From 1. */
  readonly step: number;
  /** Position among the calls of the step, from 0. */
  readonly index: number;
  /**
   * Set where the loop does not let the call happen, e.g. for a limit; the pipeline answers it with
   * this.
   */
  readonly refusal?: ToolFailure;
  /**
   * The SHA-256 of the canonical arguments with which it was approved: with others it is not made.
   */
  readonly approvedAs?: string;
  /**
   * Set where an earlier call of the step waits for a decision: the call may ask for one as well,
   * but is neither made nor refused before that call has its result.
   */
  readonly isDeferred?: boolean;
  /** Set where a process that is gone may have begun the call. @default false */
  readonly mayHaveRun?: boolean;
  /** Set where the call is a sub-run that has begun, and waited. */
  readonly checkpoint?: SubRunCheckpoint;
  /**
   * The arguments that hold text from outside, of a call that is made with the texts in the place
   * of references: one of a directive, or of a rehearsal. Nothing is put into them.
   */
  readonly outside?: readonly OutsideArgument[] | undefined;
}

/** Arguments that passed every check. */
export interface ReadArguments {
  /**
   * Canonical JSON, optional nulls left out and defaults filled in: it is hashed, approved and
   * stored.
   */
  readonly canonical: string;
  /**
   * The canonical JSON of what they mean, if it is another: that of a call which changes something,
   * before its tool can change them.
   */
  readonly meaning?: string;
  readonly args: JsonObject;
  /** The input of the tool's method, built from the canonical JSON. */
  readonly built: unknown;
  /** The arguments that hold text from outside, by references. */
  readonly outside?: readonly OutsideArgument[];
  /** The arguments as they were before guards and pipes changed them. */
  readonly beforePipes?: Pick<ReadArguments, 'canonical' | 'meaning'>;
}

/** The limits of one call: the run's, and below them those of its policy. */
export type CallLimits = Pick<Limits, 'argumentBytes' | 'resultBytes' | 'toolCallMs'>;

/** A call whose tool is known and may be called. */
export type ResolvedCall = Call & Required<Pick<Call, 'tool' | 'limits'>>;

/** A call whose arguments passed every check. */
export type ReadCall = ResolvedCall & Required<Pick<Call, 'input'>>;

/** A call on which policy has decided, arguments included. */
export type DecidedCall = ReadCall & Required<Pick<Call, 'decision'>>;

/** A call that may be made. */
export type AuthorisedCall = ReadCall & Required<Pick<Call, 'sent'>>;

/** Adds what a stage has found out, and returns the call as the next stage takes it. */
export const advance = <From extends Call, Found extends Partial<Call>>(
  call: From,
  found: Found,
): From & Found => Object.assign(call, found);

/**
 * Runs code of the application about a call, in a rehearsal as if what was rehearsed before had
 * taken place.
 */
export function inPlace<Result>(
  { rolledBack }: Call,
  work: () => Promise<Result>,
): Promise<Result> {
  return rolledBack ? rolledBack(work) : work();
}

/** A call over a surface, and the tool of an entity that it means. */
export interface RoutedCall {
  /** The call as it would have been made of the entity's own tool. */
  readonly call: ToolCall;
  readonly tool: Tool;
}
