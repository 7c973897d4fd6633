import type { PoolClient, QueryConfig, Submittable } from 'pg';
import type { ClientSession, SqlAnswer } from './database-driver.js';
import { isForSession } from './local-settings.js';

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
    // One that was left in the middle of a transaction, or in another role, is destroyed: the next to have it would go on there.
    this.client.release(this.broken ?? (this.hasSettings || this.client.getTransactionStatus() !== 'I'));
    return Promise.resolve();
  }

  private readonly lose = (error: Error): void => {
    this.broken = error;
    this.onLost(error);
  };
}
