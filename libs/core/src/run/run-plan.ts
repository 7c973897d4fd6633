import type { Type } from '@nestjs/common';
import type {
  JsonObject,
  LanguageModel,
  LoopEventBody,
  Message,
  RunIdentity,
  ToolInvocationRecord,
  ToolSpec,
} from '@toolloop/protocol';
import type { Toolset } from '../catalog/toolset.js';
import type { HistoryPolicy } from '../contracts/history.js';
import type { LoopRequest } from '../contracts/loop-request.js';
import type { PrepareStep, UpcomingStep } from '../contracts/prepare-step.js';
import type { StopCondition } from '../contracts/stop-condition.js';
import type { InformationFlow, Policy } from '../contracts/policy.js';
import type { ConversationKey } from '../contracts/conversation.js';
import type { Tool } from '../contracts/tool.js';
import type { ExecutionScope } from '../call/call.js';
import type { EmitEvent } from '../call/emit-event.js';
import type { SubRuns } from '../plugins/sub-runs/sub-runs.js';
import type { ResultPages } from '../plugins/pages/result-pages.js';
import type { Plugins, PluginsOfRun } from '../plugin/plugins.js';
import type { PluginRunOptions } from '../plugin/run-view.js';
import type { DeclaredTools } from '../plugins/client-tools/declared-tools.js';
import type { RunEntityHandles } from '../plugins/entities/entity-handles.js';
import type { RunInstances } from '../plugins/entities/run-instances.js';
import type { ListedTools, RunInjection } from '../plugins/injection/starting-toolset.js';
import type { RunReserve } from '../plugins/injection/tool-reserve.js';
import type { RunApprovals } from '../plugins/approvals/run-approvals.js';
import type { RunValues } from '../plugins/values/value-references.js';
import type { SpendingLedger } from '../plugins/usage/spending.js';
import type { RunInputs } from './run-inputs.js';
import type { RunUse } from './run-use.js';
import type { AssumedRoles, Authority, RunRoles } from './run-roles.js';
import type { RunRecorder } from './run-recorder.js';
import type { ResumedRun } from './saved-run.js';
import type { CallAccount } from '../plugins/sessions/call-account.js';
import type { AnswerShape } from '../plugins/structured-output/structured-answer.js';

/** A request that was checked, with everything that is fixed for the run. */
export interface RunPlan<Output = unknown> {
  readonly model: LanguageModel;
  /** Asked once, when the run starts. */
  readonly instructions: () => Promise<string | undefined>;
  /** The name of its loop; absent for `ToolLoopService` itself. */
  readonly loop?: string | undefined;
  /** Set for a durable run that waited for a process. */
  readonly queued?: QueuedRun | undefined;
  /** Set in a sub-run: the run around it. */
  readonly within?: RunPlace;
  /** True for a run of one call, which asks no model. */
  readonly isOneCall: boolean;
  /** Set for a session, its calls, and those of its calls that are resumed after they waited. */
  readonly account?: CallAccount | undefined;
  /** Set for a call of a session. */
  readonly session?: CallSession | undefined;
  /**
   * The messages that the request adds to the conversation, or all of them without a conversation.
   */
  readonly messages: readonly Message[];
  readonly conversation: ConversationKey | undefined;
  /** The tools that policy lets the run start with. */
  readonly toolset: Toolset;
  /** The tools that its client declares. */
  readonly declared: DeclaredTools;
  /** The version of the catalog from which they were listed. */
  readonly listedAt: number;
  /**
   * True if the model is told of a tool only once the tool's own `canCall` has let the actor in.
   */
  readonly strictListing: boolean;
  readonly execution: Pick<
    ExecutionScope,
    | 'run'
    | 'requestId'
    | 'actorId'
    | 'vouchedFor'
    | 'conversation'
    | 'callPath'
    | 'actor'
    | 'policies'
    | 'limits'
    | 'options'
    | 'agentName'
  >;
  /** The options that its plugins read. A sub-run has those of the run around it. */
  readonly given: Partial<PluginRunOptions>;
  /** The revision of the policies by which the tools were listed. */
  readonly listedUnder: number;
  /** Returns a tool as the policy in force labels it. */
  readonly label: (tool: Tool) => Tool;
  /** The policies of the run and its loop, beside the application's. */
  readonly narrowing: readonly Policy[];
  /** The actor's roles at this moment. */
  readonly rolesNow: () => readonly string[];
  /** The roles that the run begins with. @default all */
  readonly assumed?: AssumedRoles | undefined;
  /**
   * Returns the tools that the run would begin with under another authority. Absent in a sub-run,
   * which has those of the run around it.
   */
  readonly relist?:
    ((authority: Authority, records: readonly ToolInvocationRecord[]) => ListedTools) | undefined;
  readonly injection: RunInjection;
  readonly history: HistoryPolicy | undefined;
  /** Knows the run already. */
  readonly prepareStep: ((step: Omit<UpcomingStep, 'run'>) => ReturnType<PrepareStep>) | undefined;
  /** Each of them ends the run. */
  readonly stopWhen: readonly StopCondition[];
  readonly answer: (AnswerShape & { readonly type: Type<Output> }) | undefined;
  readonly options: Partial<EveryRunOption>;
}

/** The run around a sub-run, as far as a sub-run has a share in it. */
export interface EnclosingRun {
  readonly plan: RunPlan;
  readonly handles: RunEntityHandles;
  readonly instances: RunInstances;
  readonly spending: SpendingLedger;
  readonly use: RunUse;
  readonly roles: RunRoles;
  readonly approvals: RunApprovals;
  readonly reserve: RunReserve;
  readonly values: RunValues | undefined;
  /** Those of them that there are; undefined while nothing is hidden. */
  readonly hiddenTexts: RunValues | undefined;
  readonly recorder: RunRecorder | undefined;
  /** Keeps what plugins have changed, in the runs around as well, before the effect of a call. */
  keepValues(callId: string): Promise<void>;
  readonly plugins: PluginsOfRun;
  readonly isElsewhere: boolean;
  readonly emit: EmitEvent;
}

/** The beginning of a run, beside its plan. */
export interface RunStart {
  readonly instructions: string | undefined;
  readonly history: readonly Message[];
  /** Filled by `RunHandle.addInput` during the run. */
  readonly inputs: RunInputs;
  /** Set where the run continues after it stood still. */
  readonly resumed?: ResumedRun;
  readonly subRuns: SubRunsWithin;
  readonly plugins: Plugins;
}

/** Opens the sub-runs of a run. */
export interface SubRunsWithin {
  /**
   * The sub-runs of a run that has these tools; undefined where runs are nested as deep as they may
   * be.
   */
  within(live: EnclosingRun, toolset: Toolset): SubRuns | undefined;
}

/** The place of a sub-run in the run around it. */
export interface RunPlace {
  readonly live: EnclosingRun;
  /** The labels of what the model that called it had read. */
  readonly flow: InformationFlow;
  readonly toolCallId: string;
  /** With which it was begun. */
  readonly args: JsonObject;
  readonly tool: string;
  readonly step: number;
  /** True if a process that is gone may have begun the sub-run, and made its calls. */
  readonly mayHaveRun: boolean;
}

/** The session of a call, with all that its calls share. */
export interface CallSession {
  readonly live: EnclosingRun & {
    readonly approvals: RunApprovals;
    readonly pages: ResultPages | undefined;
  };
  /** Changes the tools of the session, one change after the other. */
  change(inject: (toolset: Toolset) => Promise<Toolset>): Promise<Toolset>;
}

/** The wait of a durable run for a process. */
export interface QueuedRun {
  readonly forMs: number;
  /** The trace context of the request that asked for the run. */
  readonly trace?: string;
}

/**
 * The options of a request that hold during its run. All of them, so that a new one does not
 * compile until a sub-run takes it over or leaves it out.
 */
export type EveryRunOption = {
  readonly [
    Name in
      | 'labels'
      | 'onToolError'
      | 'onForbidden'
      | 'approvals'
      | 'rehearse'
      | 'whenBusy'
      | 'cut'
      | 'toolChoice'
      | 'keepToolChoice'
      | 'modelOptions'
      | 'signal'
  ]: LoopRequest[Name] | undefined;
};

/** Returns whose run it is. */
export function identityOf({ execution, loop }: Pick<RunPlan, 'execution' | 'loop'>): RunIdentity {
  const { run, actorId } = execution;
  const { runId, tenant } = run;
  return Object.freeze({
    runId,
    tenant,
    ...(actorId !== undefined && { actorId }),
    ...(loop !== undefined && { loop }),
  });
}

/** The event with which a run begins, once it has these tools. */
export function startEvent(
  { model, isOneCall, conversation, execution, within, options }: RunPlan,
  toolset: Toolset,
): LoopEventBody {
  const tools = idsOf(toolset.specs);
  return {
    type: 'run-start',
    requestId: execution.requestId,
    ...(conversation && { conversationId: conversation.conversationId }),
    ...(!isOneCall && { model: model.modelId }),
    tools,
    ...(options.rehearse && { isRehearsal: true }),
    ...(within && {
      within: {
        runId: within.live.plan.execution.run.runId,
        toolCallId: within.toolCallId,
        tool: within.tool,
      },
    }),
  };
}

/** The ids of whole lists, which runs share: an open run need not have its own. */
const ids = new WeakMap<readonly ToolSpec[], readonly string[]>();

function idsOf(specs: readonly ToolSpec[]): readonly string[] {
  const known = ids.get(specs) ?? Object.freeze(specs.map(({ id }) => id));
  ids.set(specs, known);
  return known;
}
