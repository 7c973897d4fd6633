import type { Reading } from '../pressure.suite.js';

/** What the process that read an answer tells its parent. */
export function readingFrom(message: unknown): Reading {
  return message as Reading;
}
