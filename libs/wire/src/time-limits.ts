import type { ModelRequest, ModelTimeLimits } from '@toolloop/protocol';
import { NO_LIMITS } from './read-answer.js';

/** The SDKs' own timeout, which has no value for "none": the longest that a timer supports. */
export const NO_TIMEOUT = 2 ** 31 - 1;

/** The milliseconds until an answer must begin if neither the model nor the request says so. */
const FIRST_BYTE_MS = 600_000;

/** Returns the time limits of a request, of which the model may have one itself. */
export function toTimeLimits(
  { timeLimits }: ModelRequest,
  firstByteMs: number | undefined,
): ModelTimeLimits {
  return {
    ...(timeLimits ?? NO_LIMITS),
    firstByteMs: firstByteMs ?? timeLimits?.firstByteMs ?? FIRST_BYTE_MS,
  };
}
