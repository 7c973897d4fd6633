import { toResultJson } from '@toolloop/core/internal';
import { CallTransactions, type JournalKey } from '@toolloop/core/stores';
import { StorageUnavailableError } from '@toolloop/protocol';
import { rejectAsOurs } from '../database/database-driver.js';
import type { Database } from '../database/database.js';
import { fromError, toStorageError } from '../database/storage-error.js';
import { keysOf } from './sql-call-journal.js';
import { UnstorableError } from './storable.js';

/**
 * Effects in the same database, marked on the call's row of the journal: of two processes that make
 * a call, the second waits, and gets what the first kept.
 */
export class SqlCallTransactions extends CallTransactions {
  constructor(private readonly database: Database) {
    super();
  }

  override once<Result>(
    call: JournalKey,
    work: () => Promise<Result>,
    over: AbortSignal,
  ): Promise<Result> {
    const keys = keysOf(call);
    const marked = async (): Promise<Result> => {
      const [row] = await this.database
        .query<OpenCallRow<Result>>(
          'select effect from toolloop.calls where tenant = $1 and key_hash = $2 for update',
          keys,
        )
        .catch(rejectAsOurs);
      if (!row)
        throw new Error(
          'The call is not in the journal of this database, so it could not be recognized later.',
        );
      if (row.effect) return row.effect.result;
      const text = keptText(await work());
      const [kept] = await this.database
        .query<MarkedRow<Result>>(
          'update toolloop.calls set effect = $3 where tenant = $1 and key_hash = $2 returning effect',
          [...keys, text],
        )
        .catch(rejectMark);
      if (!kept) throw new Error('The call was removed from the journal.');
      return kept.effect.result; // as JSON gives it back, the first time as every other time
    };
    return this.database.transaction(marked, over);
  }

  override async rehearse<Result>(work: () => Promise<Result>, over: AbortSignal): Promise<Result> {
    const undo = new Error('The rehearsal is over, and is rolled back.');
    const results: Result[] = [];
    const rehearsed = this.database.transaction(async () => {
      results.push(await work());
      await this.database.query('set constraints all immediate');
      throw undo;
    }, over);
    return rehearsed.catch((error: unknown) => {
      if (error !== undo) throw error;
      return results[0];
    });
  }

  override unmarked<Result>(work: () => Promise<Result>): Promise<Result> {
    return this.database.transaction(async () => {
      // by an id of its own the work of others is known to be part of it
      await this.database.query('select pg_current_xact_id()::text');
      const [kept] = await this.database.query<MarkedRow<Result>>('select $1::json as effect', [
        keptText(await work()),
      ]);
      if (!kept) throw new Error('The database did not answer.');
      return kept.effect.result;
    });
  }
}

interface MarkedRow<Result> {
  readonly effect: { readonly result: Result };
}

interface OpenCallRow<Result> {
  readonly effect: MarkedRow<Result>['effect'] | null;
}

/** SQLSTATE of what the database says of the result that is to be kept: that is the tool's. */
const OF_RESULT = /^(?:22|54)/;

/**
 * Rejects for a mark that the database refuses: the transaction is rolled back, and nothing of that
 * is the tool's fault.
 */
function rejectMark(cause: unknown): never {
  const error = toStorageError(cause, true);
  if (StorageUnavailableError.in(error) || OF_RESULT.test(fromError(error).code)) throw error;
  throw new StorageUnavailableError('The database refuses to mark a call as made.', {
    cause,
    mayPass: false,
  });
}

/**
 * As a model would read it, so that work may return what any tool may: dates, bigints, maps and
 * sets.
 */
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
