import { Logger, asStoreAttempt } from '@toolloop/core/internal';
import type { Database } from './database.js';

/**
 * Tells callers in this process that a row has changed. However many they are, there is one
 * listener, and one query from time to time for all rows.
 */
export class RowWatch<Told> {
  private readonly logger = new Logger('DurableDatabase');
  private readonly rows = new Map<string, WatchedRow<Told>>();
  private listening: Promise<unknown> | undefined;
  private timer: NodeJS.Timeout | undefined;
  /** True since a look failed, of which one line tells until the next succeeds. */
  private isFailing = false;

  constructor(
    private readonly database: Database,
    private readonly terms: WatchTerms<Told>,
  ) {}

  /**
   * Calls `wake` for each change of a row, perhaps more often. Resolves, once notifications are
   * heard, to what ends it.
   */
  async watch(id: string, wake: Wake<Told>): Promise<() => void> {
    const end = this.add(id, wake);
    await this.listen();
    return end;
  }

  /**
   * The same at once: until notifications are heard, a change is told when all rows are looked at.
   */
  add(id: string, wake: Wake<Told>): () => void {
    const row = this.rows.get(id) ?? { wakes: new Set() };
    row.wakes.add(wake);
    this.rows.set(id, row);
    this.database.outside(() => {
      this.timer ??= setInterval(() => void this.lookAtAll(), this.terms.everyMs).unref();
    });
    return () => {
      row.wakes.delete(wake);
      if (row.wakes.size === 0) this.rows.delete(id);
      if (this.rows.size > 0) return;
      clearInterval(this.timer);
      this.timer = undefined;
    };
  }

  /** Resolves once notifications are heard, or cannot be. */
  async listen(): Promise<void> {
    const { channel, what, everyMs } = this.terms;
    this.listening ??= this.database.outside(() =>
      this.database.listen(channel, (id) => this.hear(id)),
    );
    try {
      await this.listening;
    } catch (error) {
      this.listening = undefined;
      this.logger.warn(
        `${what} are only polled, every ${everyMs} ms, since notifications do not arrive: ${String(error)}`,
      );
    }
  }

  /** Looks at rows now. Rejects where the database does not answer. */
  async look(ids: readonly string[]): Promise<void> {
    for (const [id, told] of await asStoreAttempt(() => this.terms.look(ids))) {
      const row = this.rows.get(id);
      if (row?.seen === told) continue;
      if (row) row.seen = told;
      this.tell(id, told);
    }
  }

  /** Looks at rows that are watched; a failure is logged. */
  async lookAgain(ids: readonly string[]): Promise<void> {
    const watched = ids.filter((id) => this.rows.has(id));
    if (watched.length === 0 || this.database.isClosed) return;
    try {
      await this.look(watched);
      this.isFailing = false;
    } catch (error) {
      if (this.isFailing) return;
      this.isFailing = true;
      this.logger.warn(`${this.terms.what} could not be polled: ${String(error)}`);
    }
  }

  tell(id: string, told: Told): void {
    this.rows.get(id)?.wakes.forEach((wake) => wake(told));
  }

  private hear(id: string): void {
    const { notified } = this.terms;
    if (notified === undefined) void this.lookAgain([id]);
    else this.tell(id, notified);
  }

  private async lookAtAll(): Promise<void> {
    const ids = [...this.rows.keys()];
    for (let from = 0; from < ids.length; from += BATCH)
      await this.lookAgain(ids.slice(from, from + BATCH));
  }
}

/** The rows that are watched, and what there is to tell of them. */
export interface WatchTerms<Told> {
  /** The channel on which the id of a row is notified. */
  readonly channel: string;
  /** The change that a notification tells by itself. @default the row is looked at */
  readonly notified?: Told;
  /**
   * Looks at rows, and resolves to what there is to tell of them. What was told by the look before
   * is not told again.
   */
  readonly look: (
    ids: readonly string[],
  ) => Promise<readonly (readonly [id: string, told: Told])[]>;
  /**
   * Milliseconds between two looks at all rows, since a notification may be lost with a connection.
   */
  readonly everyMs: number;
  /** The name of the changes for the log, such as `Answers`. */
  readonly what: string;
}

type Wake<Told> = (told: Told) => void;

/** A row that is watched. */
interface WatchedRow<Told> {
  readonly wakes: Set<Wake<Told>>;
  /** Set once the row was looked at. */
  seen?: Told;
}

/** Rows of one statement of the look at all rows. */
const BATCH = 1_000;
