import type { PoolClient, QueryConfig, Submittable } from 'pg';
import type { ClientSession, SqlAnswer } from './database-driver.js';

/** A library's client on PostgreSQL, outside of `Database.transaction`: a connection of our pool. */
export class LeasedSession implements ClientSession {
  private broken: Error | undefined;

  constructor(
    private readonly client: PoolClient,
    private readonly onLost: (error: Error) => void,
  ) {
    client.on('error', this.lose);
  }

  ask(statement: QueryConfig): Promise<SqlAnswer> {
    return this.client.query(statement);
  }

  submit<Reading extends Submittable>(reading: Reading): Reading {
    return this.client.query(reading);
  }

  end(): Promise<void> {
    this.client.off('error', this.lose);
    // One that was left in the middle of a transaction is destroyed, and the server rolls that back.
    this.client.release(this.broken ?? this.client.getTransactionStatus() !== 'I');
    return Promise.resolve();
  }

  private readonly lose = (error: Error): void => {
    this.broken = error;
    this.onLost(error);
  };
}
