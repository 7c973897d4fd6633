import { isHeldBy, type Lease, type LeaseRequest, leftMs, nextLease } from '../contracts/lease.js';
import {
  CallJournal,
  type JournalCall,
  type JournalClaim,
  type JournalEntry,
  type JournalHold,
  type JournalKey,
  type JournalOutcome,
  type JournalStart,
} from '../contracts/stores.js';

/** The size of a generation of finished calls. */
const MOST_FINISHED = 10_000;
const MOST_ATTACHED_CHARACTERS = 64 * 1024 * 1024;

interface Entry {
  readonly call: JournalCall;
  readonly lease: Lease;
  outcome?: JournalOutcome;
}

/**
 * Keeps calls in memory: of each tenant at least the newest 10,000 finished ones, and at most
 * 20,000. Of each tenant it keeps the newest 64 MB of attachments: an older call is answered
 * without them, and never made again.
 */
export class MemoryCallJournal extends CallJournal {
  private readonly open = new Map<string, Entry>();
  private readonly finished = new Map<string, FinishedCalls>();

  override acquire(start: JournalStart): Promise<JournalClaim> {
    const text = textOf(start);
    const known = this.known(start, text);
    if (!known) {
      const lease = nextLease({}, start);
      this.open.set(text, { call: start, lease });
      return Promise.resolve({ status: 'acquired', lease });
    }
    if (!isSameCall(known.call, start)) return Promise.resolve({ status: 'conflict' });
    const isOurs = !known.outcome && known.lease.owner === start.owner;
    return Promise.resolve(isOurs ? { status: 'acquired', lease: known.lease } : entryOf(known));
  }

  override find(call: JournalCall): Promise<JournalEntry | undefined> {
    const known = this.known(call, textOf(call));
    return Promise.resolve(known && isSameCall(known.call, call) ? entryOf(known) : undefined);
  }

  override steal(key: JournalKey, request: LeaseRequest): Promise<Lease | undefined> {
    const known = this.open.get(textOf(key));
    if (!known) return Promise.resolve(undefined);
    const lease = nextLease(known.lease, request);
    this.open.set(textOf(key), { ...known, lease });
    return Promise.resolve(lease);
  }

  override finish(hold: JournalHold, outcome: JournalOutcome): Promise<void> {
    const text = textOf(hold);
    const known = this.held(hold, text);
    if (!known) return Promise.resolve();
    this.open.delete(text);
    const finished = this.finished.get(hold.tenant) ?? new FinishedCalls();
    this.finished.set(hold.tenant, finished);
    finished.add(text, { ...known, outcome });
    return Promise.resolve();
  }

  override release(hold: JournalHold): Promise<void> {
    const text = textOf(hold);
    if (this.held(hold, text)) this.open.delete(text);
    return Promise.resolve();
  }

  private known({ tenant }: JournalKey, text: string): Entry | undefined {
    return this.finished.get(tenant)?.get(text) ?? this.open.get(text);
  }

  private held(hold: JournalHold, text: string): Entry | undefined {
    const known = this.open.get(text);
    return isHeldBy(known?.lease, hold) ? known : undefined;
  }
}

/**
 * The finished calls of one tenant: a tenant that floods takes nothing from another. They are
 * dropped by generations, since taking the oldest of a `Map` after each call costs more the more
 * were taken before.
 */
class FinishedCalls {
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

function entryOf({ outcome, lease }: Entry): JournalEntry {
  return outcome
    ? { status: 'finished', outcome }
    : { status: 'in_progress', leftMs: leftMs(lease) };
}

function attachedTo({ outcome }: Entry): number {
  const attachments = outcome?.status === 'succeeded' ? (outcome.attachments ?? []) : [];
  return attachments.reduce((sum, { url }) => sum + url.length, 0);
}

function textOf({ tenant, idempotencyKey }: JournalKey): string {
  return `${tenant.length}:${tenant}${idempotencyKey}`;
}

function isSameCall(one: JournalCall, other: JournalCall): boolean {
  return (
    one.declaredId === other.declaredId &&
    one.instanceId === other.instanceId &&
    one.args === other.args
  );
}
