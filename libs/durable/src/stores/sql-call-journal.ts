import {
  CallJournal,
  type CallsOfWrite,
  type FinishedCall,
  type JournalCall,
  type JournalClaim,
  type JournalEntry,
  type JournalHold,
  type JournalKey,
  type JournalOutcome,
  type JournalStart,
  type Lease,
  type LeaseRequest,
} from '@toolloop/core/stores';
import type { NamedStatement } from '../database/database-driver.js';
import type { Database } from '../database/database.js';
import {
  fromLeaseRow,
  heldBy,
  inMs,
  LEASE,
  type LeaseRow,
  leaseTo,
  LEFT_MS,
} from '../database/lease-sql.js';
import { keyHash, shownText, storableKey, storedJson } from './storable.js';

/**
 * Keeps the mutating calls that were begun and their outcomes in SQL, across crashes and processes.
 * Of arguments it keeps a hash.
 */
export class SqlCallJournal extends CallJournal {
  constructor(private readonly database: Database) {
    super();
  }

  /**
   * Tells if it is one of this database, as it stands here: a subclass may keep calls elsewhere.
   */
  static isOf(journal: CallJournal, database: Database): boolean {
    return (
      journal instanceof SqlCallJournal &&
      journal.constructor === SqlCallJournal &&
      journal.database === database
    );
  }

  override async acquire(start: JournalStart): Promise<JournalClaim> {
    const { owner, forMs } = start;
    const callHash = callHashOf(start);
    for (;;) {
      const [acquired] = await this.database.query<LeaseRow>(ACQUIRE, [
        ...startValues(start),
        owner,
        forMs,
      ]);
      if (acquired) return { status: 'acquired', lease: fromLeaseRow(acquired) };
      const known = await this.row(start);
      // else it was released in between
      if (known)
        return known.call_hash === callHash ? claimOf(known, owner) : { status: 'conflict' };
    }
  }

  override async find(call: JournalCall): Promise<JournalEntry | undefined> {
    const known = await this.row(call);
    return known?.call_hash === callHashOf(call) ? entryOf(known) : undefined;
  }

  override async steal(
    key: JournalKey,
    { owner, forMs }: LeaseRequest,
  ): Promise<Lease | undefined> {
    const [stolen] = await this.database.query<LeaseRow>(
      `update toolloop.calls set ${leaseTo('$3', '$4')} where tenant = $1 and key_hash = $2 and outcome is null returning ${LEASE}`,
      [...keysOf(key), owner, forMs],
    );
    return stolen && fromLeaseRow(stolen);
  }

  override async finish(hold: JournalHold, outcome: JournalOutcome): Promise<void> {
    await this.database.query(FINISH, [
      ...keysOf(hold),
      hold.owner,
      hold.epoch,
      storedJson(outcome, 'outcome'),
    ]);
  }

  override async release(hold: JournalHold): Promise<void> {
    await this.database.query(`delete from toolloop.calls where ${IS_HELD} and effect is null`, [
      ...keysOf(hold),
      hold.owner,
      hold.epoch,
    ]);
  }

  private async row(key: JournalKey): Promise<CallRow | undefined> {
    const [row] = await this.database.query<CallRow>(
      `select call_hash, ${LEASE}, outcome, effect, ${LEFT_MS} from toolloop.calls where tenant = $1 and key_hash = $2`,
      keysOf(key),
    );
    return row;
  }
}

/** The columns of the tables that `beginCalls` and `finishCalls` take, and the rows of them. */
export const BEGUN_COLUMNS = [
  'tenant',
  'key_hash',
  'idempotency_key',
  'run',
  'declared_id',
  'call_hash',
  'owner',
  'for_ms',
];
export const FINISHED_COLUMNS = ['tenant', 'key_hash', 'owner', 'epoch', 'outcome'];

/**
 * Begins the calls of the table `call` within another statement: that of a run whose row is `held`,
 * without which none is begun.
 */
export function beginCalls(table: string): string {
  return `begun as (
    insert into toolloop.calls (tenant, key_hash, idempotency_key, run_id, declared_id, call_hash, owner, epoch, expires_at)
    select call.tenant, call.key_hash, call.idempotency_key, call.run, call.declared_id, call.call_hash, call.owner, 1, ${inMs('call.for_ms')}
    from held, ${table}
    on conflict (tenant, key_hash) do nothing returning key_hash, ${LEASE}
  )`;
}

/** Finishes the calls of the table `done` within another statement. */
export function finishCalls(table: string): string {
  return `finished as (
    update toolloop.calls as call set outcome = done.outcome::json, finished_at = now() from ${table}
    where call.tenant = done.tenant and call.key_hash = done.key_hash and call.owner = done.owner and call.epoch = done.epoch::int
      and call.outcome is null
  )`;
}

/**
 * Returns a row of the table of `beginCalls`.
 *
 * @throws {UnstorableError} For a tenant that cannot be stored.
 */
export function begunRow(start: JournalStart): readonly string[] {
  return [...startValues(start), start.owner, String(start.forMs)];
}

/**
 * Returns a row of the table of `finishCalls`.
 *
 * @throws {UnstorableError} For a tenant or an outcome that cannot be stored.
 */
export function finishedRow({ hold, outcome }: FinishedCall): readonly string[] {
  return [...keysOf(hold), hold.owner, String(hold.epoch), storedJson(outcome, 'outcome')];
}

/** The leases of the calls that a statement has begun, in the order of `begun`. */
export function leasesOf(
  begun: CallsOfWrite['begun'],
  rows: readonly BegunRow[],
): readonly (Lease | undefined)[] {
  const leases = new Map(rows.map((row) => [row.key_hash, row]));
  return begun.map((start) => {
    const row = leases.get(keysOf(start)[1]);
    return row?.owner === start.owner ? fromLeaseRow(row) : undefined;
  });
}

/** A row of `begun`; with nulls where none was. */
export interface BegunRow extends LeaseRow {
  readonly key_hash: string;
}

interface CallRow extends LeaseRow {
  readonly call_hash: string;
  readonly outcome: JournalOutcome | null;
  readonly effect: { readonly result?: unknown } | null;
  readonly left_ms: number;
}

const IS_HELD = `tenant = $1 and key_hash = $2 and ${heldBy('$3', '$4')} and outcome is null`;
const ACQUIRE: NamedStatement = {
  name: 'toolloop_acquire_call',
  text: `
    insert into toolloop.calls (tenant, key_hash, idempotency_key, run_id, declared_id, call_hash, owner, epoch, expires_at)
    values ($1, $2, $3, $4, $5, $6, $7, 1, ${inMs('$8')})
    on conflict (tenant, key_hash) do nothing returning ${LEASE}`,
};
const FINISH: NamedStatement = {
  name: 'toolloop_finish_call',
  text: `update toolloop.calls set outcome = $5, finished_at = now() where ${IS_HELD}`,
};

/**
 * The columns by which a call is found.
 *
 * @throws {UnstorableError} For a tenant that cannot be stored.
 */
export function keysOf({ tenant, idempotencyKey }: JournalKey): [tenant: string, keyHash: string] {
  return [storableKey(tenant, 'tenant'), keyHash(idempotencyKey)];
}

function startValues(start: JournalStart): readonly string[] {
  const { idempotencyKey, runId, declaredId } = start;
  return [
    ...keysOf(start),
    shownText(idempotencyKey),
    shownText(runId),
    shownText(declaredId),
    callHashOf(start),
  ];
}

function callHashOf({ declaredId, instanceId, args }: JournalCall): string {
  return keyHash(declaredId, instanceId ?? null, args);
}

/**
 * The same owner gets its lease again, unless its transaction is committed: then its effect took
 * place.
 */
function claimOf(row: CallRow, owner: string): JournalClaim {
  const isOurs = row.owner === owner && !row.outcome && !row.effect;
  return isOurs ? { status: 'acquired', lease: fromLeaseRow(row) } : entryOf(row);
}

function entryOf({ outcome, effect, left_ms: leftMs }: CallRow): JournalEntry {
  return outcome
    ? { status: 'finished', outcome }
    : { status: 'in_progress', leftMs, ...(effect && { kept: effect }) };
}
