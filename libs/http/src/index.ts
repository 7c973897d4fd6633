export { CallerGuard, CurrentCaller } from './caller.js';
export { toHttpError, ToolLoopExceptionFilter } from './exception-filter.js';
export type { ErrorBody, HttpError } from './exception-filter.js';
export { ToolLoopHttpModule } from './http.module.js';
export type { Caller, CallerTerms, HttpReadiness, HttpRequest, ToolLoopHttpExtras, ToolLoopHttpOptions } from './http-options.js';
export { ServedLoop } from './served-loop.js';
