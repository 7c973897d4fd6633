export { ToolCatalog } from './catalog/tool-catalog.js';
export { Notifier } from './contracts/pending.js';
export type { PendingNotice } from './contracts/pending.js';
export { DEFAULT_LIMITS } from './contracts/limits.js';
export type { Limits } from './contracts/limits.js';
export type {
  DeclaredTool,
  LoopProfile,
  LoopRequest,
  PrepareStep,
  ResumeRequest,
  RunHandle,
  StopCondition,
  ToolSelector,
} from './contracts/loop-request.js';
export { OperatorError } from './contracts/operator.js';
export { policies } from './contracts/policy.js';
export type { ApprovalRule, FlowLevel, Policy } from './contracts/policy.js';
export {
  ActorDirectory,
  ConnectionBroker,
  Secret,
  TenantDirectory,
  attach,
} from './contracts/tool-call.js';
export type {
  Credential,
  ExecutionOptions,
  Register,
  RegisteredActor,
  RunContext,
  ToolCallContext,
  ToolExecutionOptions,
} from './contracts/tool-call.js';
export { ToolSource } from './contracts/source.js';
export { EntityResolver, ToolInterceptor } from './contracts/tool.js';
export type { EntityContext, Tool } from './contracts/tool.js';
export { LlmTool } from './decorators/llm-tool.decorator.js';
export type { LlmToolOptions } from './decorators/llm-tool.decorator.js';
export { namespaceTools, omitTools } from './decorators/module-tools.js';
export { clientTool, RawTool, rawTool, subRunTool, tool } from './decorators/raw-tool.js';
export {
  ToolContext,
  ToolField,
  ToolInput,
  ToolParam,
} from './decorators/tool-parameters.decorator.js';
export { ToolEntityResolver, ToolProvider } from './decorators/tool-provider.decorator.js';
export type { ToolProviderOptions } from './decorators/tool-provider.decorator.js';
export { TOOL_CONTEXT_TYPE, ToolExecutionContext } from './discovery/nest-layers.js';
export { ConversationService } from './runs/conversation.service.js';
export type { ToolLoopOptions } from './loop/loop-options.js';
export { calledTool, maxSteps } from './loop/loop-settings.js';
export { InjectToolLoop, ToolLoopService, toolLoopToken } from './session/tool-loop.service.js';
export type { CallExplanation } from './session/explanations.js';
export { PendingError } from './pending/pending-reply.js';
export { PendingService } from './pending/pending.service.js';
export { ToolLoopModule } from './tool-loop.module.js';
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
export type { ToolLoopExtras } from './tool-loop.module.js';
