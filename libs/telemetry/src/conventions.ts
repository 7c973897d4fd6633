/**
 * The names of the semantic conventions for generative AI that Toolloop uses, in one place, since
 * they are still in development (https://github.com/open-telemetry/semantic-conventions-genai,
 * release 0.1.0).
 */
export const GEN_AI = {
  operation: 'gen_ai.operation.name',
  provider: 'gen_ai.provider.name',
  agent: 'gen_ai.agent.name',
  conversation: 'gen_ai.conversation.id',
  requestModel: 'gen_ai.request.model',
  maxTokens: 'gen_ai.request.max_tokens',
  temperature: 'gen_ai.request.temperature',
  topP: 'gen_ai.request.top_p',
  seed: 'gen_ai.request.seed',
  stopSequences: 'gen_ai.request.stop_sequences',
  isStreamed: 'gen_ai.request.stream',
  outputType: 'gen_ai.output.type',
  responseId: 'gen_ai.response.id',
  responseModel: 'gen_ai.response.model',
  finishReasons: 'gen_ai.response.finish_reasons',
  inputTokens: 'gen_ai.usage.input_tokens',
  outputTokens: 'gen_ai.usage.output_tokens',
  cacheReadTokens: 'gen_ai.usage.cache_read.input_tokens',
  cacheCreationTokens: 'gen_ai.usage.cache_creation.input_tokens',
  tokenType: 'gen_ai.token.type',
  tool: 'gen_ai.tool.name',
  toolCallId: 'gen_ai.tool.call.id',
  toolType: 'gen_ai.tool.type',
  instructions: 'gen_ai.system_instructions',
  inputMessages: 'gen_ai.input.messages',
  outputMessages: 'gen_ai.output.messages',
  toolArguments: 'gen_ai.tool.call.arguments',
  toolResult: 'gen_ai.tool.call.result',
} as const;

/** The convention for errors of every kind. */
export const ERROR_TYPE = 'error.type';

/** The attributes that no convention knows. */
export const TOOLLOOP = {
  run: 'toolloop.run.id',
  request: 'toolloop.request.id',
  step: 'toolloop.step',
  steps: 'toolloop.steps',
  tenant: 'toolloop.tenant',
  actor: 'toolloop.actor.id',
  finishReason: 'toolloop.finish_reason',
  costUsd: 'toolloop.cost.usd',
  instructionsHash: 'toolloop.instructions.hash',
  toolsHash: 'toolloop.tools.hash',
  effect: 'toolloop.tool.effect',
  status: 'toolloop.tool.status',
  attempt: 'toolloop.tool.attempt',
  rule: 'toolloop.policy.rule',
  decision: 'toolloop.policy.decision',
  policyVersion: 'toolloop.policy.version',
  pendingKind: 'toolloop.pending.kind',
  pendingId: 'toolloop.pending.id',
  answer: 'toolloop.pending.answer',
  source: 'toolloop.injection.source',
  tools: 'toolloop.tools',
  warning: 'toolloop.warning',
} as const;

/** The events of spans. */
export const SPAN_EVENTS = {
  decision: 'toolloop.policy.decision',
  pendingRequest: 'toolloop.pending.request',
  pendingAnswer: 'toolloop.pending.answer',
  injected: 'toolloop.tools.injected',
  removed: 'toolloop.tools.removed',
  warning: 'toolloop.warning',
} as const;

/** The metrics. Durations are in seconds, as the conventions ask. */
export const METRICS = {
  modelDuration: 'gen_ai.client.operation.duration',
  tokens: 'gen_ai.client.token.usage',
  runDuration: 'gen_ai.invoke_agent.duration',
  toolDuration: 'gen_ai.execute_tool.duration',
  cost: 'toolloop.cost',
  refusals: 'toolloop.tool.refusals',
  pendingRequests: 'toolloop.pending.requests',
  pendingAnswers: 'toolloop.pending.answers',
  injected: 'toolloop.tools.injected',
  queueAge: 'toolloop.run.queue_age',
} as const;
