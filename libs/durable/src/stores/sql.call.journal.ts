import { CallJournal, type JournalClaim, type JournalKey, type JournalOutcome, type JournalStart } from '@toolloop/core';
import type { Database } from '../database/database.js';
import type { NamedStatement } from '../database/database-driver.js';
import { keyHash, shownText, storableKey, storedJson } from './storable.js';

interface CallRow {
  readonly call_hash: string;
  readonly outcome: JournalOutcome | null;
}

const BEGIN: NamedStatement = {
  name: 'toolloop_begin_call',
  text: `
    insert into toolloop.calls (tenant, key_hash, idempotency_key, run_id, declared_id, call_hash) values ($1, $2, $3, $4, $5, $6)
    on conflict (tenant, key_hash) do nothing returning tenant`,
};
const FINISH: NamedStatement = {
  name: 'toolloop_finish_call',
  text: 'update toolloop.calls set outcome = $3, finished_at = now() where tenant = $1 and key_hash = $2 and outcome is null',
};

/** Keeps in SQL which mutating calls were begun and what they came to, across crashes and processes. Of arguments it keeps a hash. */
export class SqlCallJournal extends CallJournal {
  constructor(private readonly database: Database) {
    super();
  }

  override async begin(start: JournalStart): Promise<JournalClaim> {
    const { runId, declaredId, instanceId, args } = start;
    const [tenant, key] = keysOf(start);
    const callHash = keyHash(declaredId, instanceId ?? null, args);
    for (;;) {
      const taken = await this.database.query(BEGIN, [
        tenant,
        key,
        shownText(start.idempotencyKey),
        shownText(runId),
        shownText(declaredId),
        callHash,
      ]);
      if (taken.length > 0) return { status: 'started' };
      const [known] = await this.database.query<CallRow>(
        'select call_hash, outcome from toolloop.calls where tenant = $1 and key_hash = $2',
        [tenant, key],
      );
      if (known) return claimOf(known, callHash); // else it was released in between
    }
  }

  override async finish(key: JournalKey, outcome: JournalOutcome): Promise<void> {
    await this.database.query(FINISH, [...keysOf(key), storedJson(outcome, 'outcome')]);
  }

  override async release(key: JournalKey): Promise<void> {
    const unused = 'outcome is null and effect is null';
    await this.database.query(`delete from toolloop.calls where tenant = $1 and key_hash = $2 and ${unused}`, keysOf(key));
  }
}

/** The columns by which a call is found. Throws `UnstorableError`. */
export function keysOf({ tenant, idempotencyKey }: JournalKey): [tenant: string, keyHash: string] {
  return [storableKey(tenant, 'tenant'), keyHash(idempotencyKey)];
}

function claimOf({ call_hash: known, outcome }: CallRow, callHash: string): JournalClaim {
  if (known !== callHash) return { status: 'conflict' };
  return outcome ? { status: 'finished', outcome } : { status: 'in_progress' };
}
