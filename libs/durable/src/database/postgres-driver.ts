import { setTimeout as wait } from 'node:timers/promises';
import { Logger } from '@nestjs/common';
import { isStoreAttempt } from '@toolloop/core/internal';
import { Client, type CustomTypesConfig, escapeIdentifier, Pool, type PoolClient, type QueryConfig, type Submittable, types } from 'pg';
import {
  type ClientSession,
  type DatabaseDriver,
  isForSession,
  LONGEST_ANSWER_MS,
  type NativeConnection,
  rejectAsStorage,
  repeatedWhereLost,
  type SqlAnswer,
  type SqlSession,
  type SqlStatement,
  type SqlValue,
  isUnanswered,
  unreachable,
} from './database-driver.js';
import { LONGEST_IDLE_MS } from './transaction-scope.js';

/** The connections of one process, beside the one that listens. */
const MOST_CONNECTIONS = 10;
const LONGEST_CONNECT_MS = 10_000;
/** A transaction that is over has so long to end by itself. */
const GIVE_UP_MS = 1_000;
/** The silence after which a connection that only listens is asked if it is still there. */
const KEEP_ALIVE_MS = 10_000;
const INT8 = 20;

/** A number where it holds the value, else a bigint: what PGlite makes of it. */
export function readInt8(text: string): number | bigint {
  const number = Number(text);
  return Number.isSafeInteger(number) ? number : BigInt(text);
}

/** Numbers as PGlite reads them; said per statement, so that others who share the pool keep pg's ways. */
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

  /** @throws {ConfigurationError} Where no server lets us in. */
  static async connect(url: string, connections = MOST_CONNECTIONS): Promise<PostgresDriver> {
    const pool = new Pool({
      connectionString: url,
      max: connections,
      connectionTimeoutMillis: LONGEST_CONNECT_MS,
      idle_in_transaction_session_timeout: LONGEST_IDLE_MS, // for a process that freezes: its runs cannot be taken over meanwhile
      keepAlive: true,
      keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
      application_name: 'toolloop',
    });
    Object.defineProperty(pool.options, 'connectionString', { enumerable: false }); // it holds the password, and objects get logged
    const logger = new Logger('DurableDatabase');
    pool.on('error', (error) => logger.warn(`A connection to the database was lost: ${error.message}`)); // an idle one; unheard, it would end the process
    pool.on('connect', (client) => client.on('error', () => undefined)); // between its owners nothing hears a client; its next statement fails anyway
    try {
      await repeatedWhereLost(async () => void (await pool.query('select 1').catch(rejectAsStorage)));
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

  async transaction<Result>(work: (session: SqlSession) => Promise<Result>, over?: AbortSignal): Promise<Result> {
    const lent = new LentClient(await this.pool.connect().catch(rejectAsStorage));
    const unwatch = over && lent.giveUpAfter(over);
    const { client } = lent;
    const command = (text: string): Promise<unknown> =>
      client
        .query({ text, ...answerLimit() })
        .catch(rejectAsStorage)
        .catch(lent.noted);
    try {
      await command('begin');
      const result = await work({
        query: (statement, values) => send<never>(client, statement, values).catch(lent.noted),
        ask: (statement) => client.query(statement),
      });
      await command('commit');
      return result;
    } catch (error) {
      if (!lent.isBroken) await command('rollback').catch(lent.lose);
      throw error;
    } finally {
      unwatch?.();
      lent.release();
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
  const { rows } = await to.query<Row>({ ...asked, values: [...values], types: TYPES, ...answerLimit() }).catch(rejectAsStorage);
  return rows;
}

/** The option of pg by which it gives a statement up. What an application asks itself may take as long as it likes. */
function answerLimit(): { readonly query_timeout?: number } {
  return isStoreAttempt() ? { query_timeout: LONGEST_ANSWER_MS } : {};
}

/** The connection of a transaction. */
class LentClient {
  private broken: Error | undefined;
  private isReleased = false;

  constructor(readonly client: PoolClient) {
    client.on('error', this.lose); // the pool does not hear those of a client that is in use
  }

  readonly lose = (error: unknown): void => {
    this.broken ??= error instanceof Error ? error : new Error(String(error));
  };

  get isBroken(): boolean {
    return this.broken !== undefined;
  }

  /** Nothing more is asked over a connection on which a statement had no answer: it would wait behind that one. */
  readonly noted = (error: unknown): never => {
    if (isUnanswered(error)) this.lose(error);
    throw error;
  };

  /** Destroys the connection where its transaction has not ended a moment after the signal: its statement hangs, and fails by that. Returns what ends the watch. */
  giveUpAfter(over: AbortSignal): () => void {
    let timer: NodeJS.Timeout | undefined;
    const watch = (): void => {
      timer = setTimeout(() => {
        this.lose(new Error('A statement did not end with its transaction.'));
        this.release();
      }, GIVE_UP_MS);
    };
    if (over.aborted) watch();
    else over.addEventListener('abort', watch, { once: true });
    return () => {
      clearTimeout(timer);
      over.removeEventListener('abort', watch);
    };
  }

  /** Gives it back, or destroys it where its state is unknown. */
  release(): void {
    if (this.isReleased) return;
    this.isReleased = true;
    this.client.off('error', this.lose);
    this.client.release(this.broken);
  }
}

/** A library's client on PostgreSQL, outside of `Database.transaction`: a connection of our pool. */
export class LeasedSession implements ClientSession {
  private broken: Error | undefined;
  private hasSettings = false;

  constructor(
    private readonly client: PoolClient,
    private readonly onLost: (error: Error) => void,
  ) {
    client.on('error', this.lose);
  }

  ask(statement: QueryConfig): Promise<SqlAnswer> {
    this.hasSettings ||= isForSession(statement);
    return this.client.query(statement);
  }

  submit<Reading extends Submittable>(reading: Reading): Reading {
    return this.client.query(reading);
  }

  end(): Promise<void> {
    this.client.off('error', this.lose);
    // One that was left in the middle of a transaction, or in another role, is destroyed: the next to have it would continue there.
    this.client.release(this.broken ?? (this.hasSettings || this.client.getTransactionStatus() !== 'I'));
    return Promise.resolve();
  }

  private readonly lose = (error: Error): void => {
    this.broken = error;
    this.onLost(error);
  };
}

const AGAIN_MS = 1_000;
const LONGEST_LISTEN_MS = 5_000;

type Heard = (payload: string) => void;

/** Hears notifications over one connection of its own, made for the first listener, and made again when it is lost. What is said meanwhile is not heard. */
export class PostgresListener {
  private readonly logger = new Logger('DurableDatabase');
  private readonly channels = new Map<string, Set<Heard>>();
  private connecting: Promise<Client> | undefined;
  private isClosed = false;

  constructor(private readonly url: string) {}

  async listen(channel: string, heard: Heard): Promise<() => Promise<void>> {
    const listeners = this.channels.get(channel) ?? new Set();
    this.channels.set(channel, listeners.add(heard));
    const client = await this.connected();
    await client.query(`listen ${escapeIdentifier(channel)}`);
    return async () => {
      listeners.delete(heard);
      if (listeners.size > 0) return;
      this.channels.delete(channel);
      if (!this.isClosed) await (await this.connected()).query(`unlisten ${escapeIdentifier(channel)}`);
    };
  }

  async close(): Promise<void> {
    this.isClosed = true;
    const client = await this.connecting?.catch(() => undefined);
    if (client) await Promise.race([client.end(), wait(GIVE_UP_MS, undefined, { ref: false })]); // a connection that is gone never says that it has ended
  }

  private connected(): Promise<Client> {
    this.connecting ??= this.connect().catch((error: unknown) => {
      this.connecting = undefined;
      throw error;
    });
    return this.connecting;
  }

  private async connect(): Promise<Client> {
    const client = new Client({
      connectionString: this.url,
      keepAlive: true,
      keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
      query_timeout: LONGEST_LISTEN_MS,
      application_name: 'toolloop listener',
    });
    let isLost = false;
    const lose = (): void => {
      if (isLost) return;
      isLost = true;
      this.connecting = undefined;
      if (!this.isClosed) void this.reconnect();
    };
    client.on('error', lose);
    client.on('notification', ({ channel, payload }) => this.channels.get(channel)?.forEach((heard) => heard(payload ?? '')));
    await client.connect();
    client.on('end', lose);
    for (const channel of this.channels.keys()) await client.query(`listen ${escapeIdentifier(channel)}`);
    return client;
  }

  /** Listeners are told nothing of it, so each of them looks for itself from time to time. */
  private async reconnect(): Promise<void> {
    this.logger.warn('The connection for notifications was lost; reconnecting.');
    while (!this.isClosed) {
      await wait(AGAIN_MS, undefined, { ref: false });
      try {
        if (!this.isClosed) await this.connected();
        return;
      } catch {
        // the server is not back yet
      }
    }
  }
}
