import type { PGlite } from '@electric-sql/pglite';
import type { Pool } from 'pg';

/** What a statement takes. Nothing else reaches SQL: identifiers are ours, values are parameters. */
export type SqlValue = string | number | bigint | boolean | Date | Uint8Array | null | readonly string[];

/** What the handle is made of, for libraries that share it: pg-boss, an ORM. Use it outside of `Database.transaction` only. */
export type DatabaseConnection =
  { readonly engine: 'pglite'; readonly pglite: PGlite } | { readonly engine: 'postgres'; readonly pool: Pool };

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
}

/** What differs between PGlite and PostgreSQL. A `query` of the driver itself commits by itself. */
export interface DatabaseDriver extends SqlSession {
  readonly connection: DatabaseConnection;
  /** One after the other on PGlite; each on a connection of its own on PostgreSQL. Rolled back when `work` rejects. */
  transaction<Result>(work: (session: SqlSession) => Promise<Result>): Promise<Result>;
  /** Resolves, once notifications are heard, to what ends it. */
  listen(channel: string, heard: (payload: string) => void): Promise<() => Promise<void>>;
  close(): Promise<void>;
}
