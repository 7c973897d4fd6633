import { HistoryPolicy, type HistoryCut } from '../../protocol/history.js';

/** Sends the whole transcript: what happens without a policy, for a run of an application that has one. */
export function keepEverything(): HistoryPolicy {
  return new KeepEverything();
}

class KeepEverything extends HistoryPolicy {
  override cut(): HistoryCut | undefined {
    return undefined;
  }
}
