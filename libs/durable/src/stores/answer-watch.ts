import type { Database } from '../database/database.js';
import { RowWatch } from '../database/row-watch.js';
import { COLUMNS, type PendingRow } from './pending-row.js';

/** Tells those who wait for an answer in this process. */
export class AnswerWatch {
  private readonly rows: RowWatch<PendingRow>;

  constructor(private readonly database: Database) {
    this.rows = new RowWatch<PendingRow>(database, {
      channel: ANSWERED,
      everyMs: LOOK_AGAIN_MS,
      what: 'Answers',
      look: async (ids) => {
        const answered = await database.query<PendingRow>(
          `select ${COLUMNS} from toolloop.pending where id = any($1::text[]) and decision is not null`,
          [ids],
        );
        return answered.map((row) => [row.id, row] as const);
      },
    });
  }

  /**
   * Resolves once there is an answer. Rejects with the signal's reason, and where the database does
   * not answer the first look.
   */
  async answered(id: string, signal: AbortSignal): Promise<PendingRow> {
    signal.throwIfAborted();
    let stop: (() => void) | undefined;
    try {
      return await new Promise<PendingRow>((resolve, reject) => {
        const abort = (): void => reject(signal.reason);
        signal.addEventListener('abort', abort);
        const end = this.rows.add(id, resolve);
        stop = () => {
          signal.removeEventListener('abort', abort);
          end();
        };
        this.rows.look([id]).catch(reject);
        // Between the first look and the first notification an answer may have come of which
        // nothing was heard.
        this.database.outside(() => void this.rows.listen().then(() => this.rows.lookAgain([id])));
      });
    } finally {
      stop?.();
    }
  }

  /**
   * Tells what this process knows without being notified. In a transaction nothing is certain
   * before its commit, which the notification follows.
   */
  told(row: PendingRow): void {
    if (!this.database.isInTransaction) this.rows.tell(row.id, row);
  }
}

/** The channel on which the id of a question is said when it is answered. */
export const ANSWERED = 'toolloop_answered';

/** For notifications that were lost with a connection. */
const LOOK_AGAIN_MS = 5_000;
