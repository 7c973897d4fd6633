export { ToolCatalog } from './catalog/tool-catalog.js';
export { Notifier } from './contracts/notice.js';
export type { PendingNotice } from './contracts/notice.js';
export { DEFAULT_LIMITS } from './contracts/limits.js';
export type { Limits } from './contracts/limits.js';
export type {
  LoopProfile,
  LoopRequest,
  ResumeRequest,
  RunHandle,
} from './contracts/loop-request.js';
export type { ToolSelector } from './contracts/tool-selector.js';
export type { PrepareStep } from './contracts/prepare-step.js';
export type { StopCondition } from './contracts/stop-condition.js';
export { OperatorError } from './contracts/operator.js';
export { policies } from './contracts/policy.js';
export type { ApprovalRule, FlowLevel, Policy } from './contracts/policy.js';
export { ActorDirectory } from './contracts/actor-directory.js';
export { TenantDirectory } from './contracts/tenant-directory.js';
export { ConnectionBroker } from './contracts/connection-broker.js';
export { Secret } from './contracts/secret.js';
export { attach } from './contracts/attachment.js';
export type { Credential } from './contracts/connection-broker.js';
export type { ExecutionOptions, ToolExecutionOptions } from './contracts/execution-options.js';
export type { Register, RegisteredActor } from './contracts/registered-actor.js';
export type { RunContext, ToolCallContext } from './contracts/tool-call.js';
export { ToolSource } from './contracts/source.js';
export { EntityResolver } from './contracts/entity.js';
export { ToolInterceptor } from './contracts/interceptor.js';
export type { EntityContext } from './contracts/entity.js';
export type { Tool } from './contracts/tool.js';
export { LlmTool } from './tools/decorators/llm-tool.decorator.js';
export type { LlmToolOptions } from './tools/decorators/llm-tool.decorator.js';
export { namespaceTools, omitTools } from './tools/decorators/module-tools.js';
export { clientTool } from './tools/decorators/client-tool.js';
export { RawTool, rawTool, tool } from './tools/decorators/raw-tool.js';
export { subRunTool } from './tools/decorators/sub-run-tool.js';
export { ToolContext, ToolInput, ToolParam } from './tools/decorators/tool-parameters.decorator.js';
export { ToolField } from './tools/decorators/tool-field.decorator.js';
export { ToolEntityResolver, ToolProvider } from './tools/decorators/tool-provider.decorator.js';
export type { ToolProviderOptions } from './tools/decorators/tool-provider.decorator.js';
export { TOOL_CONTEXT_TYPE, ToolExecutionContext } from './tools/nest/execution-context.js';
export { ConversationService } from './plugins/conversations/conversation.service.js';
export type { ToolLoopOptions } from './run/loop-options.js';
export { calledTool, maxSteps } from './loop/stop-conditions.js';
export { InjectToolLoop, ToolLoopService, toolLoopToken } from './module/tool-loop.service.js';
export type { CallExplanation } from './plugins/operators/explanations.js';
export { PendingError } from './plugins/inbox/pending-error.js';
export { PendingService } from './plugins/inbox/pending.service.js';
export { ToolLoopModule } from './module/tool-loop.module.js';
export {
  ConfigurationError,
  InvalidRequestError,
  LanguageModel,
  LoopEventSink,
  ModelError,
  RunElsewhereError,
  RunError,
  ToolError,
} from '@toolloop/protocol';
export type {
  ApprovalDecision,
  ApprovalRequest,
  Decision,
  DeclaredTool,
  Finding,
  FinishReason,
  JsonObject,
  JsonValue,
  LoopEvent,
  LoopEventOf,
  LoopResult,
  Message,
  ToolEffect,
  ToolInvocationRecord,
  ToolLabels,
  ToolSpec,
  Usage,
} from '@toolloop/protocol';
export type { ToolLoopExtras } from './module/tool-loop.module.js';
