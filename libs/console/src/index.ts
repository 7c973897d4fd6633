export { ConsoleModule } from './console.module.js';
export { ConsoleSessions } from './console-sessions.js';
export type { ConsoleSession } from './console-sessions.js';
export type {
  ConsoleCredentials,
  ConsoleEvaluations,
  ConsoleExtras,
  ConsoleOptions,
  EvalResult,
  VerdictKeeper,
} from './console-options.js';
