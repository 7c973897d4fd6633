import type { HistoryPolicy } from '../../protocol/history.js';
import { BoundedHistory } from './bounded.history.js';
import { toExtent, type TokenExtent } from './history-extent.js';

/** Sends the newest messages, as `slidingWindow` does, measured in tokens. */
export function tokenBudget(extent: TokenExtent): HistoryPolicy {
  return new BoundedHistory(toExtent(extent));
}
