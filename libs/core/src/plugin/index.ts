export type { PluginValue } from '../contracts/plugin-value.js';
export type {
  CallOutcome,
  CallPoints,
  CallRuling,
  CheckedCall,
  FailureWords,
  HeldCall,
  OpenedCall,
  RecordEntry,
  ResultChange,
  StartedCall,
} from './call-points.js';
export { PluginError } from './plugin-error.js';
export type { Plugin } from './plugin.js';
export type {
  AnsweredQuestion,
  Awaitable,
  CallLimit,
  EndedStep,
  ModelQuestion,
  Next,
  PaidAnswer,
  PlannedCall,
  PluginFinish,
  RunEnd,
  RunPoints,
} from './run-points.js';
export type { EarlierCalls, PluginRunOptions, RunFacts, RunView } from './run-view.js';
export { type KeptSlot, type SavedSlot, slot, type SlotDeclaration } from './saved-slot.js';
export { schemaOf } from './slot-schema.js';
export { memory, type MemoryDeclaration, type Slot, type SlotInheritance } from './slot.js';
export { type PluginDeclaration, ToolLoopPlugin } from './tool-loop-plugin.decorator.js';
