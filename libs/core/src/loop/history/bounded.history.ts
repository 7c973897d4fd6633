import { HistoryPolicy, type HistoryContext, type HistoryCut } from '../../protocol/history.js';
import { cutPoints, type Extent } from './cut-points.js';

/** Leaves out the oldest steps once there is too much. */
export class BoundedHistory extends HistoryPolicy {
  constructor(private readonly extent: Extent) {
    super();
  }

  override cut({ messages }: HistoryContext): HistoryCut {
    return { from: cutPoints(messages, this.extent).at(-1) ?? 0 };
  }
}
