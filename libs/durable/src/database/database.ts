import { AsyncLocalStorage } from 'node:async_hooks';
import { EventEmitter } from 'node:events';
import { callbackify } from 'node:util';
import { asStoreAttempt } from '@toolloop/core/internal';
import { StorageUnavailableError } from '@toolloop/protocol';
import type {
  ClientBase,
  ClientConfig,
  PoolConfig,
  QueryConfig,
  QueryResult,
  Submittable,
} from 'pg';
import {
  type ClientSession,
  type DatabaseDriver,
  type NativeConnection,
  rejectAsStorage,
  settingsIn,
  type SqlAnswer,
  type SqlStatement,
  type SqlValue,
} from './database-driver.js';
import { FOR_SESSION_REFUSED, isForSession } from './session-setting.js';
import { toStorageError } from './storage-error.js';
import { transactionCommand, type TransactionCommand } from './transaction-command.js';
import { TransactionScope } from './transaction-scope.js';

/**
 * The one handle of an application, on PGlite or PostgreSQL. Within `transaction` everything that
 * is asked of it is part of that transaction, however deep in the call: a second way to the
 * database would wait for ever on PGlite, which has one session.
 */
export class Database {
  private readonly scopes = new AsyncLocalStorage<TransactionScope>();
  private closing: Promise<void> | undefined;
  private answeredAt = Number.NEGATIVE_INFINITY;

  /**
   * For whatever takes the options of a `pg` pool: an ORM, a query builder. Inside of `transaction`
   * it is part of that, and what it takes for its own transaction a savepoint; outside it has
   * sessions of its own. The same on PGlite. To end such a pool leaves the handle open.
   */
  readonly connection: PoolConfig;

  constructor(private readonly driver: DatabaseDriver) {
    this.connection = toPoolConfig({ driver, scope: () => this.scopes.getStore() });
  }

  /**
   * The connection under the handle. Libraries take `connection`: on PGlite, a query of this one
   * inside of a transaction waits for ever.
   */
  get native(): NativeConnection {
    return this.driver.connection;
  }

  get engine(): NativeConnection['engine'] {
    return this.driver.connection.engine;
  }

  get isClosed(): boolean {
    return this.closing !== undefined;
  }

  /** The milliseconds since the database last answered; infinite once it is closed. */
  get silentMs(): number {
    return this.isClosed ? Number.POSITIVE_INFINITY : performance.now() - this.answeredAt;
  }

  /** `true` within `transaction`. */
  get isInTransaction(): boolean {
    return this.scopes.getStore() !== undefined;
  }

  /**
   * Runs one statement, and resolves to its rows. `int8` is a number where one can hold it, else a
   * bigint; `json` is parsed.
   */
  async query<Row extends object>(
    statement: SqlStatement,
    values: readonly SqlValue[] = [],
  ): Promise<readonly Row[]> {
    const rows = await (this.scopes.getStore() ?? this.driver)
      .query<Row>(statement, values)
      .catch(rejectAsStorage);
    this.answeredAt = performance.now();
    return rows;
  }

  /**
   * Runs `work` as one unit: all of it is kept, or nothing where it rejects. Inside another
   * transaction it is a savepoint. Await nothing remote in it: on PGlite everybody else waits
   * meanwhile. One that stands still for 15 seconds is rolled back.
   *
   * @param over aborted once nothing of it is wanted any more. A statement that does not end by
   *   then is given up with its connection, on a server; `work` is to reject by itself
   */
  transaction<Result>(work: () => Promise<Result>, over?: AbortSignal): Promise<Result> {
    const runIn = (scope: TransactionScope): Promise<Result> => this.scopes.run(scope, work);
    const outer = this.scopes.getStore();
    if (outer) return outer.nested(runIn);
    return this.driver.transaction(
      (session) => new TransactionScope(session).complete(runIn),
      over,
    );
  }

  /**
   * Runs what is no part of the transaction it is started in, and is not awaited there: timers,
   * background work.
   */
  outside<Result>(work: () => Result): Result {
    return this.scopes.exit(work);
  }

  /**
   * Hears what `pg_notify(channel, …)` says after its commit: from every process on PostgreSQL,
   * from this one on PGlite. Resolves to what ends it.
   */
  listen(channel: string, heard: (payload: string) => void): Promise<() => Promise<void>> {
    return this.outside(() => this.driver.listen(channel, heard));
  }

  /**
   * Tells if a notification on the channel may be heard: on PGlite only by this process, so it has
   * to listen.
   */
  isHeard(channel: string): boolean {
    return this.driver.isHeard?.(channel) ?? true;
  }

  /** Runs statements outside of any transaction, several in one text as well, for the job queue. */
  ask(statement: QueryConfig): Promise<SqlAnswer> {
    return this.outside(() => asStoreAttempt(() => this.driver.ask(statement)));
  }

  /**
   * Told when the process is to end: a server that answers nothing any more then keeps it no longer
   * than some seconds.
   */
  leave(): void {
    this.outside(() => this.driver.leave?.());
  }

  /** Ends what listens, and waits for what is under way. */
  close(): Promise<void> {
    this.closing ??= this.outside(() => this.driver.close());
    return this.closing;
  }
}

/**
 * The options that make a `pg` pool of a library one that shares the handle. No one waits for a
 * place in it: the handle itself has few enough.
 */
export function toPoolConfig(handle: SharedHandle): PoolConfig {
  const Client = class extends SharedClient {
    constructor(config?: ClientConfig) {
      super(handle, config);
    }
  };
  return {
    Client: Client as unknown as new () => ClientBase,
    max: Number.MAX_SAFE_INTEGER,
    maxUses: 1,
  };
}

/** The parts of the handle that clients of libraries use. */
export interface SharedHandle {
  readonly driver: DatabaseDriver;
  /** The transaction that the caller is in. */
  readonly scope: () => TransactionScope | undefined;
}

type Callback<Result> = (error: Error | null, result: Result) => void;

/**
 * The client that a `pg` pool of a library takes for its connection. Where that library asks inside
 * of `Database.transaction` it is part of the transaction, else it has a session of its own. The
 * pool makes one for each use, so the place it is made in is the place it is used in.
 */
export class SharedClient extends EventEmitter {
  private session: ClientSession | undefined;
  private isJoined = false;

  constructor(
    private readonly handle: SharedHandle,
    private readonly config: ClientConfig = {},
  ) {
    super();
  }

  connect(callback?: Callback<SharedClient>): Promise<SharedClient> | undefined {
    return answered(this.open(), callback);
  }

  query(
    what: string | QueryConfig | Submittable,
    second?: unknown[] | Callback<SqlAnswer>,
    third?: Callback<SqlAnswer>,
  ): unknown {
    if (typeof what === 'object' && 'submit' in what) return this.opened().submit(what);
    const callback = typeof second === 'function' ? second : third;
    const values = typeof second === 'function' ? undefined : second;
    const statement = {
      ...this.types(),
      ...(typeof what === 'string' ? { text: what } : what),
      ...(values && { values }),
    };
    return answered(this.ask(statement), callback);
  }

  end(callback?: Callback<void>): Promise<void> | undefined {
    return answered(this.close(), callback);
  }

  private async open(): Promise<SharedClient> {
    const { driver, scope } = this.handle;
    const current = scope();
    this.isJoined = current !== undefined;
    this.session = current
      ? new JoinedSession(current, scope)
      : await driver.lend((error) => this.lose(error));
    return this;
  }

  private async ask(statement: QueryConfig): Promise<SqlAnswer> {
    if (!this.isJoined && this.handle.scope()) throw new Error(BEGAN_OUTSIDE);
    const answer = await this.opened()
      .ask(statement)
      .catch((error: unknown) => settledWhereLost(statement, error));
    return Array.isArray(answer) && answer.length === 0 ? NOTHING : answer;
  }

  private async close(): Promise<void> {
    const { session } = this;
    this.session = undefined;
    await session?.end();
    this.emit('end');
  }

  private opened(): ClientSession {
    if (this.session) return this.session;
    throw new Error('This connection was released, or never opened.');
  }

  /** The library's own way to read values. */
  private types(): Pick<QueryConfig, 'types'> {
    const { types } = this.config;
    return types ? { types } : {};
  }

  /** An error without a listener would end the process; the next query rejects with it. */
  private lose(error: Error): void {
    if (this.listenerCount('error') > 0) this.emit('error', error);
  }
}

const BEGINS_OR_UNDOES =
  /^\s*(?:(?:begin|start\s+transaction)\b|(?:rollback|abort)(?:\s+(?:work|transaction))?[;\s]*$)/i;

/**
 * Answers what begins or undoes a transaction over a lost connection. A library that hears of an
 * error there may never release its client, as Kysely does not. The server has undone the
 * transaction, and the next statement in it fails.
 */
function settledWhereLost({ text }: QueryConfig, error: unknown): SqlAnswer {
  if (BEGINS_OR_UNDOES.test(text) && StorageUnavailableError.in(toStorageError(error)))
    return NOTHING;
  throw error;
}

function answered<Result>(
  work: Promise<Result>,
  callback?: Callback<Result>,
): Promise<Result> | undefined {
  if (!callback) return work;
  callbackify(() => work)(callback);
  return undefined;
}

/** The answer to a command, of which no one reads more than that there is one. */
const NOTHING: QueryResult = { command: '', rowCount: null, oid: 0, fields: [], rows: [] };
const BEGAN_OUTSIDE =
  'A library began this transaction outside of database.transaction, so it cannot take part in it. Begin it inside, or use a fork of the entity manager there.';

/** The label of the savepoint that a library's own transaction is. */
const OWN = '';

/**
 * A library's client inside of `Database.transaction`: all it does is part of that, and what it
 * takes for its own transaction is a savepoint.
 */
export class JoinedSession implements ClientSession {
  /** The settings before its own transaction changed them. */
  private readonly earlier = new Map<string, string>();

  /**
   * `current` tells which transaction the caller is in: it may be a savepoint within `home`, where
   * the client was made.
   */
  constructor(
    private readonly home: TransactionScope,
    private readonly current: () => TransactionScope | undefined,
  ) {}

  async ask(statement: QueryConfig): Promise<SqlAnswer> {
    if (isForSession(statement)) throw new Error(FOR_SESSION_REFUSED);
    const scope = this.scopeOfCaller();
    const command = transactionCommand(statement.text);
    if (!command) {
      const settings = settingsIn(statement);
      if (settings.length > 0) await this.remember(settings, scope);
      return scope.ask(statement, this);
    }
    await this.follow(command, scope);
    return [];
  }

  submit(): never {
    throw new Error(
      'A cursor or stream has to be read outside of database.transaction: inside, read in pages.',
    );
  }

  end(): Promise<void> {
    return this.home.dropSavepoint(this, OWN);
  }

  private async follow(command: TransactionCommand, scope: TransactionScope): Promise<void> {
    // `home` would wait for the end of what waits for this
    if (!('name' in command) && scope !== this.home) throw new Error(NOT_WITHIN);
    switch (command.kind) {
      case 'begin':
        if (command.modes !== '')
          throw new Error(
            `"${command.modes}" is too late inside of database.transaction, which has already begun.`,
          );
        return this.home.setSavepoint(this, OWN);
      case 'commit':
        await this.restore();
        return this.home.endSavepoint(this, OWN);
      case 'rollback':
        this.earlier.clear(); // a savepoint that is undone undoes them, too
        return this.home.dropSavepoint(this, OWN);
      case 'savepoint':
        return scope.setSavepoint(this, command.name);
      case 'release':
        return scope.endSavepoint(this, command.name);
      case 'rollback-to':
        return scope.undoSavepoint(this, command.name);
    }
  }

  private async remember(settings: readonly string[], scope: TransactionScope): Promise<void> {
    for (const name of settings.filter((one) => !this.earlier.has(one))) {
      this.home.keepSettings(this);
      const text = `select coalesce(current_setting($1, true), '') as value`;
      this.earlier.set(name, valueOf(await scope.ask({ text, values: [name] }, this)));
    }
  }

  private async restore(): Promise<void> {
    for (const [name, value] of this.earlier)
      await this.home.ask({ text: 'select set_config($1, $2, true)', values: [name, value] }, this);
    this.earlier.clear();
  }

  /**
   * A savepoint that the caller is in has its turn; without it, what the client asks would wait for
   * that to end.
   */
  private scopeOfCaller(): TransactionScope {
    const current = this.current();
    if (!current || this.home.isWithin(current)) return this.home;
    if (current.isWithin(this.home)) return current;
    throw new Error(
      'This library transaction began inside of another transaction. Begin it inside of the one in which you use it.',
    );
  }
}

const NOT_WITHIN =
  "A library's transaction begins and ends in the same database.transaction as its connection was made in, not in one nested in that.";

/** The text in the column `value` of an answer's row. */
export function valueOf(answer: SqlAnswer): string {
  const { rows } = answer as { readonly rows: readonly { readonly value: string }[] };
  return rows[0]?.value ?? '';
}
