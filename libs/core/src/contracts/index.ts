export type {
  FinishedStep,
  StepChange,
  SubRun,
  SubRunProfile,
  UpcomingStep,
} from './loop-request.js';
export { Instrumentation } from './hooks.js';
export type {
  InstrumentedAnswer,
  InstrumentedModelCall,
  InstrumentedOutcome,
  InstrumentedRun,
  InstrumentedRunEnd,
  InstrumentedToolCall,
  LoopHooks,
  LoopIteration,
  ToolEnd,
  ToolStart,
} from './hooks.js';
export { DEFAULT_SESSIONS } from './session.js';
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
export { AttachedResult, DEFAULT_EXECUTION } from './tool-call.js';
export type { Question, Attachment } from './tool-call.js';
export type {
  IdempotencyScope,
  InputReading,
  MeantCall,
  PatternAllowance,
  Rehydrate,
  ReservedAllowance,
  ResultProjector,
  ToolDirective,
  ToolInputCodec,
  ToolInvocation,
  ToolLayers,
  ToolRefusal,
  ToolRehydration,
  ToolSurface,
  ToolWord,
} from './tool.js';
export type {
  AttachmentDigest,
  MediaPart,
  RecordedAttachment,
  ToolOrigin,
} from '@toolloop/protocol';
