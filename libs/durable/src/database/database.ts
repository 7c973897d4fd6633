import { AsyncLocalStorage } from 'node:async_hooks';
import type { PoolConfig } from 'pg';
import type { DatabaseDriver, NativeConnection, SqlStatement, SqlValue } from './database-driver.js';
import { toPoolConfig } from './from-shared-client.js';
import { TransactionScope } from './transaction.scope.js';

/**
 * The one handle of an application, on PGlite or PostgreSQL. Within `transaction` everything that is asked of it is part of that transaction, however deep
 * in the call: a second way to the database would wait for ever on PGlite, which has one session.
 */
export class Database {
  private readonly scopes = new AsyncLocalStorage<TransactionScope>();
  private closing: Promise<void> | undefined;

  /**
   * For whatever takes the options of a `pg` pool: an ORM, a query builder. Inside of `transaction` it is part of that, and what it takes for its own
   * transaction a savepoint; outside it has sessions of its own. The same on PGlite. To end such a pool leaves the handle open.
   */
  readonly connection: PoolConfig;

  constructor(private readonly driver: DatabaseDriver) {
    this.connection = toPoolConfig({ driver, scope: () => this.scopes.getStore() });
  }

  /** What the handle is made of. Libraries take `connection`: on PGlite, whoever asks this one inside of a transaction waits for ever. */
  get native(): NativeConnection {
    return this.driver.connection;
  }

  get engine(): NativeConnection['engine'] {
    return this.driver.connection.engine;
  }

  get isClosed(): boolean {
    return this.closing !== undefined;
  }

  /** Whether the caller is within `transaction`. */
  get isInTransaction(): boolean {
    return this.scopes.getStore() !== undefined;
  }

  /** Runs one statement, and resolves to its rows. `int8` is a number where one can hold it, else a bigint; `json` is parsed. */
  query<Row extends object>(statement: SqlStatement, values: readonly SqlValue[] = []): Promise<readonly Row[]> {
    return (this.scopes.getStore() ?? this.driver).query<Row>(statement, values);
  }

  /**
   * Runs `work` as one unit: all of it is kept, or nothing where it rejects. Inside another transaction it is a savepoint. Await nothing remote in
   * it: on PGlite everybody else waits meanwhile.
   */
  transaction<Result>(work: () => Promise<Result>): Promise<Result> {
    const runIn = (scope: TransactionScope): Promise<Result> => this.scopes.run(scope, work);
    const outer = this.scopes.getStore();
    if (outer) return outer.nested(runIn);
    return this.driver.transaction((session) => new TransactionScope(session).complete(runIn));
  }

  /** Runs what is no part of the transaction it is started in, and is not awaited there: timers, background work. */
  outside<Result>(work: () => Result): Result {
    return this.scopes.exit(work);
  }

  /** Hears what `pg_notify(channel, …)` says after its commit: from every process on PostgreSQL, from this one on PGlite. Resolves to what ends it. */
  listen(channel: string, heard: (payload: string) => void): Promise<() => Promise<void>> {
    return this.outside(() => this.driver.listen(channel, heard));
  }

  /** Ends what listens, and waits for what is under way. */
  close(): Promise<void> {
    this.closing ??= this.outside(() => this.driver.close());
    return this.closing;
  }
}
