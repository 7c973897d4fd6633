export {
  isDeeperThan,
  isJsonList,
  isJsonObject,
  isObject,
  isRecord,
  isWebAddress,
} from './json.js';
export type { JsonObject, JsonValue } from './json.js';
export { addressable, visible } from './visible.js';
export { NO_USAGE, addUsage, usageSince } from './message.js';
export type {
  AssistantMessage,
  AttachmentDigest,
  CallChange,
  Citation,
  ContentPart,
  HiddenValue,
  MediaPart,
  Message,
  MessageLabels,
  OfferedEntity,
  RecordedAttachment,
  SystemMessage,
  ToolCall,
  ToolMessage,
  ToolNote,
  Usage,
  UserMessage,
} from './message.js';
export { PRESENTATION_TONES, RESULT_FORMS, TOOL_EFFECTS } from './tool-definition.js';
export type {
  ArgumentProblem,
  Audience,
  DeclaredTool,
  EntityReference,
  ToolEffect,
  ToolLabels,
  ToolOrigin,
  ToolPresentation,
  ToolRedaction,
  ToolSpec,
  ValueOrigin,
} from './tool-definition.js';
export { duplicatesOf, recogniseCopies, registerCopy } from './copies.js';
export { AttemptClock } from './attempt-clock.js';
export { LanguageModel, TokenCounter } from './language-model.js';
export type {
  AnswerFormat,
  AttemptControl,
  ModelCapabilities,
  ModelEvent,
  ModelFinish,
  ModelFinishReason,
  ModelOptions,
  ModelRequest,
  ModelResponseIdentity,
  ModelTimeLimits,
  ProviderToolStatus,
  ToolChoice,
} from './language-model.js';
export { AnswerFold, assemble } from './model-answer.js';
export { BatchedEvents, batchesOf } from './event-batches.js';
export type { EventBatches } from './event-batches.js';
export type { ModelAnswer } from './model-answer.js';
export { DIRECTIVE_STATUSES } from './decision.js';
export type {
  ApprovalDecision,
  ApprovalEscalation,
  ApprovalGroup,
  ApprovalRequest,
  ApprovalTerms,
  CallBudget,
  ClientCallAnswer,
  ClientCallRequest,
  ComparedCall,
  Decision,
  DirectiveEventType,
  DirectiveRequest,
  DirectiveStatus,
  Endorsable,
  PendingDecision,
  PendingReply,
  PreviewChange,
  QuestionAnswer,
  QuestionRequest,
  RehearsalChoices,
  RehearsalDecision,
  RehearsalRequest,
  RehearsedCall,
  ToolPreview,
  WaitingCall,
} from './decision.js';
export type {
  FinishReason,
  JsonApiError,
  LoopResult,
  RehearsalChange,
  RehearsalReport,
  RehearsedRun,
  ReportedCall,
  RunFailure,
  ShownCall,
  SubRunRecord,
  ToolErrorCode,
  ToolFailure,
  ToolInvocationRecord,
  WaitingFor,
} from './loop-result.js';
export { shownCall } from './loop-result.js';
export { LoopEventSink, timestampOfNow } from './loop-event.js';
export type {
  RunIdentity,
  EventStamp,
  LoopEvent,
  LoopEventBody,
  LoopEventOf,
  ToolPrefix,
  WarningCode,
} from './loop-event.js';
export {
  ConfigurationError,
  InvalidRequestError,
  ModelError,
  RunElsewhereError,
  RunError,
  StorageUnavailableError,
  ToolError,
} from './errors.js';
export type {
  EvalReport,
  EvalRun,
  Score,
  ScoredCall,
  VariantSummary,
  Verdict,
} from './evaluation.js';
export type {
  Finding,
  ModelErrorCode,
  ModelErrorOptions,
  StorageUnavailableOptions,
  ToolErrorOptions,
} from './errors.js';
export type { Amendment, Ask, Cut } from './routes/requests.js';
export type {
  AnsweredRequest,
  Approval,
  ChangedPolicy,
  ConversationEntry,
  ConversationPage,
  ConversationSummary,
  DirectiveView,
  ExplainedCall,
  ExplainedTool,
  GivenAnswer,
  Health,
  ListedSource,
  ListedTool,
  MadeCall,
  PutPolicies,
  ReadyAnswer,
  ReplayedPolicies,
  Run,
  SourcedTool,
  SourceReport,
  Stop,
  Undoing,
  UsageSums,
  ViewedActor,
  ViewedTool,
  WaitingRequest,
} from './routes/answers.js';
export type { AnsweredKey, AnswerOf, Asks, RouteKey } from './routes/routes.js';
