export { ApprovalStore, ApprovalWitness } from './protocol/approval.js';
export type {
  ApprovalAmendment,
  ApprovalAnswer,
  ApprovalBinding,
  ApprovalDecision,
  ApprovalQuery,
  ApprovalRecord,
  ApprovalRequest,
  ApprovalView,
  PreviewChange,
  RefusedDecision,
  ToolPreview,
} from './protocol/approval.js';
export { ApprovalError } from './approval/approval.error.js';
export { ApprovalService, type ApprovalFilter, type Approver } from './approval/approval.service.js';
export { MemoryApprovalStore } from './approval/memory.approval.store.js';
export { withdrawal } from './approval/withdrawn-approvals.js';
export { DataPolicyEngine } from './policy/data.policy.engine.js';
export { AttachedResult, attach } from './protocol/attachment.js';
export type { Attachment, AttachmentDigest, MediaPart, RecordedAttachment } from './protocol/attachment.js';
export { AuditError, AuditStore } from './protocol/audit.js';
export type { AuditEntry, AuditEvent, AuditEvidence, AuditHead, AuditStamp, AuditSubject, SignedAuditHead } from './protocol/audit.js';
export { CallJournal, type JournalCall, type JournalEntry } from './protocol/call-journal.js';
export { CallTransactions } from './protocol/call-transactions.js';
export type { JournalClaim, JournalHold, JournalKey, JournalOutcome, JournalStart } from './protocol/call-journal.js';
export type { Citation } from './protocol/citation.js';
export { isWebAddress } from './protocol/web-address.js';
export { ConversationStore } from './protocol/conversation-store.js';
export { EntityResolver } from './protocol/entity-resolver.js';
export type { EntityContext, Rehydrate } from './protocol/entity-resolver.js';
export type {
  ConversationKey,
  ConversationListing,
  ConversationOwner,
  ConversationSummary,
  MessagePage,
} from './protocol/conversation-store.js';
export { ConversationService } from './loop/conversation.service.js';
export type { ConversationEntry, ConversationPart, ConversationReader } from './loop/conversation.service.js';
export { DIRECTIVE_STATUSES, DirectiveStore, toDirectiveEvent } from './protocol/directive.js';
export type {
  AddedDirective,
  DirectiveApproval,
  DirectiveAuthority,
  DirectiveCall,
  DirectiveChange,
  DirectiveEvent,
  DirectiveEventType,
  DirectiveIntent,
  DirectiveQuery,
  DirectiveRecord,
  DirectiveReference,
  DirectiveRequest,
  DirectiveState,
  DirectiveStatus,
  DirectiveTask,
  DirectiveVersion,
  StopWork,
} from './protocol/directive.js';
export { DirectiveError } from './loop/directives/directive.error.js';
export type { DirectiveErrorCode } from './loop/directives/directive.error.js';
export { DirectiveService } from './loop/directives/directive.service.js';
export type { DirectiveFilter, DirectiveFinding, DirectiveOperator } from './loop/directives/directive.service.js';
export type { DirectiveOptions } from './loop/directives/directive.options.js';
export type { DirectiveView } from './loop/directives/directive.view.js';
export { MemoryDirectiveStore } from './loop/directives/memory.directive.store.js';
export type { DirectiveDeclaration, RawDirectiveDeclaration } from './decorators/directive.declaration.js';
export {
  ConfigurationError,
  InvalidRequestError,
  ModelError,
  RunElsewhereError,
  RunError,
  StorageUnavailableError,
} from './protocol/errors.js';
export type { Finding, ModelErrorOptions } from './protocol/errors.js';
export { askStore, outsideOfRuns } from './execution/store-calls.js';
export { DEFAULT_EXECUTION } from './protocol/execution-options.js';
export type { ExecutionOptions, ToolExecutionOptions } from './protocol/execution-options.js';
export { HistoryPolicy, TokenCounter } from './protocol/history.js';
export type { HistoryContext, HistoryCut } from './protocol/history.js';
export type { JsonObject, JsonValue } from './protocol/json.js';
export { LanguageModel } from './protocol/language-model.js';
export type {
  AnswerFormat,
  ModelCapabilities,
  ModelEvent,
  ModelFinish,
  ModelFinishReason,
  ModelOptions,
  ProviderToolStatus,
  ModelRequest,
  ToolChoice,
} from './protocol/language-model.js';
export { DEFAULT_LIMITS } from './protocol/limits.js';
export type { Limits } from './protocol/limits.js';
export { LoopEventSink } from './protocol/loop-event.js';
export type { EventStamp, LoopEvent, LoopEventBody, LoopEventOf, ToolPrefix, WarningCode } from './protocol/loop-event.js';
export { SAID_BY_THE_RUN, type LoopProfile } from './protocol/loop-profile.js';
export type { LoopHooks, LoopIteration, LoopRequest, ResumeRequest, ToolSelector } from './protocol/loop-request.js';
export type { FinishReason, LoopResult, RunFailure } from './protocol/loop-result.js';
export type {
  AssistantMessage,
  ContentPart,
  Message,
  MessageLabels,
  SystemMessage,
  ToolCall,
  ToolMessage,
  UserMessage,
} from './protocol/message.js';
export { PolicyEngine } from './protocol/policy.js';
export type {
  ApprovalRule,
  ApprovalTerms,
  CallBudget,
  ConnectionRule,
  Decision,
  FlowLevel,
  InformationFlow,
  Policy,
  PolicyActor,
  PolicyCall,
  PolicyGrants,
  PolicySubject,
  PolicyTool,
  RunBudget,
  RunSpending,
  VouchedTool,
} from './protocol/policy.js';
export { QuotaStore, type Quota, type QuotaQuantity, type QuotaUse } from './protocol/quota.js';
export type { Register, RegisteredActor } from './protocol/register.js';
export type { RunHandle } from './protocol/run-handle.js';
export type { RunEntry, RunJournal } from './protocol/run-journal.js';
export { ActorDirectory } from './protocol/actor-directory.js';
export { ActorIdentity } from './policy/actor.identity.js';
export { DurableRuns, type NamedProfile } from './protocol/durable-runs.js';
export { farewell } from './loop/open.runs.js';
export { RunOpener, type KeptRun } from './loop/run.opener.js';
export { ToolLoopStores } from './protocol/stores.js';
export { SuspendedRunStore } from './protocol/suspended-run.js';
export type { SuspendedRun } from './protocol/suspended-run.js';
export { MemorySuspendedRunStore } from './loop/memory.suspended.run.store.js';
export { Secret } from './protocol/secret.js';
export { AnswerFold, assemble } from './protocol/model-answer.js';
export type { ModelAnswer } from './protocol/model-answer.js';
export { fallback } from './model/fallback.js';
export type { FallbackOptions } from './model/fallback.js';
export type { ModelPrice, ModelPrices } from './model/model-prices.js';
export { priced } from './model/priced.js';
export { rateLimited } from './model/rate-limited.js';
export type { RateLimits } from './model/rate.limiter.js';
export { retried } from './model/retried.js';
export type { RetryOptions } from './model/retried.js';
export type { PrepareStep, StepChange, UpcomingStep } from './protocol/step-preparation.js';
export { TOOL_EFFECTS, ToolSource } from './protocol/tool.js';
export type {
  ArgumentProblem,
  Audience,
  EntityReference,
  IdempotencyScope,
  InputReading,
  MeantCall,
  ProjectionObserver,
  PerformedDirective,
  ReservedAllowance,
  ResultProjector,
  Tool,
  ToolDirective,
  ToolEffect,
  ToolInputCodec,
  ToolLabels,
  ToolOrigin,
  ToolRedaction,
  ToolRehydration,
  ToolSpec,
  ToolSurface,
} from './protocol/tool.js';
export { ConnectionBroker } from './protocol/tool-call-context.js';
export type { Credential, RunContext, ToolCallContext } from './protocol/tool-call-context.js';
export { ToolError } from './protocol/tool-error.js';
export type { JsonApiError, ToolErrorCode, ToolErrorOptions, ToolFailure } from './protocol/tool-error.js';
export { ToolInjectionStrategy } from './protocol/tool-injection.js';
export type {
  EntityHandles,
  EntityKey,
  EntitySurface,
  InjectionResult,
  RunBeginning,
  ToolInjection,
  ToolInjectionContext,
  WithheldTools,
} from './protocol/tool-injection.js';
export type { ToolInvocationRecord } from './protocol/tool-invocation-record.js';
export { NO_USAGE, addUsage } from './protocol/usage.js';
export type { Usage } from './protocol/usage.js';
export { LlmTool } from './decorators/llm-tool.decorator.js';
export type { LlmToolOptions, OutputDeclaration, OutputShape } from './decorators/llm-tool.decorator.js';
export { ToolEntityResolver } from './decorators/tool-entity-resolver.decorator.js';
export { ToolContext, ToolInput, ToolParam } from './decorators/tool-parameter.decorators.js';
export type { ToolParamOptions } from './decorators/tool-parameter.decorators.js';
export { ToolProvider } from './decorators/tool-provider.decorator.js';
export type { ToolProviderOptions } from './decorators/tool-provider.decorator.js';
export { ToolInterceptor } from './protocol/tool-interceptor.js';
export type { ToolInvocation } from './protocol/tool-interceptor.js';
export type { AuditKey, AuditKeys, AuditOptions } from './audit/audit.options.js';
export { AuditTrail } from './audit/audit.trail.js';
export type { AuditDraft, AuditedArguments } from './audit/audit.trail.js';
export { verifyAudit } from './audit/audit-verification.js';
export type { AuditVerification, AuditVerificationOptions } from './audit/audit-verification.js';
export type { AuditBreak } from './audit/chain.walk.js';
export { MemoryAuditStore } from './audit/memory.audit.store.js';
export { ToolCatalog } from './catalog/tool.catalog.js';
export type { ToolDescription, ToolSelection } from './catalog/tool.catalog.js';
export { ToolRegistry } from './catalog/tool.registry.js';
export type { BuildStats, RegistryStats } from './catalog/tool.registry.js';
export type { ToolFeatureOptions } from './discovery/tool-feature.js';
export { ToolCallStorage } from './execution/tool-call.storage.js';
export { ToolRunner } from './execution/tool.runner.js';
export { MemoryCallJournal } from './execution/memory.call.journal.js';
export { AssumedRolesStrategy, assumeRoles } from './injection/assumed.roles.strategy.js';
export type { AssumedRolesOptions, RoleChange } from './injection/assumed.roles.strategy.js';
export { PhasesStrategy, phases } from './injection/phases.strategy.js';
export type { PhaseChange, PhaseState, PhasesOptions } from './injection/phases.strategy.js';
export type { ResultTrigger } from './injection/result-trigger.js';
export { ToolSearchStrategy, toolSearch } from './injection/tool-search.strategy.js';
export type { ToolSearchOptions } from './injection/tool-search.strategy.js';
export { UnlockStrategy, unlock } from './injection/unlock.strategy.js';
export type { UnlockOptions } from './injection/unlock.strategy.js';
export { InjectToolLoop, toolLoopToken } from './loop/inject-tool-loop.decorator.js';
export type { MessageExtent, TokenExtent } from './loop/history/history-extent.js';
export { keepEverything } from './loop/history/keep-everything.js';
export { slidingWindow } from './loop/history/sliding-window.js';
export { summarised } from './loop/history/summarised.js';
export type { SummaryOptions } from './loop/history/summarised.js';
export { tokenBudget } from './loop/history/token-budget.js';
export { MemoryConversationStore } from './loop/memory.conversation.store.js';
export { MemoryQuotaStore } from './loop/memory.quota.store.js';
export type { ToolLoopOptions } from './loop/tool-loop.options.js';
export type { ListingRequest } from './loop/run.preparation.js';
export { ToolLoopService } from './loop/tool-loop.service.js';
export { policies } from './policy/policy-presets.js';
export { ToolLoopModule } from './tool-loop.module.js';
export type { ToolLoopExtras } from './tool-loop.module.js';
export { ToolField } from './decorators/tool-field.decorator.js';
export type { ToolFieldOptions } from './decorators/tool-field.decorator.js';
export type { RawInput, RawToolClass, RawToolDeclaration, StandardInput } from './decorators/raw-tool.declaration.js';
export { subRunTool } from './decorators/sub-run-tool.js';
export type { SubRunInput, SubRunToolDeclaration } from './decorators/sub-run-tool.js';
export type { SubRun, SubRunProfile, SubRunRecord } from './protocol/sub-run.js';
export type { FinishedStep, StopCondition } from './protocol/stop-condition.js';
export { calledTool, maxSteps } from './loop/stop.condition.js';
export { RawTool, rawTool, tool } from './decorators/raw-tool.js';
export type { RawToolSettings } from './decorators/raw-tool.js';
export { TOOL_CONTEXT_TYPE, ToolExecutionContext } from './discovery/tool-execution.context.js';
export type { ToolLayers } from './protocol/tool-layers.js';
export { toResultJson } from './schema/revealed.projection.js';
