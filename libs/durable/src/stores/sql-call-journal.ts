import { toResultJson } from '@toolloop/core/internal';
import {
  CallJournal,
  CallTransactions,
  type JournalCall,
  type JournalClaim,
  type JournalEntry,
  type JournalHold,
  type JournalKey,
  type JournalOutcome,
  type JournalStart,
} from '@toolloop/core/stores';
import type { NamedStatement } from '../database/database-driver.js';
import type { Database } from '../database/database.js';
import { keyHash, shownText, storableKey, storedJson, UnstorableError } from './storable.js';

interface CallRow {
  readonly call_hash: string;
  readonly claim_id: string | null;
  readonly outcome: JournalOutcome | null;
  readonly effect: { readonly result?: unknown } | null;
  readonly left_ms: number;
}

/** When the call ends, if it ever does. */
const ENDS_AT = (parameter: string): string => `clock_timestamp() + ${parameter}::float8 * interval '1 millisecond'`;
const LEFT_MS = `greatest(0, coalesce(extract(epoch from ends_at - clock_timestamp()) * 1000, 0))::float8 as left_ms`;
const IS_HELD = 'tenant = $1 and key_hash = $2 and claim_id = $3 and outcome is null';
const BEGIN: NamedStatement = {
  name: 'toolloop_begin_call',
  text: `
    insert into toolloop.calls (tenant, key_hash, idempotency_key, run_id, declared_id, call_hash, claim_id, ends_at)
    values ($1, $2, $3, $4, $5, $6, $7, ${ENDS_AT('$8')})
    on conflict (tenant, key_hash) do nothing returning tenant`,
};
const FINISH: NamedStatement = {
  name: 'toolloop_finish_call',
  text: `update toolloop.calls set outcome = $4, finished_at = now() where ${IS_HELD}`,
};

/** Keeps in SQL which mutating calls were begun and what they came to, across crashes and processes. Of arguments it keeps a hash. */
export class SqlCallJournal extends CallJournal {
  constructor(private readonly database: Database) {
    super();
  }

  override async begin(start: JournalStart): Promise<JournalClaim> {
    const { runId, declaredId, claimId, mostMs } = start;
    const [tenant, key] = keysOf(start);
    const callHash = callHashOf(start);
    for (;;) {
      const taken = await this.database.query(BEGIN, [
        tenant,
        key,
        shownText(start.idempotencyKey),
        shownText(runId),
        shownText(declaredId),
        callHash,
        claimId,
        mostMs,
      ]);
      if (taken.length > 0) return { status: 'started' };
      const known = await this.row(start);
      if (known) return known.call_hash === callHash ? claimOf(known, claimId) : { status: 'conflict' }; // else it was released in between
    }
  }

  override async find(call: JournalCall): Promise<JournalEntry | undefined> {
    const known = await this.row(call);
    return known?.call_hash === callHashOf(call) ? entryOf(known) : undefined;
  }

  override async takeOver(hold: JournalHold, mostMs: number): Promise<boolean> {
    const taken = await this.database.query(
      `update toolloop.calls set claim_id = $3, ends_at = ${ENDS_AT('$4')}
       where tenant = $1 and key_hash = $2 and outcome is null returning tenant`,
      [...keysOf(hold), hold.claimId, mostMs],
    );
    return taken.length > 0;
  }

  override async finish(hold: JournalHold, outcome: JournalOutcome): Promise<void> {
    await this.database.query(FINISH, [...keysOf(hold), hold.claimId, storedJson(outcome, 'outcome')]);
  }

  override async release(hold: JournalHold): Promise<void> {
    await this.database.query(`delete from toolloop.calls where ${IS_HELD} and effect is null`, [...keysOf(hold), hold.claimId]);
  }

  private async row(key: JournalKey): Promise<CallRow | undefined> {
    const [row] = await this.database.query<CallRow>(
      `select call_hash, claim_id, outcome, effect, ${LEFT_MS} from toolloop.calls where tenant = $1 and key_hash = $2`,
      keysOf(key),
    );
    return row;
  }
}

/** The columns by which a call is found. Throws `UnstorableError`. */
export function keysOf({ tenant, idempotencyKey }: JournalKey): [tenant: string, keyHash: string] {
  return [storableKey(tenant, 'tenant'), keyHash(idempotencyKey)];
}

function callHashOf({ declaredId, instanceId, args }: JournalCall): string {
  return keyHash(declaredId, instanceId ?? null, args);
}

/** The same claim again has the key, unless its transaction is committed: then its effect took place. */
function claimOf(row: CallRow, claimId: string): JournalClaim {
  const isOurs = row.claim_id === claimId && !row.outcome && !row.effect;
  return isOurs ? { status: 'started' } : entryOf(row);
}

function entryOf({ outcome, effect, left_ms: leftMs }: CallRow): JournalEntry {
  return outcome ? { status: 'finished', outcome } : { status: 'in_progress', leftMs, ...(effect && { kept: effect }) };
}

interface MarkedRow<Result> {
  readonly effect: { readonly result: Result };
}

interface OpenCallRow<Result> {
  readonly effect: MarkedRow<Result>['effect'] | null;
}

/** Effects in the same database, marked on the call's row of the journal: of two processes that make a call, the second waits, and gets what the first kept. */
export class SqlCallTransactions extends CallTransactions {
  constructor(private readonly database: Database) {
    super();
  }

  override once<Result>(call: JournalKey, work: () => Promise<Result>): Promise<Result> {
    const keys = keysOf(call);
    return this.database.transaction(async () => {
      const [row] = await this.database.query<OpenCallRow<Result>>(
        'select effect from toolloop.calls where tenant = $1 and key_hash = $2 for update',
        keys,
      );
      if (!row) throw new Error('The call is not in the journal of this database, so it could not be recognized later.');
      if (row.effect) return row.effect.result;
      const text = keptText(await work());
      const [kept] = await this.database.query<MarkedRow<Result>>(
        'update toolloop.calls set effect = $3 where tenant = $1 and key_hash = $2 returning effect',
        [...keys, text],
      );
      if (!kept) throw new Error('The call was removed from the journal.');
      return kept.effect.result; // as JSON gives it back, the first time as every other time
    });
  }
}

/** As a model would read it, so that work may return what any tool may: dates, bigints, maps and sets. */
function keptText(result: unknown): string {
  try {
    return JSON.stringify({ result: result === undefined ? undefined : toResultJson(result) });
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : '';
    throw new UnstorableError(
      `What the callback of \`context.transaction\` returned cannot be stored. Return a plain object from it: ${why}`,
      {
        cause,
      },
    );
  }
}
