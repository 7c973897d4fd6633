import type { QueryConfig } from 'pg';
import type { SqlAnswer, SqlSession, SqlStatement, SqlValue } from './database-driver.js';
import { SavepointStack } from './savepoints.js';
import { toStorageError } from './storage-error.js';

/**
 * One open transaction, or one savepoint in it. What is asked of it at once is done one after the
 * other, since a session can do no other, and a savepoint is one turn: what another caller asks
 * meanwhile is not rolled back with it.
 */
export class TransactionScope {
  private turns: Promise<unknown> = Promise.resolve();
  private failure: { readonly cause: unknown } | undefined;
  /** Why nothing may be kept, though the database would. */
  private loss: Error | undefined;
  private isOver = false;
  private readonly depth: number;
  private readonly savepoints: SavepointStack;
  /** One for a transaction and all savepoints in it. */
  private readonly standstill: Standstill;

  constructor(
    private readonly session: SqlSession,
    private readonly outer?: TransactionScope,
    longestIdleMs = LONGEST_IDLE_MS,
  ) {
    this.depth = outer ? outer.depth + 1 : 0;
    this.standstill = outer?.standstill ?? new Standstill(longestIdleMs);
    this.savepoints = new SavepointStack(`toolloop_shared_${this.depth}`);
  }

  /** Tells if it is the other, or a savepoint somewhere in it. */
  isWithin(other: TransactionScope): boolean {
    return this === other || this.outer?.isWithin(other) === true;
  }

  query<Row extends object>(
    statement: SqlStatement,
    values: readonly SqlValue[],
  ): Promise<readonly Row[]> {
    return this.take(() => {
      this.savepoints.asked();
      return this.send<Row>(statement, values);
    });
  }

  /** Runs a statement that a library sends over a client of its own. */
  ask(statement: QueryConfig, client: object): Promise<SqlAnswer> {
    return this.take(() => {
      this.savepoints.asked(client);
      return this.noted(this.session.ask(statement));
    });
  }

  /**
   * Marks a client's open savepoint as one that changes settings: role, tenant. No one with a
   * savepoint below may ask with them.
   */
  keepSettings(client: object): void {
    this.savepoints.keepSettings(client);
  }

  /** Sets a savepoint of a library's client. Its own transaction is one as well, with no label. */
  setSavepoint(client: object, label: string): Promise<void> {
    return this.take(async () => {
      await this.send(`savepoint ${this.savepoints.set(client, label)}`);
    });
  }

  endSavepoint(client: object, label: string): Promise<void> {
    return this.take(async () => {
      if (this.failure)
        throw new Error(
          'A statement of the transaction failed, so it can only be rolled back.',
          this.failure,
        );
      await this.release(client, label);
    });
  }

  /**
   * Undoes what came after a savepoint, a statement that failed as well. Nothing of the transaction
   * is kept where others have written something since.
   */
  undoSavepoint(client: object, label: string): Promise<void> {
    return this.take(() => this.undo(client, label));
  }

  /** Undoes and ends one. Where the client has none any more, nothing of it was kept. */
  async dropSavepoint(client: object, label: string): Promise<void> {
    if (this.isOver) return;
    await this.take(async () => {
      if (!this.savepoints.has(client, label)) return;
      await this.undo(client, label);
      await this.release(client, label);
    });
  }

  /**
   * Runs `work` behind a savepoint: when it rejects, what it did is undone and the transaction
   * continues.
   */
  nested<Result>(work: (scope: TransactionScope) => Promise<Result>): Promise<Result> {
    const name = `toolloop_${this.depth + 1}`;
    return this.take(async () => {
      this.savepoints.asked();
      await this.send(`savepoint ${name}`);
      try {
        const result = await new TransactionScope(this.session, this).complete(work);
        await this.send(`release savepoint ${name}`);
        return result;
      } catch (error) {
        await this.send(`rollback to savepoint ${name}`);
        throw error;
      }
    });
  }

  /**
   * Runs `work` to its end, and all it has begun. Rejects where a statement failed, though `work`
   * may have caught that: PostgreSQL takes nothing more after it, and would answer a commit with a
   * silent rollback. A transaction that stands still rejects as well, since others wait for it.
   */
  async complete<Result>(work: (scope: TransactionScope) => Promise<Result>): Promise<Result> {
    try {
      const result = await (this.outer ? work(this) : this.standstill.end(work(this)));
      await this.turns;
      if (this.savepoints.hasOpen && !this.failure) this.loss ??= new Error(STILL_OPEN);
      if (!this.failure && !this.loss) return result;
    } finally {
      await this.turns;
      this.isOver = true;
    }
    if (this.loss) throw this.loss;
    const cause = toStorageError(this.failure?.cause); // libraries are told in the driver's words
    throw new Error(
      'A statement of the transaction failed, so all of it is rolled back. Put what may fail into its own transaction.',
      {
        cause,
      },
    );
  }

  private async undo(client: object, label: string): Promise<void> {
    const { name, hasGuests } = this.savepoints.undo(client, label);
    if (hasGuests) this.loss ??= new Error(LOST);
    await this.send(`rollback to savepoint ${name}`);
    this.failure = undefined;
  }

  private async release(client: object, label: string): Promise<void> {
    const name = this.savepoints.end(client, label);
    if (name !== undefined) await this.send(`release savepoint ${name}`);
  }

  private take<Result>(turn: () => Promise<Result>): Promise<Result> {
    if (this.isOver) return Promise.reject(new Error(IS_OVER));
    const taken = this.turns.then(turn);
    this.turns = taken.catch(() => undefined);
    return taken;
  }

  private send<Row extends object>(
    statement: SqlStatement,
    values: readonly SqlValue[] = [],
  ): Promise<readonly Row[]> {
    return this.noted(this.session.query<Row>(statement, values));
  }

  private async noted<Result>(asked: Promise<Result>): Promise<Result> {
    this.standstill.move();
    try {
      return await asked;
    } catch (error) {
      this.failure ??= { cause: error };
      throw error;
    } finally {
      this.standstill.rest();
    }
  }
}

/**
 * The milliseconds for which a transaction may keep others waiting without a statement. A server
 * ends the session of such a one as well.
 */
export const LONGEST_IDLE_MS = 15_000;

/**
 * Watches a transaction for standing still: whatever it waits for, others wait for what it has
 * locked, and on PGlite for its session.
 */
class Standstill {
  private moving = 0;
  private timer: NodeJS.Timeout | undefined;
  private giveUp: (() => void) | undefined;

  constructor(private readonly longestMs: number) {}

  /** Settles as the work does, or rejects once there was no statement for too long. */
  end<Result>(work: Promise<Result>): Promise<Result> {
    return new Promise<Result>((resolve, reject) => {
      this.giveUp = () =>
        reject(
          new Error(
            `A transaction stood still for ${this.longestMs / 1_000} seconds, ${STOOD_STILL}`,
          ),
        );
      this.rest();
      work.then(resolve, reject);
    }).finally(() => {
      this.giveUp = undefined;
      clearTimeout(this.timer);
    });
  }

  move(): void {
    this.moving += 1;
    clearTimeout(this.timer);
  }

  rest(): void {
    this.moving = Math.max(0, this.moving - 1);
    clearTimeout(this.timer);
    if (this.moving === 0 && this.giveUp)
      this.timer = setTimeout(this.giveUp, this.longestMs).unref();
  }
}

const STOOD_STILL =
  'while others waited for it, so it was rolled back. Await nothing remote in it. Whatever it waited for may have waited for it: where database or its stores are used as well, begin with database.transaction.';

const IS_OVER =
  'The transaction is over. Await everything inside of it; start what should outlive it with database.outside(() => …).';
const LOST =
  'A library rolled back its part of the transaction, and with it what others did meanwhile, so everything is rolled back. Put a part that may fail into a database.transaction of its own.';
const STILL_OPEN =
  'A transaction that a library began inside of this one was still open at its end, so everything is rolled back. Await it.';
