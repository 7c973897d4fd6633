import type { JsonObject } from '../protocol/json.js';
import type { RunEntry } from '../protocol/run-journal.js';
import type { SavedCounts } from './call.counter.js';
import { fromSavedJson, type SavedOutcome, type SavedRun } from './from-suspended-run.js';

/** What of a saved run an entry holds: parts that did not change are left out, lists have what was added, and counts what was counted. */
type SavedPart = Partial<SavedRun> & Pick<SavedRun, 'state' | 'counts' | 'spent'>;

/** Puts a durable run together from what was written down, in the order in which it was. Undefined where it had not begun. */
export function fromRunEntries(entries: readonly RunEntry[]): SavedRun | undefined {
  let run: SavedPart | undefined;
  for (const { key, value } of entries) {
    if (!key.startsWith('tool:')) run = joined(run, value as unknown as SavedPart);
    else if (run?.pending) run = { ...run, pending: withOutcome(run.pending, value as unknown as SavedOutcome) };
  }
  return run && fromSavedJson(run as unknown as JsonObject);
}

function joined(before: SavedPart | undefined, { pending, ...part }: SavedPart): SavedPart {
  const { pending: _earlier, ...whole } = { ...before, ...part };
  const messages = [...(before?.state.messages ?? []), ...part.state.messages];
  const records = [...(before?.state.records ?? []), ...part.state.records];
  const spent = [...(before?.spent ?? []), ...part.spent];
  const counts = before ? countedOn(before.counts, part.counts) : part.counts;
  return { ...whole, state: { ...part.state, messages, records }, spent, counts, ...(pending && { pending }) };
}

function countedOn(before: SavedCounts, { perTool, identical, refusals }: SavedCounts): SavedCounts {
  return {
    perTool: [...new Map([...before.perTool, ...perTool])],
    identical: [...new Map([...before.identical, ...identical])],
    refusals,
  };
}

/** A call that waited may have been made since. */
function withOutcome(pending: NonNullable<SavedRun['pending']>, outcome: SavedOutcome): SavedRun['pending'] {
  const others = pending.outcomes.filter(({ record }) => record.toolCallId !== outcome.record.toolCallId);
  return { ...pending, outcomes: [...others, outcome] };
}
