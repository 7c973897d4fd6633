import type { Type } from '@nestjs/common';
import type { Toolset } from '../catalog/toolset.js';
import type { ExecutionScope } from '../execution/execution.scope.js';
import type { InjectionRules } from '../injection/injection.applier.js';
import type { RunReserve } from '../injection/run.reserve.js';
import type { ConversationKey } from '../protocol/conversation-store.js';
import type { HistoryPolicy } from '../protocol/history.js';
import type { LanguageModel } from '../protocol/language-model.js';
import type { LoopRequest } from '../protocol/loop-request.js';
import type { Message } from '../protocol/message.js';
import type { PrepareStep, UpcomingStep } from '../protocol/step-preparation.js';
import type { StopCondition } from '../protocol/stop-condition.js';
import type { Policy } from '../protocol/policy.js';
import type { ToolInjectionStrategy } from '../protocol/tool-injection.js';
import type { ToolInvocationRecord } from '../protocol/tool-invocation-record.js';
import type { QuotaGuard } from './quota.guard.js';
import type { RunPlace } from './live.run.js';
import type { AssumedRoles, Authority } from './run.roles.js';
import type { AnswerShape } from './structured.answer.js';

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
  readonly relist?:
    | ((authority: Authority, records: readonly ToolInvocationRecord[]) => { readonly toolset: Toolset; readonly reserve: RunReserve })
    | undefined;
  readonly injection: Pick<InjectionRules, 'exclude' | 'entities'> & {
    readonly strategies: readonly ToolInjectionStrategy[];
    readonly reserve: RunReserve;
  };
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
