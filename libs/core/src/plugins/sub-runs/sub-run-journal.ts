import type { OwedEntry } from '../../contracts/owed-entry.js';
import type { RunEntry, RunJournal, SubRunEntry, SubRunPlace } from '../../contracts/run-log.js';
import type { EntryJournal } from '../../run/run-recorder.js';

/**
 * Writes a sub-run down among the entries of the run around it, so that a process which takes over
 * that run continues within the sub-run.
 */
export class SubRunJournal implements EntryJournal {
  constructor(
    private readonly outer: EntryJournal,
    private readonly place: SubRunPlace,
  ) {}

  get isOurs(): boolean {
    return this.outer.isOurs;
  }

  get calls(): RunJournal['calls'] {
    return this.outer.calls;
  }

  kept(): Promise<void> {
    return this.outer.kept();
  }

  record(entry: RunEntry): Promise<void> {
    return this.outer.record(toSubRunEntry(this.place, entry));
  }

  owe(entries: readonly OwedEntry[]): void {
    this.outer.owe(entries);
  }

  note(entry: RunEntry): void {
    this.outer.note(toSubRunEntry(this.place, entry));
  }
}

/** `model:3` of a sub-run as an entry of the run around it: `sub:<its run id>/model:3`. */
function toSubRunEntry({ runId, toolCallId, args }: SubRunPlace, entry: RunEntry): SubRunEntry {
  return {
    type: 'sub-run',
    key: `sub:${runId}/${entry.key}`,
    runId,
    toolCallId,
    entry,
    ...(entry.type === 'begin' && { args }),
  };
}
