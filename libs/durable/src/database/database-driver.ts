import { setTimeout as wait } from 'node:timers/promises';
import type { PGlite } from '@electric-sql/pglite';
import { ConfigurationError } from '@toolloop/core';
import { isStoreAttempt } from '@toolloop/core/internal';
import { StorageUnavailableError } from '@toolloop/protocol';
import type { Pool, QueryConfig, QueryResult, Submittable } from 'pg';

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
 * The settings of every session, by which the texts of statements and values mean what they mean
 * here: a server, a database or a role may have others. Nothing in them is about the time or the
 * isolation of a transaction.
 */
export const SESSION_SETTINGS = `
  set datestyle to 'ISO, MDY'; set intervalstyle to 'postgres'; set standard_conforming_strings to on; set bytea_output to 'hex';
  set extra_float_digits to 1; set transform_null_equals to off; set array_nulls to on`;

const AT = 'DurableModule url';

/**
 * Describes the mistake in the address of a server without ever quoting it: there is a password in
 * it.
 */
export function urlProblem(url: string): string | undefined {
  const isRead = URL.canParse(url) && /^postgres(ql)?:$/.test(new URL(url).protocol);
  if (!isRead)
    return 'It is not an address of the form postgres://user:password@host:5432/database.';
  // In `postgres://user:pass/word@host` the host would be the user, and the port a part of the
  // password.
  return new URL(url).pathname.includes('@')
    ? 'A character of its user or password, such as / or #, is not percent-encoded.'
    : undefined;
}

/** Describes the server and the user of an address: all of it that may be shown. */
function placeOf(url: string): string {
  const { hostname, port, pathname, username } = new URL(url);
  const database = decodeURIComponent(pathname.slice(1)) || username;
  return `${hostname || 'localhost'}:${port || '5432'}, database "${database}", user "${decodeURIComponent(username)}"`;
}

/** Why a server does not let us in, and what to do. */
export function unreachable(url: string, error: unknown): ConfigurationError {
  const { code, message } = fromError(StorageUnavailableError.in(error)?.cause ?? error);
  const said = withoutPassword(url, message).replace(/\.$/, '');
  return new ConfigurationError([
    {
      at: AT,
      problem: `PostgreSQL at ${placeOf(url)} cannot be used: ${said || code}.`,
      remedy: REMEDIES[code] ?? REMEDY,
    },
  ]);
}

function withoutPassword(url: string, text: string): string {
  const { password } = new URL(url);
  if (password === '') return text;
  return [password, decodeURIComponent(password)].reduce(
    (kept, secret) => kept.replaceAll(secret, '***'),
    text,
  );
}

const REMEDY =
  'Start the server and check host, port, user and database. Without a server, give a folder instead: { dataDir }.';

const REMEDIES: Readonly<Record<string, string>> = {
  '28P01': 'Check user and password; characters such as @ : / # are percent-encoded in an address.',
  '28000':
    'Let the user log in from here (pg_hba.conf), or check whether the server asks for TLS: ?sslmode=require.',
  '3D000': 'Create the database (createdb), or name one that exists.',
  '42501': 'Let the user create the schema "toolloop": grant create on database … to … .',
  '53300':
    'The server has no connection left: raise max_connections, or give fewer to each process ({ connections }).',
};

/**
 * The code and message of an error of the database or of Node. Errors of another realm are errors
 * as well, so `instanceof` is not asked.
 */
export interface ErrorSaid {
  /** Such as `ECONNREFUSED` or `28P01`; empty where there is none. */
  readonly code: string;
  readonly message: string;
}

/**
 * SQLSTATE of what passes: the connection is lost or refused, the server stops or starts, it has no
 * room, two transactions were in each other's way.
 */
const PASSING_STATE = /^(?:08|57P0[1235]|53[0-3]|40001|40P01)/;
/**
 * SQLSTATE of what passes for a statement of ours: it was cancelled or reached a limit of its time,
 * or that of a lock or of its transaction, or the server is no primary any more. A statement of a
 * tool may have limits of its own, and what becomes of it then is the tool's business.
 */
const PASSING_OF_OURS = /^(?:57014|55P03|25006|25P0[234])/;
/**
 * SQLSTATE of a session that does not know a statement any more, knows it already, or writes to a
 * server that is no primary any more.
 */
const OF_SESSION = new Set(['26000', '42P05', '25006']);
/**
 * The message of SQLSTATE 0A000 for a statement whose plan was made before a table changed. The
 * other meanings of the code stay.
 */
const OUTDATED_PLAN = /cached plan must not change result type/;
const PASSING_CODE = new Set([
  'ECONNRESET',
  'ECONNREFUSED',
  'EPIPE',
  'ETIMEDOUT',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
]);
/** The messages of pg about a connection itself. It has no code for these. */
const PASSING_TEXT =
  /^(?:Connection terminated|Query read timeout|timeout exceeded when trying to connect|Client has encountered a connection error|Client was closed|terminating connection)/;

/**
 * Tells if another session may do what this one did not, since it is outdated: none of the
 * statement was done. Such a session is given up.
 */
export function isOfSession(error: unknown): boolean {
  const { code, message } = fromError(StorageUnavailableError.in(error)?.cause ?? error);
  return OF_SESSION.has(code) || (code === '0A000' && OUTDATED_PLAN.test(message));
}

/**
 * The error of a driver as the stores are to know it: what may pass is repeated. Any other stays as
 * it is.
 *
 * @param isOurs true for a statement that a store sent, or that begins or ends a transaction
 */
export function toStorageError(error: unknown, isOurs = isStoreAttempt()): unknown {
  if (StorageUnavailableError.in(error)) return error;
  const { code, message } = fromError(error);
  const isPassing =
    PASSING_STATE.test(code) || PASSING_CODE.has(code) || PASSING_TEXT.test(message);
  const mayPass =
    isPassing || (isOurs && PASSING_OF_OURS.test(code)) || (code !== '25006' && isOfSession(error));
  return mayPass
    ? new StorageUnavailableError('The database does not answer for now.', { cause: error })
    : error;
}

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
const ATTEMPTS = 20;
const PAUSE_MS = 300;

/**
 * Runs an idempotent preparation again where the connection is lost under it, or a statement is
 * cancelled, so that a process starts through a restart of its server.
 */
export async function repeatedWhereLost(work: () => Promise<void>): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await work();
    } catch (error) {
      const lost = StorageUnavailableError.in(toStorageError(error, true));
      if (!lost || UNREACHED.has(fromError(lost.cause).code) || attempt >= ATTEMPTS) throw error;
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

export function fromError(error: unknown): ErrorSaid {
  const { code, message } = (error ?? {}) as Partial<Record<keyof ErrorSaid, unknown>>;
  return {
    code: typeof code === 'string' ? code : '',
    message: typeof message === 'string' ? message : String(error),
  };
}

const CHANGES = /^\s*(?:set|select\s+set_config\s*\()/i;
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

const FOR_SESSION =
  /^\s*set\s+(?:session\s+)?(?:role|session\s+authorization)\b|set_config\s*\([^()]*,\s*false\s*\)/i;

/**
 * Tells if a statement gives the whole session a role, or settings that outlast the transaction:
 * the next user of the connection would have them, too.
 */
export function isForSession({ text }: QueryConfig): boolean {
  return CHANGES.test(text) && FOR_SESSION.test(text);
}

/** The message for one where the session is everybody's. */
export const FOR_SESSION_REFUSED =
  'This would leak its role or settings to the next user of the connection. Set them for a transaction: set local, set_config(…, true).';
