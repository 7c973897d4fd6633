import type { PGlite } from '@electric-sql/pglite';
import type { Pool, QueryConfig, QueryResult, Submittable } from 'pg';

/** What a statement takes. Nothing else reaches SQL: identifiers are ours, values are parameters. */
export type SqlValue = string | number | bigint | boolean | Date | Uint8Array | null | readonly string[];

/** What the handle is made of. It knows nothing of `Database.transaction`: on PGlite, whoever asks it inside of one waits for ever. */
export type NativeConnection =
  { readonly engine: 'pglite'; readonly pglite: PGlite } | { readonly engine: 'postgres'; readonly pool: Pool };

/** As pg answers: one result, or one for each where several statements came at once. */
export type SqlAnswer = QueryResult | QueryResult[];

/**
 * A statement that is asked so often that every session keeps it parsed and planned, under a name that no other text has. For the few in the way of every step:
 * a session keeps them for as long as it lives.
 */
export interface NamedStatement {
  readonly name: string;
  readonly text: string;
}

export type SqlStatement = string | NamedStatement;

/** Whatever runs one statement after the other. */
export interface SqlSession {
  query<Row extends object>(statement: SqlStatement, values: readonly SqlValue[]): Promise<readonly Row[]>;
  /** The same for libraries, in pg's words and types. */
  ask(statement: QueryConfig): Promise<SqlAnswer>;
}

/** What a library's client is outside of `Database.transaction`: a session of its own, as far as the engine has any. */
export interface ClientSession {
  ask(statement: QueryConfig): Promise<SqlAnswer>;
  /** Runs what reads by itself, such as a cursor. Throws where the engine has no connection for it. */
  submit<Reading extends Submittable>(reading: Reading): Reading;
  /** Undoes what was not committed. */
  end(): Promise<void>;
}

/** What differs between PGlite and PostgreSQL. A `query` of the driver itself commits by itself. */
export interface DatabaseDriver extends SqlSession {
  readonly connection: NativeConnection;
  /** One after the other on PGlite; each on a connection of its own on PostgreSQL. Rolled back when `work` rejects. */
  transaction<Result>(work: (session: SqlSession) => Promise<Result>): Promise<Result>;
  /** A session for one client of a library. */
  lend(onLost: (error: Error) => void): Promise<ClientSession>;
  /** Resolves, once notifications are heard, to what ends it. */
  listen(channel: string, heard: (payload: string) => void): Promise<() => Promise<void>>;
  close(): Promise<void>;
}
