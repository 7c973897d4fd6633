import { setTimeout as wait } from 'node:timers/promises';
import type { PGlite } from '@electric-sql/pglite';
import { StorageUnavailableError } from '@toolloop/protocol';
import type { Pool, QueryConfig, QueryResult, Submittable } from 'pg';
import { fromError, toStorageError } from './storage-error.js';

/**
 * The difference between PGlite and PostgreSQL. A `query` of the driver itself commits by itself.
 */
export interface DatabaseDriver extends SqlSession {
  readonly connection: NativeConnection;
  /**
   * One after the other on PGlite; each on a connection of its own on PostgreSQL. Rolled back when
   * `work` rejects. Where that does not end in a second once `over` is aborted, the connection is
   * given up.
   */
  transaction<Result>(
    work: (session: SqlSession) => Promise<Result>,
    over?: AbortSignal,
  ): Promise<Result>;
  /** A session for one client of a library. */
  lend(onLost: (error: Error) => void): Promise<ClientSession>;
  /** Resolves, once notifications are heard, to what ends it. */
  listen(channel: string, heard: (payload: string) => void): Promise<() => Promise<void>>;
  /**
   * Tells if a notification on the channel may be heard. Absent where other processes may listen.
   */
  isHeard?(channel: string): boolean;
  /**
   * Told when the process is to end: a database that answers nothing any more then keeps it no
   * longer than some seconds. Absent where the database is in the process.
   */
  leave?(): void;
  close(): Promise<void>;
}

/**
 * A parameter of a statement. Nothing else reaches SQL: identifiers are ours, values are
 * parameters.
 */
export type SqlValue =
  string | number | bigint | boolean | Date | Uint8Array | null | readonly string[];

/**
 * The connection under the handle. It knows nothing of `Database.transaction`: on PGlite, a query
 * of it inside of one waits for ever.
 */
export type NativeConnection =
  | { readonly engine: 'pglite'; readonly pglite: PGlite }
  | { readonly engine: 'postgres'; readonly pool: Pool };

/** As pg answers: one result, or one for each where several statements came at once. */
export type SqlAnswer = QueryResult | QueryResult[];

/**
 * A statement that is asked so often that every session keeps it parsed and planned, under a name
 * that no other text has. For the few in the way of every step: a session keeps them for as long as
 * it lives.
 */
export interface NamedStatement {
  readonly name: string;
  readonly text: string;
}

export type SqlStatement = string | NamedStatement;

/** Whatever runs one statement after the other. */
export interface SqlSession {
  query<Row extends object>(
    statement: SqlStatement,
    values: readonly SqlValue[],
  ): Promise<readonly Row[]>;
  /** The same for libraries, in pg's words and types. */
  ask(statement: QueryConfig): Promise<SqlAnswer>;
}

/**
 * The session of a library's client outside of `Database.transaction`: one of its own, as far as
 * the engine has any.
 */
export interface ClientSession {
  ask(statement: QueryConfig): Promise<SqlAnswer>;
  /**
   * Runs what reads by itself, such as a cursor. Throws where the engine has no connection for it.
   */
  submit<Reading extends Submittable>(reading: Reading): Reading;
  /** Undoes what was not committed. */
  end(): Promise<void>;
}

/**
 * The settings of every session, by which the texts of statements and values mean what they mean
 * here: a server, a database or a role may have others. Nothing in them is about the time or the
 * isolation of a transaction.
 */
export const SESSION_SETTINGS = `
  set datestyle to 'ISO, MDY'; set intervalstyle to 'postgres'; set standard_conforming_strings to on; set bytea_output to 'hex';
  set extra_float_digits to 1; set transform_null_equals to off; set array_nulls to on`;

/**
 * A statement of a store, or of the job queue, that has no answer for so long was asked over a
 * connection that is gone without a word, as behind a firewall or at a fail-over. It is given up
 * with the connection: the system would take a quarter of an hour to notice, while all of them
 * hang.
 */
export const LONGEST_ANSWER_MS = 15_000;

/** Tells of a statement that was given up since it had no answer. */
export function isUnanswered(error: unknown): boolean {
  return (
    fromError(StorageUnavailableError.in(error)?.cause ?? error).message === 'Query read timeout'
  );
}

/** Codes of a server that was never reached: to wait for it would only hide a wrong address. */
const UNREACHED = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
]);
const LONGEST_RESTART_MS = 15_000;
const PAUSE_MS = 300;

/**
 * Runs an idempotent preparation again if the connection is lost under it, or a statement is
 * cancelled, so that a process starts through a restart of its server. A server that is silent for
 * longer than a restart takes is a failed start.
 */
export async function repeatedWhereLost(work: () => Promise<void>): Promise<void> {
  const until = performance.now() + LONGEST_RESTART_MS;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      const lost = StorageUnavailableError.in(toStorageError(error, true));
      const isRestarting = lost && !UNREACHED.has(fromError(lost.cause).code);
      if (!isRestarting || performance.now() > until) throw error;
      await wait(PAUSE_MS);
    }
  }
}

/** Rejects with it. */
export function rejectAsStorage(error: unknown): never {
  throw toStorageError(error);
}

/** The same for a statement of ours in the transaction of a tool. */
export function rejectAsOurs(error: unknown): never {
  throw toStorageError(error, true);
}

export const CHANGES = /^\s*(?:set|select\s+set_config\s*\()/i;
const BY_SET = /^\s*set\s+(?:local\s+)?(?:(role)\b|([\w.]+)\s*(?:=|to\b))/i;
const BY_CALL = /set_config\s*\(\s*(?:'((?:[^']|'')+)'|\$(\d+))/gi;

/**
 * The settings that a statement changes until the end of the transaction: a role, and what the
 * policies of rows read. A library that has its own transaction for them counts on their end with
 * it; those of a savepoint would stay.
 */
export function settingsIn({ text, values = [] }: QueryConfig<unknown[]>): readonly string[] {
  if (!CHANGES.test(text)) return [];
  const [, role, set = role] = BY_SET.exec(text) ?? [];
  if (set !== undefined) return [set.toLowerCase()];
  return [...text.matchAll(BY_CALL)].map(
    ([, name, place]) => name?.replaceAll("''", "'") ?? String(values[Number(place) - 1]),
  );
}
