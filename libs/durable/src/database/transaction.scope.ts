import type { SqlSession, SqlStatement, SqlValue } from './database-driver.js';

/**
 * One open transaction, or one savepoint in it. What is asked of it at once is done one after the other, since a session can do no other, and a
 * savepoint is one turn: what somebody else asks meanwhile is not rolled back with it.
 */
export class TransactionScope {
  private turns: Promise<unknown> = Promise.resolve();
  private failure: { readonly cause: unknown } | undefined;
  private isOver = false;

  constructor(
    private readonly session: SqlSession,
    private readonly depth = 0,
  ) {}

  query<Row extends object>(statement: SqlStatement, values: readonly SqlValue[]): Promise<readonly Row[]> {
    return this.take(() => this.send<Row>(statement, values));
  }

  /** Runs `work` behind a savepoint: when it rejects, what it did is undone and the transaction goes on. */
  nested<Result>(work: (scope: TransactionScope) => Promise<Result>): Promise<Result> {
    const name = `toolloop_${this.depth + 1}`;
    return this.take(async () => {
      await this.send(`savepoint ${name}`);
      try {
        const result = await new TransactionScope(this.session, this.depth + 1).complete(work);
        await this.send(`release savepoint ${name}`);
        return result;
      } catch (error) {
        await this.send(`rollback to savepoint ${name}`);
        throw error;
      }
    });
  }

  /**
   * Runs `work` to its end, and all it has begun. Rejects where a statement failed, though `work` may have caught that: PostgreSQL takes nothing more
   * after it, and would answer a commit with a silent rollback.
   */
  async complete<Result>(work: (scope: TransactionScope) => Promise<Result>): Promise<Result> {
    try {
      const result = await work(this);
      await this.turns;
      if (!this.failure) return result;
    } finally {
      await this.turns;
      this.isOver = true;
    }
    const { cause } = this.failure;
    throw new Error('A statement of the transaction failed, so nothing of it is kept. What may fail goes into a transaction of its own.', {
      cause,
    });
  }

  private take<Result>(turn: () => Promise<Result>): Promise<Result> {
    if (this.isOver) return Promise.reject(new Error(IS_OVER));
    const taken = this.turns.then(turn);
    this.turns = taken.catch(() => undefined);
    return taken;
  }

  private async send<Row extends object>(statement: SqlStatement, values: readonly SqlValue[] = []): Promise<readonly Row[]> {
    try {
      return await this.session.query<Row>(statement, values);
    } catch (error) {
      this.failure ??= { cause: error };
      throw error;
    }
  }
}

const IS_OVER =
  'The transaction is over. Await everything inside of it; what is to go on after it is started with database.outside(() => …).';
