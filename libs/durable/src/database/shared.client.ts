import { EventEmitter } from 'node:events';
import { callbackify } from 'node:util';
import type { ClientConfig, QueryConfig, QueryResult, Submittable } from 'pg';
import type { ClientSession, DatabaseDriver, SqlAnswer } from './database-driver.js';
import { JoinedSession } from './joined.session.js';
import type { TransactionScope } from './transaction.scope.js';

/** What the clients of libraries are made of. */
export interface SharedHandle {
  readonly driver: DatabaseDriver;
  /** The transaction that the caller is in. */
  readonly scope: () => TransactionScope | undefined;
}

type Callback<Result> = (error: Error | null, result: Result) => void;

/**
 * What a `pg` pool of a library takes for its connection. Where that library asks inside of `Database.transaction` it is part of the transaction, else it has
 * a session of its own. The pool makes one for each use, so the place it is made in is the place it is used in.
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

  query(what: string | QueryConfig | Submittable, second?: unknown[] | Callback<SqlAnswer>, third?: Callback<SqlAnswer>): unknown {
    if (typeof what === 'object' && 'submit' in what) return this.opened().submit(what);
    const callback = typeof second === 'function' ? second : third;
    const values = typeof second === 'function' ? undefined : second;
    const statement = { ...this.types(), ...(typeof what === 'string' ? { text: what } : what), ...(values && { values }) };
    return answered(this.ask(statement), callback);
  }

  end(callback?: Callback<void>): Promise<void> | undefined {
    return answered(this.close(), callback);
  }

  private async open(): Promise<SharedClient> {
    const { driver, scope } = this.handle;
    const current = scope();
    this.isJoined = current !== undefined;
    this.session = current ? new JoinedSession(current, scope) : await driver.lend((error) => this.lose(error));
    return this;
  }

  private async ask(statement: QueryConfig): Promise<SqlAnswer> {
    if (!this.isJoined && this.handle.scope()) throw new Error(BEGAN_OUTSIDE);
    const answer = await this.opened().ask(statement);
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

  /** How the library wants values to be read. */
  private types(): Pick<QueryConfig, 'types'> {
    const { types } = this.config;
    return types ? { types } : {};
  }

  /** An error that nobody hears would end the process; whoever asks next is told. */
  private lose(error: Error): void {
    if (this.listenerCount('error') > 0) this.emit('error', error);
  }
}

function answered<Result>(work: Promise<Result>, callback?: Callback<Result>): Promise<Result> | undefined {
  if (!callback) return work;
  callbackify(() => work)(callback);
  return undefined;
}

/** The answer to a command, of which nobody reads more than that there is one. */
const NOTHING: QueryResult = { command: '', rowCount: null, oid: 0, fields: [], rows: [] };
const BEGAN_OUTSIDE =
  'A library began this transaction outside of database.transaction, so it cannot take part in it. Begin it inside, or use a fork of the entity manager there.';
