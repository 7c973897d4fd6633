import type { OptionNames } from '../findings/unknown-options.js';
import type { ToolFeatureOptions } from '../discovery/tool-feature.js';
import type { LoopRequest } from '../protocol/loop-request.js';
import type { StepChange } from '../protocol/step-preparation.js';
import type { SubRun } from '../protocol/sub-run.js';
import type { ToolLoopOptions } from './tool-loop.options.js';

/** What a request takes; a profile takes no others. */
export const REQUEST_OPTIONS: OptionNames<LoopRequest> = {
  prompt: true,
  messages: true,
  labels: true,
  instructions: true,
  model: true,
  tools: true,
  exclude: true,
  actor: true,
  tenant: true,
  context: true,
  policy: true,
  limits: true,
  execution: true,
  injection: true,
  surface: true,
  output: true,
  onToolError: true,
  onForbidden: true,
  history: true,
  prepareStep: true,
  durable: true,
  approvals: true,
  hooks: true,
  requestId: true,
  conversationId: true,
  signal: true,
  stopWhen: true,
  toolChoice: true,
  keepToolChoice: true,
  modelOptions: true,
};

/** What `subRunTool()` takes beside what every tool takes. */
export const SUB_RUN_OPTIONS: OptionNames<SubRun> = {
  prompt: true,
  effect: true,
  tools: true,
  exclude: true,
  model: true,
  instructions: true,
  policy: true,
  limits: true,
  history: true,
  prepareStep: true,
  stopWhen: true,
  toolChoice: true,
  keepToolChoice: true,
  modelOptions: true,
  output: true,
  summaryBytes: true,
};

/** What `forRoot` takes, with what it takes for the module. */
export const APPLICATION_OPTIONS: OptionNames<ToolLoopOptions> & { readonly providers: true; readonly imports: true } = {
  model: true,
  models: true,
  instructions: true,
  policy: true,
  strictListing: true,
  surface: true,
  limits: true,
  quotas: true,
  execution: true,
  history: true,
  prepareStep: true,
  stopWhen: true,
  agentName: true,
  tools: true,
  injection: true,
  reservedArguments: true,
  actorClass: true,
  actorId: true,
  actorRoles: true,
  audit: true,
  directives: true,
  prices: true,
  providers: true,
  imports: true,
};

/** What `forFeature` takes. */
export const FEATURE_OPTIONS: OptionNames<ToolFeatureOptions> = { entities: true, imports: true, tools: true, loops: true };

/** What `prepareStep` may return. */
export const STEP_CHANGES: OptionNames<StepChange> = {
  model: true,
  instructions: true,
  tools: true,
  toolChoice: true,
  messages: true,
  modelOptions: true,
};
