import { chmod, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import type {
  PGlite,
  PGliteInterface,
  QueryOptions,
  Results,
  Transaction,
} from '@electric-sql/pglite';
import { Logger } from '@toolloop/core/internal';
import { type CustomTypesConfig, types as defaults, type QueryConfig, type QueryResult } from 'pg';
import {
  type ClientSession,
  type DatabaseDriver,
  type NamedStatement,
  type NativeConnection,
  SESSION_SETTINGS,
  type SqlAnswer,
  type SqlSession,
  type SqlStatement,
  type SqlValue,
} from './database-driver.js';
import { FOR_SESSION_REFUSED, isForSession } from './session-setting.js';
import { isOfSession } from './storage-error.js';
import { FolderLock } from './folder-lock.js';
import { transactionCommand, type TransactionCommand } from './transaction-command.js';
import { TransactionScope } from './transaction-scope.js';

/**
 * PostgreSQL within the process, in a folder or in memory. It has one session, so transactions come
 * one after the other.
 */
export class PgliteDriver implements DatabaseDriver {
  readonly connection: NativeConnection;
  private readonly logger = new Logger('DurableDatabase');
  private readonly upkeep: NodeJS.Timeout;
  private readonly statements: PgliteStatements;
  private readonly listeners = new Set<{ readonly channel: string }>();
  /**
   * Set until all tables were vacuumed once: how many rows are dead is forgotten when a process is
   * killed.
   */
  private isUntidied = true;

  private constructor(
    private readonly pglite: PGlite,
    module: PgliteModule,
    private readonly lock?: FolderLock,
  ) {
    yieldAfterStatements(pglite);
    this.connection = { engine: 'pglite', pglite };
    this.statements = new PgliteStatements(pglite, module);
    this.upkeep = setInterval(() => void this.tidy(), UPKEEP_MS).unref();
  }

  /**
   * The folder holds the lock, and the database in a folder that only its owner may read: PGlite's
   * own files are for everybody.
   */
  static async inFolder(dataDir: string): Promise<PgliteDriver> {
    const lock = await FolderLock.take(dataDir);
    try {
      const folder = join(dataDir, 'database');
      await mkdir(folder, { recursive: true, mode: 0o700 });
      await chmod(folder, 0o700);
      const module = await import('@electric-sql/pglite');
      return new PgliteDriver(
        await withSettings(module.PGlite.create(folder, { postgresqlconf: SETTINGS })),
        module,
        lock,
      );
    } catch (error) {
      await lock.release();
      throw error;
    }
  }

  static async inMemory(template?: Blob): Promise<PgliteDriver> {
    const module = await import('@electric-sql/pglite');
    const creating = module.PGlite.create({
      postgresqlconf: SETTINGS,
      ...(template && { loadDataDir: template }),
    });
    return new PgliteDriver(await withSettings(creating), module);
  }

  async query<Row extends object>(
    statement: SqlStatement,
    values: readonly SqlValue[],
  ): Promise<readonly Row[]> {
    if (typeof statement !== 'string') return this.statements.run<Row>(statement, values);
    const { rows } = await this.pglite.query<Row>(statement, [...values]);
    return rows;
  }

  ask(statement: QueryConfig): Promise<SqlAnswer> {
    return askPglite(this.pglite, this.pglite, statement);
  }

  lend(): Promise<ClientSession> {
    return Promise.resolve(new LoneSession(this));
  }

  transaction<Result>(work: (session: SqlSession) => Promise<Result>): Promise<Result> {
    return this.pglite.transaction((transaction) =>
      work({
        query: async <Row extends object>(statement: SqlStatement, values: readonly SqlValue[]) => {
          if (typeof statement !== 'string')
            return this.statements.runWithin<Row>(statement, values);
          const { rows } = await transaction.query<Row>(statement, [...values]);
          return rows;
        },
        ask: (statement) => askPglite(this.pglite, transaction, statement),
      }),
    );
  }

  async listen(channel: string, heard: (payload: string) => void): Promise<() => Promise<void>> {
    const listener = { channel };
    this.listeners.add(listener);
    const stop = await this.pglite.listen(channel, heard);
    return async () => {
      this.listeners.delete(listener);
      if (!this.pglite.closed) await stop();
    };
  }

  isHeard(channel: string): boolean {
    return [...this.listeners].some((listener) => listener.channel === channel);
  }

  async close(): Promise<void> {
    clearInterval(this.upkeep);
    try {
      await this.pglite.exec('checkpoint');
      await this.pglite.close();
    } finally {
      await this.lock?.release();
    }
  }

  /**
   * One statement each: several in one are a transaction, in which there is no vacuum, and others
   * have their turn between two.
   */
  private async tidy(): Promise<void> {
    try {
      const { rows } = await this.pglite.query<{ readonly name: string }>(TO_VACUUM, [
        this.isUntidied,
      ]);
      for (const { name } of rows) await this.pglite.exec(`vacuum ${name}`);
      this.isUntidied = false;
      await this.pglite.exec('checkpoint');
    } catch (error) {
      if (!this.pglite.closed)
        this.logger.warn(`The database could not be vacuumed: ${String(error)}`);
    }
  }
}

/**
 * PGlite neither vacuums nor checkpoints by itself: its log would grow with every write, and the
 * next start with the log.
 */
const UPKEEP_MS = 60_000;
/**
 * The tables that have room to give back, and those whose transaction ids must be frozen some time;
 * all of them where `$1` is true. A vacuum of all in one statement holds the event loop for 20 to
 * 66 ms, one of a table for 3 to 5.
 */
const TO_VACUUM = `
  select oid::regclass::text as name from pg_class
  where relkind in ('r', 'm') and ($1 or pg_stat_get_dead_tuples(oid) > 0 or age(relfrozenxid) > 150000000)`;
/** An eighth of the default; 300 MB of memory become 190. */
const SETTINGS = ['shared_buffers = 16MB'];

async function withSettings(creating: Promise<PGlite>): Promise<PGlite> {
  const pglite = await creating;
  await pglite.exec(SESSION_SETTINGS);
  return pglite;
}

/**
 * Lets the event loop take a turn after each statement, while the statement still has the session:
 * PGlite itself only awaits promises, so that with many statements in line no timer, socket or
 * signal got its turn before the last one. Here and not in the driver, since the job queue and
 * other libraries ask PGlite themselves.
 */
function yieldAfterStatements(pglite: PGlite): void {
  // oxlint-disable-next-line no-underscore-dangle -- everything that is asked of PGlite passes it, and the lock has no other name
  const runExclusive = pglite._runExclusiveQuery.bind(pglite);
  // oxlint-disable-next-line no-underscore-dangle -- the same
  pglite._runExclusiveQuery = (work) =>
    runExclusive(async () => {
      try {
        return await work();
      } finally {
        await setImmediate();
      }
    });
}

/**
 * A library's client on PGlite, outside of `Database.transaction`. Its transaction takes its turn
 * among all others.
 */
export class LoneSession implements ClientSession {
  private open: OpenTransaction | undefined;

  constructor(private readonly driver: DatabaseDriver) {}

  async ask(statement: QueryConfig): Promise<SqlAnswer> {
    if (isForSession(statement)) throw new Error(FOR_SESSION_REFUSED);
    const command = transactionCommand(statement.text);
    if (command?.kind === 'begin') await this.begin(command.modes);
    else if (command) await this.follow(command);
    else
      return this.open
        ? this.open.during((scope) => scope.ask(statement, this))
        : this.driver.ask(statement);
    return [];
  }

  submit(): never {
    throw new Error('PGlite has no connection for a cursor or stream. Read in pages.');
  }

  async end(): Promise<void> {
    await this.open?.rollback();
  }

  private async begin(modes: string): Promise<void> {
    if (this.open) throw new Error('A transaction is already open. Use a savepoint.');
    this.open = await OpenTransaction.begin(this.driver);
    if (modes !== '')
      await this.open.during((scope) => scope.ask({ text: `set transaction ${modes}` }, this));
  }

  private async follow(command: Exclude<TransactionCommand, { kind: 'begin' }>): Promise<void> {
    const { open } = this;
    if (!open && command.kind === 'rollback') return; // after a commit that failed
    if (!open) throw new Error(`There is no transaction to ${command.kind}.`);
    switch (command.kind) {
      case 'savepoint':
        return open.during((scope) => scope.setSavepoint(this, command.name));
      case 'release':
        return open.during((scope) => scope.endSavepoint(this, command.name));
      case 'rollback-to':
        return open.during((scope) => scope.undoSavepoint(this, command.name));
      case 'commit':
      case 'rollback':
        this.open = undefined;
        return open[command.kind]();
    }
  }
}

type End = { readonly how: 'commit' } | { readonly how: 'rollback'; readonly reason: Error };

/** A transaction that is ended from without. */
class OpenTransaction {
  /** Why it is over, where its own library has not ended it. */
  private loss: { readonly cause: unknown } | undefined;

  private constructor(
    private readonly scope: TransactionScope,
    private readonly end: (end: End) => Promise<void>,
  ) {}

  static begin(driver: DatabaseDriver): Promise<OpenTransaction> {
    return new Promise((resolve, reject) => {
      let open: OpenTransaction | undefined;
      const done: Promise<void> = driver.transaction((session) =>
        new TransactionScope(session).complete(
          (scope) =>
            new Promise<void>((commit, rollBack) => {
              open = new OpenTransaction(scope, (end) => {
                if (end.how === 'commit') commit();
                else rollBack(end.reason);
                return done;
              });
              resolve(open);
            }),
        ),
      );
      done.catch((cause: unknown) => {
        if (open) open.loss = { cause };
        reject(cause);
      });
    });
  }

  async during<Result>(work: (scope: TransactionScope) => Promise<Result>): Promise<Result> {
    if (this.loss) throw this.loss.cause;
    return work(this.scope);
  }

  commit(): Promise<void> {
    return this.end({ how: 'commit' });
  }

  async rollback(): Promise<void> {
    await this.end({ how: 'rollback', reason: new Error('Rolled back.') }).catch(() => undefined);
  }
}

/**
 * The parts of PGlite's module that are used here. It is loaded only where a database is embedded.
 */
export type PgliteModule = Pick<typeof import('@electric-sql/pglite'), 'protocol' | 'parse'>;

/**
 * Named statements of PGlite's one session. `query` of PGlite parses and plans anew each time and
 * asks in six messages; this is the same protocol in one, for a third of the time.
 */
export class PgliteStatements {
  /** The types of the parameters, by the name of the statement. */
  private readonly parsed = new Map<string, readonly number[]>();

  constructor(
    private readonly pglite: PGlite,
    private readonly module: PgliteModule,
  ) {}

  /** Waits for transactions, as `query` does: within one it would be part of another caller's. */
  async run<Row extends object>(
    statement: NamedStatement,
    values: readonly SqlValue[],
  ): Promise<readonly Row[]> {
    if (this.pglite.closed) throw new Error('The database is closed.');
    const work = (): Promise<readonly Row[]> => this.runWithin<Row>(statement, values);
    // The lock that its transactions take has no other name; runExclusive's is free within them.
    // oxlint-disable-next-line no-underscore-dangle -- see above
    const once = (): Promise<readonly Row[]> => this.pglite._runExclusiveTransaction(work);
    return once().catch((error: unknown) => {
      if (isOfSession(error)) return once();
      throw error;
    });
  }

  /** For who holds the transaction. */
  async runWithin<Row extends object>(
    statement: NamedStatement,
    values: readonly SqlValue[],
  ): Promise<readonly Row[]> {
    try {
      return await this.asked<Row>(statement, values);
    } catch (error) {
      if (isOfSession(error)) this.parsed.clear(); // one session knows them all
      throw error;
    }
  }

  private asked<Row extends object>(
    statement: NamedStatement,
    values: readonly SqlValue[],
  ): Promise<readonly Row[]> {
    return this.pglite.runExclusive(async () => {
      const types = this.parsed.get(statement.name) ?? (await this.parse(statement));
      const { bind, describe, execute, sync } = this.module.protocol.serialize;
      const texts = values.map((value, index) => this.textOf(value, types[index]));
      const messages = [
        bind({ statement: statement.name, values: texts }),
        describe({ type: 'P' }),
        execute(),
        sync(),
      ];
      return fromResults<Row>(
        this.module.parse.parseResults(await this.send(messages), this.pglite.parsers),
      );
    });
  }

  private async parse({ name, text }: NamedStatement): Promise<readonly number[]> {
    const { close, parse, describe, sync } = this.module.protocol.serialize;
    // an outdated one has the name yet
    const messages = [
      close({ type: 'S', name }),
      parse({ name, text }),
      describe({ type: 'S', name }),
      sync(),
    ];
    const types = this.module.parse.parseDescribeStatementResults(await this.send(messages));
    this.parsed.set(name, types);
    return types;
  }

  private send(messages: readonly Uint8Array[]): ReturnType<PGlite['execProtocolStream']> {
    return this.pglite.execProtocolStream(Buffer.concat(messages));
  }

  private textOf(value: SqlValue, type = 0): string | null {
    if (value === null) return null;
    const serialize = this.pglite.serializers[type];
    return serialize ? serialize(value) : String(value);
  }
}

type Parsers = NonNullable<QueryOptions['parsers']>;

const parsersOf = new WeakMap<object, Parsers>();

/**
 * Asks PGlite as a library asks pg: several statements at once where there are no values, and
 * values as that library reads them.
 */
export async function askPglite(
  pglite: PGlite,
  to: Pick<PGliteInterface | Transaction, 'exec' | 'query'>,
  statement: QueryConfig,
): Promise<SqlAnswer> {
  const { text, values = [], types = defaults } = statement;
  const options: QueryOptions = {
    parsers: parsersFor(pglite, types),
    ...('rowMode' in statement && { rowMode: 'array' }),
  };
  if (values.length > 0) return toResult(await to.query(text, values, options));
  const results = (await to.exec(text, options)).map(toResult);
  const [result] = results;
  return result && results.length === 1 ? result : results;
}

function parsersFor({ parsers }: PGlite, types: CustomTypesConfig): Parsers {
  const made = parsersOf.get(types);
  if (made) return made;
  const own = Object.fromEntries(
    Object.keys(parsers).map((id) => [id, types.getTypeParser(Number(id), 'text')]),
  );
  parsersOf.set(types, own);
  return own;
}

function toResult({ command = '', rowCount, rows, fields }: Results): QueryResult {
  return {
    command,
    rowCount: rowCount ?? null,
    oid: 0,
    rows,
    fields: fields as QueryResult['fields'],
  };
}

/** The rows of one statement. */
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- only the caller knows the columns of a row
export function fromResults<Row extends object>([result]: readonly Results[]): readonly Row[] {
  return (result?.rows ?? []) as unknown as readonly Row[];
}
