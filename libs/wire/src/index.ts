export {
  boundedErrors,
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
export { refused, reported, unreachable, type Refusal } from './from-failure.js';
export {
  type AnswerSource,
  type Bytes,
  type Connection,
  NO_TIMEOUT,
  readAnswer,
  readBytes,
  toTimeLimits,
} from './read-answer.js';
export {
  toIdentity,
  toWireArguments,
  toWireName,
  isWireObject,
  parseWireObject,
  wireObjectsIn,
  type WireObject,
} from './wire-object.js';
