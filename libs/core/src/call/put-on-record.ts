import type { RecordEntry } from '../plugin/call-points.js';
import type { ReadCall } from './call.js';
import { failedPlugin } from './failed-plugin.js';

/**
 * Puts on record what a call is about to do, by every plugin that keeps records.
 *
 * @throws {CallFailure} if a plugin could not, so that the call must not be made
 */
export async function putOnRecord(call: ReadCall, entry: RecordEntry): Promise<void> {
  try {
    await call.hooks.record?.(entry, call.run, call);
  } catch (error) {
    throw failedPlugin(error, UNRECORDED);
  }
}

const UNRECORDED = {
  code: 'execution_failed',
  safeMessage: 'The call could not be put on record, so it was not made.',
} as const;
