import {
  CallJournal,
  type JournalCall,
  type JournalClaim,
  type JournalEntry,
  type JournalHold,
  type JournalKey,
  type JournalOutcome,
  type JournalStart,
} from '../contracts/call-journal.js';
import { isHeldBy, type Lease, type LeaseRequest, leftMs, nextLease } from '../contracts/lease.js';
import { BoundedTable } from './bounded-table.js';

/**
 * Keeps calls in memory: of each tenant the newest 20,000 finished ones, and the newest 64 MB of
 * their attachments. An older call is answered without them, and never made again.
 */
export class MemoryCallJournal extends CallJournal {
  private readonly open = new BoundedTable<Entry>();
  private readonly finished = new BoundedTable<Entry>({
    most: MAX_FINISHED,
    dropped: (tenant, key) => this.attached.delete(tenant, key),
  });
  /** The characters of the attachments of finished calls that have some. */
  private readonly attached = new BoundedTable<number>({
    most: MAX_ATTACHED_CHARACTERS,
    weigh: (characters) => characters,
    dropped: (tenant, key) => this.detach(tenant, key),
  });

  override acquire(start: JournalStart): Promise<JournalClaim> {
    const known = this.known(start);
    if (!known) {
      const lease = nextLease({}, start);
      this.open.put(start.tenant, start.idempotencyKey, { call: start, lease });
      return Promise.resolve({ status: 'acquired', lease });
    }
    if (!isSameCall(known.call, start)) return Promise.resolve({ status: 'conflict' });
    const isOurs = !known.outcome && known.lease.owner === start.owner;
    return Promise.resolve(isOurs ? { status: 'acquired', lease: known.lease } : entryOf(known));
  }

  override find(call: JournalCall): Promise<JournalEntry | undefined> {
    const known = this.known(call);
    return Promise.resolve(known && isSameCall(known.call, call) ? entryOf(known) : undefined);
  }

  override steal(
    { tenant, idempotencyKey }: JournalKey,
    request: LeaseRequest,
  ): Promise<Lease | undefined> {
    const known = this.open.get(tenant, idempotencyKey);
    if (!known) return Promise.resolve(undefined);
    const lease = nextLease(known.lease, request);
    this.open.put(tenant, idempotencyKey, { ...known, lease });
    return Promise.resolve(lease);
  }

  override finish(hold: JournalHold, outcome: JournalOutcome): Promise<void> {
    const known = this.takeHeld(hold);
    if (!known) return Promise.resolve();
    const { tenant, idempotencyKey } = hold;
    this.finished.put(tenant, idempotencyKey, { ...known, outcome });
    const characters = countAttached(outcome);
    if (characters > 0) this.attached.put(tenant, idempotencyKey, characters);
    return Promise.resolve();
  }

  override release(hold: JournalHold): Promise<void> {
    this.takeHeld(hold);
    return Promise.resolve();
  }

  private known({ tenant, idempotencyKey }: JournalKey): Entry | undefined {
    return this.finished.get(tenant, idempotencyKey) ?? this.open.get(tenant, idempotencyKey);
  }

  /** Takes an open call out of the journal, if its lease is still the given one. */
  private takeHeld(hold: JournalHold): Entry | undefined {
    const known = this.open.get(hold.tenant, hold.idempotencyKey);
    if (!isHeldBy(known?.lease, hold)) return undefined;
    this.open.delete(hold.tenant, hold.idempotencyKey);
    return known;
  }

  private detach(tenant: string, key: string): void {
    const entry = this.finished.get(tenant, key);
    if (entry?.outcome?.status !== 'succeeded') return;
    const { attachments: _attachments, ...outcome } = entry.outcome;
    const content = `${outcome.content}\n[The attachments of this result are not kept any more.]`;
    this.finished.put(tenant, key, { ...entry, outcome: { ...outcome, content } });
  }
}

const MAX_FINISHED = 20_000;

const MAX_ATTACHED_CHARACTERS = 64 * 1024 * 1024;

interface Entry {
  readonly call: JournalCall;
  readonly lease: Lease;
  readonly outcome?: JournalOutcome;
}

function countAttached(outcome: JournalOutcome): number {
  const attachments = outcome.status === 'succeeded' ? (outcome.attachments ?? []) : [];
  return attachments.reduce((sum, { url }) => sum + url.length, 0);
}

function entryOf({ outcome, lease }: Entry): JournalEntry {
  return outcome
    ? { status: 'finished', outcome }
    : { status: 'in_progress', leftMs: leftMs(lease) };
}

function isSameCall(one: JournalCall, other: JournalCall): boolean {
  return (
    one.declaredId === other.declaredId &&
    one.instanceId === other.instanceId &&
    one.args === other.args
  );
}
