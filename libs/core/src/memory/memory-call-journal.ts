import { CallJournal } from '../contracts/call-journal.js';
import type {
  JournalCall,
  JournalClaim,
  JournalEntry,
  JournalHold,
  JournalKey,
  JournalOutcome,
  JournalStart,
} from '../contracts/call-journal.js';
import { isHeldBy, leftMs, nextLease } from '../contracts/lease.js';
import type { Lease, LeaseRequest } from '../contracts/lease.js';
import { FinishedCalls } from './finished-calls.js';

export interface Entry {
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

function entryOf({ outcome, lease }: Entry): JournalEntry {
  return outcome
    ? { status: 'finished', outcome }
    : { status: 'in_progress', leftMs: leftMs(lease) };
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
