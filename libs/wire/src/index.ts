export {
  bytesOf,
  httpFetch,
  modelFetch,
  requestIdOf,
  type Fetch,
  type HttpFetchOptions,
} from './http-fetch.js';
export {
  EncodedOnce,
  GrowingBytes,
  ignoredOptions,
  type JsonPart,
  LastText,
  listOf,
  RequestBody,
  ToolEncoder,
  Transcripts,
  type TranscriptWriter,
} from './request-body.js';
export { CallNaming, type IdFit, type WireIds } from './call-naming.js';
export { ResponseBody } from './byte-source.js';
export { EventBatch, type CallName, AnswerDecoder, WireAnswer } from './answer-decoder.js';
export { withDiscretion, type Confidences } from './discretion.js';
export { refused, reported, type Refusal } from './refusal.js';
export { unreachable } from './from-failure.js';
export {
  type AnswerSource,
  type Bytes,
  type Connection,
  readAnswer,
  readBytes,
} from './read-answer.js';
export { NO_TIMEOUT, toTimeLimits } from './time-limits.js';
export {
  toIdentity,
  toWireArguments,
  toWireName,
  isWireObject,
  parseWireObject,
  wireObjectsIn,
  type WireObject,
} from './wire-object.js';
