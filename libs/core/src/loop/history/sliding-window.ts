import type { HistoryPolicy } from '../../protocol/history.js';
import { BoundedHistory } from './bounded.history.js';
import { toExtent, type MessageExtent } from './history-extent.js';

/**
 * Sends the newest messages: past `messages` it cuts down to `keep`, so that the prompt cache is lost once in a while instead of at every step. Calls
 * stay with their results, and a step with its user message; a step larger than that is sent whole.
 */
export function slidingWindow(extent: MessageExtent): HistoryPolicy {
  return new BoundedHistory(toExtent(extent));
}
