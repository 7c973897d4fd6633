import { setTimeout as wait } from 'node:timers/promises';
import { isStoreAttempt, Logger } from '@toolloop/core/internal';
import {
  Client,
  type ClientConfig,
  type CustomTypesConfig,
  Pool,
  type PoolClient,
  type QueryConfig,
  type QueryResult,
  type Submittable,
  types,
} from 'pg';
import {
  type ClientSession,
  type DatabaseDriver,
  isUnanswered,
  LONGEST_ANSWER_MS,
  type NativeConnection,
  rejectAsOurs,
  SESSION_SETTINGS,
  rejectAsStorage,
  repeatedWhereLost,
  type SqlAnswer,
  type SqlSession,
  type SqlStatement,
  type SqlValue,
} from './database-driver.js';
import { isForSession } from './session-setting.js';
import { isOfSession } from './storage-error.js';
import { unreachable } from './database-url.js';
import { PostgresConnection } from './postgres-connection.js';
import { GIVE_UP_MS, KEEP_ALIVE_MS, PostgresListener } from './postgres-listener.js';
import { LONGEST_IDLE_MS } from './transaction-scope.js';

/** A PostgreSQL server, for as many processes as like to share it. */
export class PostgresDriver implements DatabaseDriver {
  readonly connection: NativeConnection;
  private readonly listener: PostgresListener;
  private readonly departure: Departure;

  private constructor(
    private readonly pool: Pool,
    opened: ReadonlySet<PostgresConnection>,
    url: string,
  ) {
    this.connection = { engine: 'postgres', pool };
    this.listener = new PostgresListener(url);
    this.departure = new Departure(pool, opened, url);
  }

  /** @throws {ConfigurationError} Where no server lets us in. */
  static async connect(url: string, connections = MOST_CONNECTIONS): Promise<PostgresDriver> {
    const opened = new Set<PostgresConnection>();
    const pool = new Pool({
      connectionString: url,
      Client: class extends PostgresConnection {
        constructor(config?: ClientConfig) {
          super(config);
          opened.add(this);
          this.once('end', () => opened.delete(this));
        }
      },
      max: connections,
      connectionTimeoutMillis: LONGEST_CONNECT_MS,
      // for a process that freezes: its runs cannot be taken over meanwhile
      idle_in_transaction_session_timeout: LONGEST_IDLE_MS,
      keepAlive: true,
      keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
      application_name: 'toolloop',
      verify: prepareSession,
    });
    // it holds the password, and objects get logged
    Object.defineProperty(pool.options, 'connectionString', { enumerable: false });
    const logger = new Logger('DurableDatabase');
    // an idle one; unheard, it would end the process
    pool.on('error', (error) =>
      logger.warn(`A connection to the database was lost: ${error.message}`),
    );
    // between its owners nothing hears a client; its next statement fails anyway
    pool.on('connect', (client) => client.on('error', () => undefined));
    try {
      await repeatedWhereLost(async () => {
        await pool.query({ text: 'select 1', ...ANSWER_LIMIT }).catch(rejectAsOurs);
      });
    } catch (error) {
      await pool.end();
      throw unreachable(url, error);
    }
    return new PostgresDriver(pool, opened, url);
  }

  async query<Row extends object>(
    statement: SqlStatement,
    values: readonly SqlValue[],
  ): Promise<readonly Row[]> {
    return this.once((lent) => lent.send<Row>(statement, values));
  }

  ask(statement: QueryConfig): Promise<SqlAnswer> {
    return this.once((lent) => lent.ask(statement));
  }

  async lend(onLost: (error: Error) => void): Promise<ClientSession> {
    return new LeasedSession(await this.pool.connect(), onLost);
  }

  async transaction<Result>(
    work: (session: SqlSession) => Promise<Result>,
    over?: AbortSignal,
  ): Promise<Result> {
    const lent = await this.departure.lend();
    const unwatch = over && lent.giveUpAfter(over);
    const command = (text: string): Promise<unknown> =>
      lent.send(text, []).catch(rejectAsOurs).catch(this.noted(lent));
    try {
      await command('begin');
      const result = await work({
        query: (statement, values) => lent.send<never>(statement, values).catch(this.noted(lent)),
        ask: (statement) => lent.ask(statement),
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

  leave(): void {
    this.departure.begin();
  }

  /**
   * Runs a statement; once more over another connection where the session was outdated, which did
   * nothing of it.
   */
  private async once<Answer>(
    work: (lent: LentClient) => Promise<Answer>,
    isRepeated = false,
  ): Promise<Answer> {
    const lent = await this.departure.lend();
    try {
      return await work(lent);
    } catch (error) {
      lent.lose(error); // as a pool does with one over which a statement failed
      if (isRepeated || !isOfSession(error)) throw error;
    } finally {
      lent.release();
    }
    this.departure.outdate();
    return this.once(work, true);
  }

  /**
   * Notes an error within a transaction. A session that is outdated is given up, and the others
   * with it; the transaction is repeated by its owner.
   */
  private noted(lent: LentClient): (error: unknown) => never {
    return (error) => {
      if (isOfSession(error)) {
        lent.lose(error);
        this.departure.outdate();
      }
      return lent.noted(error);
    };
  }

  async close(): Promise<void> {
    await this.listener.close();
    await this.departure.end();
  }
}

/** The connections of one process, beside the one that listens. */
const MOST_CONNECTIONS = 10;
const LONGEST_CONNECT_MS = 10_000;

const INT8 = 20;

/** A number where it holds the value, else a bigint: what PGlite makes of it. */
function readInt8(text: string): number | bigint {
  const number = Number(text);
  return Number.isSafeInteger(number) ? number : BigInt(text);
}

/**
 * Numbers as PGlite reads them; said per statement, so that others who share the pool keep pg's
 * ways.
 */
const TYPES: CustomTypesConfig = {
  getTypeParser: (id: number, format?: 'text' | 'binary'): unknown => {
    if (id === INT8 && format !== 'binary') return readInt8;
    const parser: unknown = types.getTypeParser(id, format);
    return parser;
  },
};

const PREPARATION = { text: SESSION_SETTINGS, query_timeout: LONGEST_CONNECT_MS };

/** Gives a new session its settings, before a statement of ours. */
function prepareSession(client: PoolClient, done: (error?: Error) => void): void {
  client.query(PREPARATION, (error) => {
    if (!error && client instanceof PostgresConnection) client.isReady = true;
    done(error);
  });
}

/**
 * The option of pg by which it gives a statement up. What an application asks itself may take as
 * long as it likes.
 */
const ANSWER_LIMIT = { query_timeout: LONGEST_ANSWER_MS };

/** A connection of the pool, for one statement or a transaction. */
class LentClient {
  private broken: Error | undefined;
  private isReleased = false;
  /** The time since which an attempt at a call of a store waits for an answer over it. */
  private askedAt = Number.POSITIVE_INFINITY;

  constructor(
    readonly client: PoolClient,
    private readonly watch: { readonly answered: () => void; readonly released: () => void },
  ) {
    client.on('error', this.lose); // the pool does not hear those of a client that is in use
  }

  async send<Row extends object>(
    statement: SqlStatement,
    values: readonly SqlValue[],
  ): Promise<readonly Row[]> {
    const asked = typeof statement === 'string' ? { text: statement } : statement;
    const { rows } = await this.ask<Row>({ ...asked, values: [...values], types: TYPES }).catch(
      rejectAsStorage,
    );
    return rows;
  }

  async ask<Row extends object>(statement: QueryConfig): Promise<QueryResult<Row>> {
    const isAttempt = isStoreAttempt();
    if (isAttempt) this.askedAt = performance.now();
    try {
      return await this.client.query<Row>({ ...statement, ...(isAttempt && ANSWER_LIMIT) });
    } finally {
      this.askedAt = Number.POSITIVE_INFINITY;
      this.watch.answered();
    }
  }

  isAskedSince(time: number): boolean {
    return this.askedAt <= time;
  }

  readonly lose = (error: unknown): void => {
    this.broken ??= error instanceof Error ? error : new Error(String(error));
  };

  get isBroken(): boolean {
    return this.broken !== undefined;
  }

  /**
   * Nothing more is asked over a connection on which a statement had no answer: it would wait
   * behind that one.
   */
  readonly noted = (error: unknown): never => {
    if (isUnanswered(error)) this.lose(error);
    throw error;
  };

  /**
   * Destroys the connection where its transaction has not ended a moment after the signal: its
   * statement hangs, and fails by that. Returns what ends the watch.
   */
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
    this.watch.released();
    this.client.off('error', this.lose);
    this.client.release(this.broken);
  }

  /** Destroys it with the statement that is under way, which fails by that. */
  giveUp(): void {
    this.lose(new Error('A statement had no answer while the process was to end.'));
    this.release();
  }
}

/**
 * The milliseconds for which a process that is to end waits for the answer to a statement, and then
 * for an answer of the server at all.
 */
const LONGEST_LAST_ANSWER_MS = 1_200;
const LOOK_MS = 200;
const GONE = 'The database did not answer any more when the process was to end.';

/**
 * The end of a process. A statement of a store that has no answer for a moment is given up with its
 * connection, and is repeated over another while the server can be reached: so nothing is lost that
 * can still be written. A server that cannot be reached is given up with all that is asked of it:
 * what waits 15 s for its answer, one after the other, kept the process for a minute.
 */
class Departure {
  private readonly lent = new Set<LentClient>();
  private freshSince = 0;
  private timer: NodeJS.Timeout | undefined;
  private isLooking = false;
  /** The time since which nothing was answered. */
  private quietSince = 0;
  /**
   * Those who wait for a connection, or for the end of all, and do not once the server is given up.
   */
  private readonly waiting = new Set<() => void>();
  private isGone = false;

  constructor(
    private readonly pool: Pool,
    private readonly opened: ReadonlySet<PostgresConnection>,
    private readonly url: string,
  ) {}

  async lend(): Promise<LentClient> {
    const lent = new LentClient(await this.fresh().catch(rejectAsOurs), {
      answered: () => (this.quietSince = performance.now()),
      released: () => this.lent.delete(lent),
    });
    this.lent.add(lent);
    return lent;
  }

  /**
   * Gives up all sessions that there are by now, once they are not in use: what has outdated one of
   * them has outdated all.
   */
  outdate(): void {
    this.freshSince = performance.now();
  }

  private async fresh(): Promise<PoolClient> {
    for (;;) {
      const client = await this.connected();
      if (client instanceof PostgresConnection && client.begunAt >= this.freshSince) return client;
      client.release(true);
    }
  }

  /** A connection that the pool still opens is not waited for once the server is given up. */
  private connected(): Promise<PoolClient> {
    return new Promise((resolve, reject) => {
      const giveUp = (): void => reject(new Error(GONE));
      if (this.isGone) return giveUp();
      this.waiting.add(giveUp);
      const take = (client: PoolClient): void =>
        this.isGone ? client.release(true) : resolve(client);
      return void this.pool
        .connect()
        .then(take, reject)
        .finally(() => this.waiting.delete(giveUp));
    });
  }

  begin(): void {
    if (this.timer) return;
    this.quietSince = performance.now();
    this.timer = setInterval(() => void this.look(), LOOK_MS).unref();
  }

  /** Closes the pool once what is under way has ended, or cannot end any more. */
  async end(): Promise<void> {
    this.begin();
    await new Promise<void>((resolve, reject) => {
      if (this.isGone) resolve();
      else this.waiting.add(resolve);
      this.pool.end().then(resolve, reject);
    });
    clearInterval(this.timer);
  }

  private async look(): Promise<void> {
    if (this.isLooking || this.isGone) return;
    const late = performance.now() - LONGEST_LAST_ANSWER_MS;
    const isAsked = this.pool.waitingCount > 0 || this.pool.totalCount > this.pool.idleCount;
    if (!isAsked) this.quietSince = performance.now();
    if (this.quietSince > late) return;
    this.isLooking = true;
    const isReached = await this.isReached();
    this.isLooking = false;
    this.quietSince = performance.now();
    if (!isReached) this.giveUp();
    this.giveUpLate(late);
  }

  /** Gives up what was asked, or is being opened, since before a time. */
  private giveUpLate(time: number): void {
    for (const lent of [...this.lent].filter((one) => one.isAskedSince(time))) lent.giveUp();
    for (const one of this.opened) if (!one.isReady && one.begunAt <= time) one.cut();
  }

  /** Asks over a connection of its own, once more where the server may just be starting again. */
  private async isReached(): Promise<boolean> {
    const until = performance.now() + LONGEST_LAST_ANSWER_MS;
    do {
      const terms = {
        connectionTimeoutMillis: LONGEST_LAST_ANSWER_MS,
        query_timeout: LONGEST_LAST_ANSWER_MS,
      };
      const client = new Client({
        connectionString: this.url,
        application_name: 'toolloop',
        ...terms,
      });
      client.on('error', () => undefined);
      try {
        await client.connect();
        await client.query('select 1');
        return true;
      } catch {
        await wait(LOOK_MS, undefined, { ref: false });
      } finally {
        void client.end().catch(() => undefined);
      }
    } while (performance.now() < until);
    return false;
  }

  private giveUp(): void {
    this.isGone = true;
    for (const giveUp of this.waiting) giveUp();
    for (const lent of this.lent) lent.giveUp();
    for (const one of this.opened) one.cut();
  }
}

/**
 * A library's client on PostgreSQL, outside of `Database.transaction`: a connection of our pool.
 */
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
    return this.client.query(statement).catch((error: unknown) => {
      if (isOfSession(error))
        this.broken ??= error instanceof Error ? error : new Error(String(error));
      throw error;
    });
  }

  submit<Reading extends Submittable>(reading: Reading): Reading {
    return this.client.query(reading);
  }

  end(): Promise<void> {
    this.client.off('error', this.lose);
    // One that was left in the middle of a transaction, or in another role, is destroyed: the next
    // to have it would continue there.
    this.client.release(
      this.broken ?? (this.hasSettings || this.client.getTransactionStatus() !== 'I'),
    );
    return Promise.resolve();
  }

  private readonly lose = (error: Error): void => {
    this.broken = error;
    this.onLost(error);
  };
}
