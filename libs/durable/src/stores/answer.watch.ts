import { Logger } from '@nestjs/common';
import type { Database } from '../database/database.js';
import type { ApprovalRow } from './approval-row.js';

/** The channel on which the id of an approval is said when it is answered. */
export const ANSWERED = 'toolloop_answered';
/** For notifications that were lost with a connection. */
const LOOK_AGAIN_MS = 5_000;

type Wake = (row: ApprovalRow) => void;

/** Who waits for answers in this process. They are told by notification; one query for all of them looks again from time to time. */
export class AnswerWatch {
  private readonly logger = new Logger('SqlApprovalStore');
  private readonly waiting = new Map<string, Set<Wake>>();
  private listening: Promise<unknown> | undefined;
  private timer: NodeJS.Timeout | undefined;

  constructor(private readonly database: Database) {}

  /** Resolves once the approval is answered. Rejects with the signal's reason, and where the database does not answer the first look. */
  async answered(approvalId: string, signal: AbortSignal): Promise<ApprovalRow> {
    signal.throwIfAborted();
    let stop: (() => void) | undefined;
    try {
      return await new Promise<ApprovalRow>((resolve, reject) => {
        const abort = (): void => reject(signal.reason);
        signal.addEventListener('abort', abort);
        this.add(approvalId, resolve);
        stop = () => {
          signal.removeEventListener('abort', abort);
          this.remove(approvalId, resolve);
        };
        this.look([approvalId]).catch(reject);
      });
    } finally {
      stop?.();
    }
  }

  /** What this process knows without being notified. In a transaction nothing is certain before its commit, which the notification follows. */
  told(row: ApprovalRow): void {
    if (!this.database.isInTransaction) this.waiting.get(row.approval_id)?.forEach((wake) => wake(row));
  }

  private add(approvalId: string, wake: Wake): void {
    this.waiting.set(approvalId, (this.waiting.get(approvalId) ?? new Set()).add(wake));
    this.database.outside(() => {
      this.timer ??= setInterval(() => void this.lookAgain(), LOOK_AGAIN_MS).unref();
      // Between the first look and this one an answer may have come that nobody heard of.
      void this.listen().then(() => this.lookAgain([approvalId]));
    });
  }

  private remove(approvalId: string, wake: Wake): void {
    const wakes = this.waiting.get(approvalId);
    wakes?.delete(wake);
    if (wakes?.size === 0) this.waiting.delete(approvalId);
    if (this.waiting.size > 0) return;
    clearInterval(this.timer);
    this.timer = undefined;
  }

  private async listen(): Promise<void> {
    this.listening ??= this.database.listen(ANSWERED, (approvalId) => void this.lookAgain([approvalId]));
    try {
      await this.listening;
    } catch (error) {
      this.listening = undefined;
      this.logger.warn(`Answers are only polled, every ${LOOK_AGAIN_MS} ms, since notifications do not arrive: ${String(error)}`);
    }
  }

  private async lookAgain(approvalIds: readonly string[] = [...this.waiting.keys()]): Promise<void> {
    const waited = approvalIds.filter((approvalId) => this.waiting.has(approvalId));
    if (waited.length === 0 || this.database.isClosed) return;
    try {
      await this.look(waited);
    } catch (error) {
      this.logger.warn(`Answers could not be polled: ${String(error)}`);
    }
  }

  private async look(approvalIds: readonly string[]): Promise<void> {
    const rows = await this.database.query<ApprovalRow>(
      `select approval_id, record, answer, is_used from toolloop.approvals where approval_id = any($1::text[]) and decision is not null`,
      [approvalIds],
    );
    for (const row of rows) this.waiting.get(row.approval_id)?.forEach((wake) => wake(row));
  }
}
