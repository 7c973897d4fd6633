import { setTimeout as wait } from 'node:timers/promises';

/**
 * Waits until what was said last has left the process: Nest closes the connections next, whether
 * their streams have ended or not.
 */
export function flushBeforeClose(): Promise<void> {
  return wait(FLUSH_MS);
}

const FLUSH_MS = 100;
