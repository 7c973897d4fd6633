import type { RunEntry, RunJournal } from '../protocol/run-journal.js';
import { toSubRunEntry, type SubRunPlace } from './from-sub-run-entry.js';

/** What a run is written down in. */
export type EntryJournal = Omit<RunJournal, 'sink' | 'handOver'>;

/** Writes a sub-run down among the entries of the run around it, so that a process which takes over that run goes on within the sub-run. */
export class SubRunJournal implements EntryJournal {
  constructor(
    private readonly outer: EntryJournal,
    private readonly place: SubRunPlace,
  ) {}

  get isOurs(): boolean {
    return this.outer.isOurs;
  }

  record(entry: RunEntry): Promise<void> {
    return this.outer.record(toSubRunEntry(this.place, entry));
  }

  note(entry: RunEntry): void {
    this.outer.note(toSubRunEntry(this.place, entry));
  }
}
