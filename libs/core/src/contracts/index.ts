export type { FinishedStep } from './stop-condition.js';
export type { StepChange, UpcomingStep } from './prepare-step.js';
export type { SubRun, SubRunProfile } from './loop-request.js';
export type { LoopHooks, LoopIteration, ToolEnd, ToolStart } from './hooks.js';
export type {
  CallRequest,
  CallResult,
  SessionCallOptions,
  SessionOptions,
  SessionRequest,
  SessionTool,
  ShownTool,
  ToolsChange,
  ToolSession,
  WaitingCall,
} from './session.js';
export { AttachedResult } from './attachment.js';
export type { Question } from './tool-call.js';
export type { Attachment } from './attachment.js';
export type { IdempotencyScope, ReservedAllowance } from './tool-settings.js';
export type {
  InputReading,
  MeantCall,
  ToolDirective,
  ToolInputCodec,
  ToolLayers,
  ToolRefusal,
  ToolRehydration,
  ToolSurface,
  ToolWord,
} from './tool.js';
export type { PatternAllowance } from './pattern-allowance.js';
export type { ToolInvocation } from './tool-invocation.js';
export type { Rehydrate } from './entity.js';
export type { ResultProjector } from './result-projector.js';
export type {
  AttachmentDigest,
  MediaPart,
  RecordedAttachment,
  ToolOrigin,
} from '@toolloop/protocol';
