import { Logger } from '@nestjs/common';
import { Pool, types, type CustomTypesConfig, type PoolClient, type QueryConfig } from 'pg';
import type { ClientSession, DatabaseDriver, NativeConnection, SqlAnswer, SqlSession, SqlStatement, SqlValue } from './database-driver.js';
import { rejectAsStorage } from './from-error.js';
import { LeasedSession } from './leased.session.js';
import { PostgresListener } from './postgres.listener.js';
import { readInt8 } from './read-int8.js';
import { unreachable } from './unreachable.js';

/** Of one process, beside the one that listens. */
const MOST_CONNECTIONS = 10;
const LONGEST_CONNECT_MS = 10_000;
/** Whoever freezes in the middle of a transaction holds its locks for so long, and nobody could take his runs over. */
const LONGEST_IDLE_MS = 15_000;
const INT8 = 20;

/** Numbers as PGlite reads them; said per statement, so that whoever shares the pool keeps pg's ways. */
const TYPES: CustomTypesConfig = {
  getTypeParser: (id: number, format?: 'text' | 'binary'): unknown => {
    if (id === INT8 && format !== 'binary') return readInt8;
    const parser: unknown = types.getTypeParser(id, format);
    return parser;
  },
};

/** A PostgreSQL server, for as many processes as like to share it. */
export class PostgresDriver implements DatabaseDriver {
  readonly connection: NativeConnection;
  private readonly listener: PostgresListener;

  private constructor(
    private readonly pool: Pool,
    url: string,
  ) {
    this.connection = { engine: 'postgres', pool };
    this.listener = new PostgresListener(url);
  }

  /** Throws `ConfigurationError` where no server lets us in. */
  static async connect(url: string, connections = MOST_CONNECTIONS): Promise<PostgresDriver> {
    const pool = new Pool({
      connectionString: url,
      max: connections,
      connectionTimeoutMillis: LONGEST_CONNECT_MS,
      idle_in_transaction_session_timeout: LONGEST_IDLE_MS,
      keepAlive: true,
      application_name: 'toolloop',
    });
    Object.defineProperty(pool.options, 'connectionString', { enumerable: false }); // it holds the password, and objects get logged
    const logger = new Logger('DurableDatabase');
    pool.on('error', (error) => logger.warn(`A connection to the database was lost: ${error.message}`)); // an idle one; unheard, it would end the process
    pool.on('connect', (client) => client.on('error', () => undefined)); // between its owners nothing hears a client; its next statement fails anyway
    try {
      await pool.query('select 1');
    } catch (error) {
      await pool.end();
      throw unreachable(url, error);
    }
    return new PostgresDriver(pool, url);
  }

  async query<Row extends object>(statement: SqlStatement, values: readonly SqlValue[]): Promise<readonly Row[]> {
    return send<Row>(this.pool, statement, values);
  }

  ask(statement: QueryConfig): Promise<SqlAnswer> {
    return this.pool.query(statement);
  }

  async lend(onLost: (error: Error) => void): Promise<ClientSession> {
    return new LeasedSession(await this.pool.connect(), onLost);
  }

  async transaction<Result>(work: (session: SqlSession) => Promise<Result>): Promise<Result> {
    const client = await this.pool.connect().catch(rejectAsStorage);
    let broken: Error | undefined;
    const onError = (error: Error): void => {
      broken = error;
    };
    client.on('error', onError); // the pool does not hear those of a client that is in use
    try {
      await client.query('begin').catch(rejectAsStorage);
      const result = await work({
        query: (statement, values) => send(client, statement, values),
        ask: (statement) => client.query(statement),
      });
      await client.query('commit').catch(rejectAsStorage);
      return result;
    } catch (error) {
      await client.query('rollback').catch((failure: unknown) => {
        broken ??= failure instanceof Error ? failure : new Error(String(failure));
      });
      throw error;
    } finally {
      client.off('error', onError);
      client.release(broken); // which destroys it: nobody knows what state it is in
    }
  }

  listen(channel: string, heard: (payload: string) => void): Promise<() => Promise<void>> {
    return this.listener.listen(channel, heard);
  }

  async close(): Promise<void> {
    await this.listener.close();
    await this.pool.end();
  }
}

async function send<Row extends object>(
  to: Pool | PoolClient,
  statement: SqlStatement,
  values: readonly SqlValue[],
): Promise<readonly Row[]> {
  const asked = typeof statement === 'string' ? { text: statement } : statement;
  const { rows } = await to.query<Row>({ ...asked, values: [...values], types: TYPES }).catch(rejectAsStorage);
  return rows;
}
