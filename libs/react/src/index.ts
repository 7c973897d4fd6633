export { useObserved, usePending, useRun, useToolLoop } from './hooks.js';
export type { Notices } from './look-times.js';
export { Observed } from './observed.js';
export { PendingList } from './pending-list.js';
export type { PendingState } from './pending-list.js';
export { RunReader } from './run-reader.js';
export type { RunState } from './run-reader.js';
export { EMPTY_RUN, requestIdOf, withEvent } from './run-view.js';
export type {
  BeltTool,
  CallPart,
  CallRecord,
  OpenRequest,
  RequestAnswer,
  RunPart,
  RunView,
} from './run-view.js';
export { Thread } from './thread.js';
export type { ThreadOptions, ThreadState, Turn } from './thread.js';
