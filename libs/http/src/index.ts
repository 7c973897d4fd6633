export { ShallowBodies } from './body-depth.js';
export { CallerGuard, Callers, CurrentCaller, STRICT } from './caller.js';
export type { CallerSource } from './caller.js';
export { toHttpError, ToolLoopExceptionFilter } from './exception-filter.js';
export type { ErrorBody, HttpError } from './exception-filter.js';
export { DEFAULT_HTTP_LIMITS } from './http-options.js';
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
export { MayBeAbsent } from './optional-field.js';
export { ROUTED_ACTIONS } from './routed-actions.js';
export { RunStreams } from './run-streams.js';
export type { StreamEnds, StreamTerms } from './run-streams.js';
export { ServedLoop } from './served-loop.js';
