import { randomUUID } from 'node:crypto';
import { Logger } from '@nestjs/common';
import type { DirectiveEvent } from '@toolloop/core';
import { Observable, Subject } from 'rxjs';
import type { Database } from '../database/database.js';
import { fromTold } from './from-directive-row.js';

const CHANGED = 'toolloop_directives';
/** PostgreSQL takes less than 8,000. */
const MOST_BYTES = 7_900;

/** The changes of directives: this process's own as it makes them, and those of others as notifications, for as long as somebody has asked to hear any. */
export class DirectiveFeed {
  /** It never errors. */
  readonly changes$: Observable<DirectiveEvent>;
  private readonly logger = new Logger('SqlDirectiveStore');
  private readonly changes = new Subject<DirectiveEvent>();
  private readonly self = randomUUID();
  private listening: Promise<unknown> | undefined;

  constructor(private readonly database: Database) {
    this.changes$ = new Observable((subscriber) => {
      const subscription = this.changes.subscribe(subscriber);
      void this.listen();
      return subscription;
    });
  }

  /**
   * Keeps a change, and tells it once it is kept. Inside a transaction of the caller's that is when theirs is, so this process hears of it as the others do. A
   * change whose texts are too long for a notification is told in this process alone.
   */
  async tell<Kept>(keep: () => Promise<Kept>, eventOf: (kept: Kept) => DirectiveEvent | undefined): Promise<Kept> {
    const isOwn = !this.database.isInTransaction;
    const kept = await this.database.transaction(async () => {
      const made = await keep();
      const event = eventOf(made);
      if (event) await this.notify(JSON.stringify({ event, ...(isOwn && { from: this.self }) }));
      return made;
    });
    const event = eventOf(kept);
    if (event && isOwn) this.changes.next(event);
    return kept;
  }

  private async notify(payload: string): Promise<void> {
    if (Buffer.byteLength(payload) <= MOST_BYTES) await this.database.query(`select pg_notify('${CHANGED}', $1)::text`, [payload]);
  }

  private async listen(): Promise<void> {
    this.listening ??= this.database.listen(CHANGED, (payload) => {
      const { from, event } = fromTold(payload);
      if (from !== this.self) this.changes.next(event);
    });
    try {
      await this.listening;
    } catch (error) {
      this.listening = undefined;
      this.logger.warn(`Changes of directives in other processes are not received: ${String(error)}`);
    }
  }
}
