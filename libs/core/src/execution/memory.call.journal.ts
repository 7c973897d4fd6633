import { Injectable } from '@nestjs/common';
import { CallJournal, type JournalClaim, type JournalKey, type JournalOutcome, type JournalStart } from '../protocol/call-journal.js';

const MOST_FINISHED = 10_000;

interface Entry {
  readonly start: JournalStart;
  outcome?: JournalOutcome;
}

/** Keeps keys for as long as the process lives; the oldest finished ones go when there are more than 10,000. */
@Injectable()
export class MemoryCallJournal extends CallJournal {
  private readonly open = new Map<string, Entry>();
  private readonly finished = new Map<string, Entry>();

  override begin(start: JournalStart): Promise<JournalClaim> {
    const key = textOf(start);
    const known = this.finished.get(key) ?? this.open.get(key);
    if (!known) {
      this.open.set(key, { start });
      return Promise.resolve({ status: 'started' });
    }
    if (!isSameCall(known.start, start)) return Promise.resolve({ status: 'conflict' });
    return Promise.resolve(known.outcome ? { status: 'finished', outcome: known.outcome } : { status: 'in_progress' });
  }

  override finish(key: JournalKey, outcome: JournalOutcome): Promise<void> {
    const text = textOf(key);
    const entry = this.open.get(text);
    if (entry) {
      this.open.delete(text);
      this.finished.set(text, { ...entry, outcome });
      this.forgetOldest();
    }
    return Promise.resolve();
  }

  private forgetOldest(): void {
    const [oldest] = this.finished.keys();
    if (this.finished.size > MOST_FINISHED && oldest !== undefined) this.finished.delete(oldest);
  }
}

function textOf({ tenant, idempotencyKey }: JournalKey): string {
  return JSON.stringify([tenant, idempotencyKey]);
}

function isSameCall(one: JournalStart, other: JournalStart): boolean {
  return one.declaredId === other.declaredId && one.instanceId === other.instanceId && one.args === other.args;
}
