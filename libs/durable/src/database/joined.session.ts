import type { QueryConfig } from 'pg';
import type { ClientSession, SqlAnswer } from './database-driver.js';
import { valueOf } from './from-answer.js';
import { FOR_SESSION_REFUSED, isForSession, settingsIn } from './local-settings.js';
import { transactionCommand, type TransactionCommand } from './transaction-command.js';
import type { TransactionScope } from './transaction.scope.js';

/** The label of the savepoint that a library's own transaction is. */
const OWN = '';

/** A library's client inside of `Database.transaction`: all it does is part of that, and what it takes for its own transaction is a savepoint. */
export class JoinedSession implements ClientSession {
  /** What settings were before its own transaction changed them. */
  private readonly earlier = new Map<string, string>();

  /** `current` tells which transaction the caller is in: it may be a savepoint within `home`, where the client was made. */
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
    throw new Error('A cursor or stream has to be read outside of database.transaction: inside, read in pages.');
  }

  end(): Promise<void> {
    return this.home.dropSavepoint(this, OWN);
  }

  private async follow(command: TransactionCommand, scope: TransactionScope): Promise<void> {
    if (!('name' in command) && scope !== this.home) throw new Error(NOT_WITHIN); // `home` would wait for the end of what waits for this
    switch (command.kind) {
      case 'begin':
        if (command.modes !== '')
          throw new Error(`"${command.modes}" is too late inside of database.transaction, which has already begun.`);
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
    for (const [name, value] of this.earlier) await this.home.ask({ text: 'select set_config($1, $2, true)', values: [name, value] }, this);
    this.earlier.clear();
  }

  /** A savepoint that the caller is in has its turn; without it, what the client asks would wait for that to end. */
  private scopeOfCaller(): TransactionScope {
    const current = this.current();
    if (!current || this.home.isWithin(current)) return this.home;
    if (current.isWithin(this.home)) return current;
    throw new Error('This library transaction began inside of another transaction. Begin it inside of the one in which you use it.');
  }
}

const NOT_WITHIN =
  "A library's transaction begins and ends in the same database.transaction as its connection was made in, not in one nested in that.";
