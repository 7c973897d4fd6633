import type { Reading } from '../pressure.suite.js';

/** Returns the reading that the process which read an answer reports to its parent. */
export function readingFrom(message: unknown): Reading {
  return message as Reading;
}
