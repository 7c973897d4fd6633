import type { QueryConfig } from 'pg';
import type { ClientSession, DatabaseDriver, SqlAnswer } from './database-driver.js';
import { FOR_SESSION_REFUSED, isForSession } from './local-settings.js';
import { transactionCommand, type TransactionCommand } from './transaction-command.js';
import { TransactionScope } from './transaction.scope.js';

/** As on the server: nobody may keep the others waiting for longer, without asking anything. */
const LONGEST_IDLE_MS = 15_000;

/** A library's client on PGlite, outside of `Database.transaction`. Its transaction takes its turn among all others. */
export class LoneSession implements ClientSession {
  private open: OpenTransaction | undefined;

  constructor(private readonly driver: DatabaseDriver) {}

  async ask(statement: QueryConfig): Promise<SqlAnswer> {
    if (isForSession(statement)) throw new Error(FOR_SESSION_REFUSED);
    const command = transactionCommand(statement.text);
    if (command?.kind === 'begin') await this.begin(command.modes);
    else if (command) await this.follow(command);
    else return this.open ? this.open.during((scope) => scope.ask(statement, this)) : this.driver.ask(statement);
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
    if (modes !== '') await this.open.during((scope) => scope.ask({ text: `set transaction ${modes}` }, this));
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
  private idle: NodeJS.Timeout | undefined;
  private stoodStill: Error | undefined;

  private constructor(
    private readonly scope: TransactionScope,
    private readonly end: (end: End) => Promise<void>,
  ) {}

  static begin(driver: DatabaseDriver): Promise<OpenTransaction> {
    return new Promise((resolve, reject) => {
      const done: Promise<void> = driver.transaction((session) =>
        new TransactionScope(session).complete(
          (scope) =>
            new Promise<void>((commit, rollBack) => {
              const open = new OpenTransaction(scope, (end) => {
                if (end.how === 'commit') commit();
                else rollBack(end.reason);
                return done;
              });
              open.rest();
              resolve(open);
            }),
        ),
      );
      done.catch(reject);
    });
  }

  /** Runs something in it, which keeps it from being given up. */
  async during<Result>(work: (scope: TransactionScope) => Promise<Result>): Promise<Result> {
    if (this.stoodStill) throw this.stoodStill;
    clearTimeout(this.idle);
    try {
      return await work(this.scope);
    } finally {
      this.rest();
    }
  }

  commit(): Promise<void> {
    clearTimeout(this.idle);
    return this.end({ how: 'commit' });
  }

  async rollback(): Promise<void> {
    clearTimeout(this.idle);
    await this.end({ how: 'rollback', reason: new Error('Rolled back.') }).catch(() => undefined);
  }

  private rest(): void {
    this.idle = setTimeout(() => {
      this.stoodStill = new Error(STOOD_STILL);
      void this.end({ how: 'rollback', reason: this.stoodStill }).catch(() => undefined);
    }, LONGEST_IDLE_MS).unref();
  }
}

const STOOD_STILL = `A library's transaction stood still for ${LONGEST_IDLE_MS / 1_000} seconds while PGlite has one session for everybody, so it was rolled back. Whatever it waited for may have waited for it: where database or its stores are used as well, begin with database.transaction.`;
