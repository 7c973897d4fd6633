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
import type { Policy } from '../protocol/policy.js';
import type { ToolInjectionStrategy } from '../protocol/tool-injection.js';
import type { QuotaGuard } from './quota.guard.js';
import type { AnswerShape } from './structured.answer.js';

/** A request that was checked, with everything that is fixed for the run. */
export interface RunPlan<Output = unknown> {
  readonly model: LanguageModel;
  /** Asked once, when the run starts. */
  readonly instructions: () => string | undefined | Promise<string | undefined>;
  /** What the request adds to the conversation, or all of it where there is no conversation. */
  readonly messages: readonly Message[];
  readonly conversation: ConversationKey | undefined;
  /** What policy lets the run start with. */
  readonly toolset: Toolset;
  /** Whether the model is told of a tool only once the tool's own `canCall` has let the actor in. */
  readonly strictListing: boolean;
  readonly execution: Pick<ExecutionScope, 'run' | 'requestId' | 'actorId' | 'actor' | 'policies' | 'limits' | 'options' | 'agentName'>;
  /** Absent where the tenant has none. */
  readonly quotas: QuotaGuard | undefined;
  /** The policies of the run and its loop, beside the application's. */
  readonly narrowing: readonly Policy[];
  readonly injection: Pick<InjectionRules, 'exclude' | 'entities'> & {
    readonly strategies: readonly ToolInjectionStrategy[];
    readonly reserve: RunReserve;
  };
  readonly history: HistoryPolicy | undefined;
  /** Knows the run already. */
  readonly prepareStep: ((step: Omit<UpcomingStep, 'run'>) => ReturnType<PrepareStep>) | undefined;
  readonly answer: (AnswerShape & { readonly type: Type<Output> }) | undefined;
  readonly options: Pick<LoopRequest, 'onToolError' | 'onForbidden' | 'approvals' | 'hooks' | 'toolChoice' | 'modelOptions' | 'signal'>;
}
