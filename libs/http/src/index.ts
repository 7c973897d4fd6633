export { ShallowBodies } from './body-depth.js';
export { CallerGuard, Callers, CurrentCaller } from './caller.js';
export type { CallerSource } from './caller.js';
export { ToolLoopExceptionFilter } from './exception-filter.js';
export type {
  Caller,
  CallerTerms,
  ChatProtocol,
  HttpLimits,
  HttpReadiness,
  HttpRequest,
  ToolLoopHttpExtras,
  ToolLoopHttpOptions,
} from './http-options.js';
export { ToolLoopHttpModule } from './http.module.js';
export type { ChatState } from './open-runs.js';
export { FormBody } from './read-request.js';
export { ROUTED_ACTIONS } from './routed-actions.js';
export { RunStreams } from './run-streams.js';
export type { StreamEnds, StreamTerms } from './run-streams.js';
export { ServedLoop } from './served-loop.js';
