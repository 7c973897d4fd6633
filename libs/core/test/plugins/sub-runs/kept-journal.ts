import { LoopEventSink } from '@toolloop/core';
import type { RunEntry, RunJournal } from '@toolloop/core/internal';

class SilentSink extends LoopEventSink {
  override readonly critical = true;
  override write(): void {
    // nobody watches
  }
}

/** Keeps what is written down, for as long as the run is its process's. */
export class KeptJournal implements RunJournal {
  readonly sink = new SilentSink();
  isOurs = true;
  private noted: RunEntry[] = [];

  constructor(readonly entries: RunEntry[] = []) {}

  record(entry: RunEntry): Promise<void> {
    if (!this.isOurs) return Promise.reject(new Error('It goes on elsewhere.'));
    this.entries.push(...this.noted.splice(0), structuredClone(entry));
    return Promise.resolve();
  }

  kept(): Promise<void> {
    this.flush();
    return Promise.resolve();
  }

  note(entry: RunEntry): void {
    this.noted.push(structuredClone(entry));
  }

  owe(): void {}

  handOver(): void {
    this.isOurs = false;
  }

  cancel(): void {}

  flush(): readonly RunEntry[] {
    this.entries.push(...this.noted.splice(0));
    return [...this.entries];
  }
}
