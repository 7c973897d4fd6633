import type { Entry } from './memory-call-journal.js';

/** The size of a generation of finished calls. */
const MOST_FINISHED = 10_000;
const MOST_ATTACHED_CHARACTERS = 64 * 1024 * 1024;

/**
 * The finished calls of one tenant: a tenant that floods takes nothing from another. They are
 * dropped by generations, since taking the oldest of a `Map` after each call costs more the more
 * were taken before.
 */
export class FinishedCalls {
  private calls = new Map<string, Entry>();
  private older = new Map<string, Entry>();
  /** The calls that have attachments, the oldest first. */
  private readonly attached = new Set<Entry>();
  private attachedCharacters = 0;

  get(text: string): Entry | undefined {
    return this.calls.get(text) ?? this.older.get(text);
  }

  add(text: string, entry: Entry): void {
    if (this.calls.size >= MOST_FINISHED) this.dropOlder();
    this.calls.set(text, entry);
    if (attachedTo(entry) === 0) return;
    this.attachedCharacters += attachedTo(entry);
    this.attached.add(entry);
    for (const attached of this.attached) {
      if (this.attachedCharacters <= MOST_ATTACHED_CHARACTERS) break;
      this.detach(attached);
    }
  }

  private dropOlder(): void {
    for (const entry of this.older.values()) this.detach(entry);
    [this.calls, this.older] = [new Map<string, Entry>(), this.calls];
  }

  private detach(entry: Entry): void {
    if (!this.attached.delete(entry) || entry.outcome?.status !== 'succeeded') return;
    this.attachedCharacters -= attachedTo(entry);
    const { attachments: _attachments, ...outcome } = entry.outcome;
    entry.outcome = {
      ...outcome,
      content: `${outcome.content}\n[The attachments of this result are not kept any more.]`,
    };
  }
}

function attachedTo({ outcome }: Entry): number {
  const attachments = outcome?.status === 'succeeded' ? (outcome.attachments ?? []) : [];
  return attachments.reduce((sum, { url }) => sum + url.length, 0);
}
