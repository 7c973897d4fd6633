import { withdrawal } from '@toolloop/core/internal';
import {
  type ApprovalAnswer,
  type ApprovalBinding,
  type ApprovalQuery,
  type ApprovalRecord,
  ApprovalStore,
  type LeaseRequest,
  type RunLog,
} from '@toolloop/core/stores';
import type { Database } from '../database/database.js';
import { inMs } from '../database/lease-sql.js';
import { RowWatch } from '../database/row-watch.js';
import { isStorable, storableKey, storedJson } from './storable.js';

const COLUMNS = 'approval_id, record, answer, is_used';

/** Keeps approvals in SQL: answered in one process, used in another, once. */
export class SqlApprovalStore extends ApprovalStore {
  private readonly watch: AnswerWatch;

  constructor(private readonly database: Database) {
    super();
    this.watch = new AnswerWatch(database);
  }

  override async add({ answer, isUsed, ...record }: ApprovalRecord): Promise<void> {
    const { request, binding } = record;
    await this.database.query(
      `insert into toolloop.approvals (approval_id, tenant, run_id, record, decision, answer, is_used) values ($1, $2, $3, $4, $5, $6, $7)
       on conflict (approval_id) do nothing`,
      [
        storableKey(request.approvalId, 'id of the approval'),
        storableKey(binding.tenant, 'tenant'),
        storableKey(binding.runId, 'id of the run'),
        storedJson(record, 'approval'),
        answer?.decision ?? null,
        answer ? storedJson(answer, 'answer') : null,
        isUsed,
      ],
    );
  }

  override async find(approvalId: string): Promise<ApprovalRecord | undefined> {
    if (!isStorable(approvalId)) return undefined;
    const [row] = await this.database.query<ApprovalRow>(`select ${COLUMNS} from toolloop.approvals where approval_id = $1`, [approvalId]);
    return row && recordOf(row);
  }

  override async list({ tenant, runId, pending = false, limit = 100, after }: ApprovalQuery): Promise<readonly ApprovalRecord[]> {
    if (!isStorable(tenant) || (runId !== undefined && !isStorable(runId))) return [];
    const rows = await this.database.query<ApprovalRow>(
      `select ${COLUMNS} from toolloop.approvals
       where tenant = $1 and ($2::text is null or run_id = $2) ${pending ? 'and decision is null' : ''}
         and position > coalesce((select position from toolloop.approvals where approval_id = $3 and tenant = $1), 0)
       order by position limit $4`,
      [tenant, runId ?? null, after !== undefined && isStorable(after) ? after : null, limit],
    );
    return rows.map(recordOf);
  }

  override async claim(approvalId: string, { owner, forMs }: LeaseRequest): Promise<boolean> {
    if (!isStorable(approvalId)) return false;
    const claimed = await this.database.query(
      `update toolloop.approvals set owner = $2, expires_at = ${inMs('$3')}
       where approval_id = $1 and decision is null and (owner is null or owner = $2 or expires_at <= clock_timestamp()) returning approval_id`,
      [approvalId, owner, forMs],
    );
    return claimed.length > 0;
  }

  /** One statement: of two who answer, one finds it unanswered. Those who wait are told after the commit. */
  override async answer(approvalId: string, answer: ApprovalAnswer): Promise<ApprovalRecord | undefined> {
    if (!isStorable(approvalId)) return undefined;
    const [row] = await this.database.query<ApprovalRow>(
      `with answered as (
         update toolloop.approvals set decision = $2, answer = $3 where approval_id = $1 and decision is null returning ${COLUMNS}
       )
       select ${COLUMNS}, pg_notify('${ANSWERED}', approval_id)::text from answered`,
      [approvalId, answer.decision, storedJson(answer, 'answer')],
    );
    if (row) this.watch.told(row);
    return row && recordOf(row);
  }

  override async use(approvalId: string): Promise<boolean> {
    if (!isStorable(approvalId)) return false;
    const used = await this.database.query(
      `update toolloop.approvals set is_used = true where approval_id = $1 and decision = 'approve' and not is_used returning approval_id`,
      [approvalId],
    );
    return used.length > 0;
  }

  override async answered(approvalId: string, signal: AbortSignal): Promise<ApprovalRecord> {
    return recordOf(await this.watch.answered(approvalId, signal));
  }
}

/** Runs work as one unit with whatever it asks of the database. */
export type Transaction = <Result>(work: () => Promise<Result>) => Promise<Result>;

/** The clocks of processes and their database differ by less: a run that is looked at earlier would find its approval still open. */
const CLOCK_SKEW_MS = 1_000;

/**
 * Wakes the run of an approval as soon as somebody answers it, or when it expires without an answer. An approval or an answer is kept together with its wake-up, or
 * neither is.
 */
export class WakingApprovalStore extends ApprovalStore {
  constructor(
    private readonly approvals: ApprovalStore,
    private readonly runs: RunLog,
    private readonly transaction: Transaction,
  ) {
    super();
  }

  override add(record: ApprovalRecord): Promise<void> {
    return this.transaction(async () => {
      await this.approvals.add(record);
      await this.runs.wakeAt(record.binding.runId, new Date(Date.parse(record.request.expiresAt) + CLOCK_SKEW_MS));
    });
  }

  override find(approvalId: string): Promise<ApprovalRecord | undefined> {
    return this.approvals.find(approvalId);
  }

  override list(query: ApprovalQuery): Promise<readonly ApprovalRecord[]> {
    return this.approvals.list(query);
  }

  override claim(approvalId: string, request: LeaseRequest): Promise<boolean> {
    return this.approvals.claim(approvalId, request);
  }

  override answer(approvalId: string, answer: ApprovalAnswer): Promise<ApprovalRecord | undefined> {
    return this.transaction(async () => {
      const record = await this.approvals.answer(approvalId, answer);
      if (record) await this.runs.wake(record.binding.runId);
      return record;
    });
  }

  override use(approvalId: string): Promise<boolean> {
    return this.approvals.use(approvalId);
  }

  override answered(approvalId: string, signal: AbortSignal): Promise<ApprovalRecord> {
    return this.approvals.answered(approvalId, signal);
  }
}

/** An approval as its table has it. */
export interface ApprovalRow {
  readonly approval_id: string;
  readonly record: Omit<ApprovalRecord, 'answer' | 'isUsed'>;
  readonly answer: ApprovalAnswer | null;
  readonly is_used: boolean;
}

export function recordOf({ record, answer, is_used: isUsed }: ApprovalRow): ApprovalRecord {
  return { ...record, ...(answer && { answer }), isUsed };
}

/** The channel on which the id of an approval is said when it is answered. */
export const ANSWERED = 'toolloop_answered';
/** For notifications that were lost with a connection. */
const LOOK_AGAIN_MS = 5_000;

/** Tells those who wait for an answer in this process. */
export class AnswerWatch {
  private readonly rows: RowWatch<ApprovalRow>;

  constructor(private readonly database: Database) {
    this.rows = new RowWatch<ApprovalRow>(database, {
      channel: ANSWERED,
      everyMs: LOOK_AGAIN_MS,
      what: 'Answers',
      look: async (approvalIds) => {
        const answered = await database.query<ApprovalRow>(
          `select ${COLUMNS} from toolloop.approvals where approval_id = any($1::text[]) and decision is not null`,
          [approvalIds],
        );
        return answered.map((row) => [row.approval_id, row] as const);
      },
    });
  }

  /** Resolves once the approval is answered. Rejects with the signal's reason, and where the database does not answer the first look. */
  async answered(approvalId: string, signal: AbortSignal): Promise<ApprovalRow> {
    signal.throwIfAborted();
    let stop: (() => void) | undefined;
    try {
      return await new Promise<ApprovalRow>((resolve, reject) => {
        const abort = (): void => reject(signal.reason);
        signal.addEventListener('abort', abort);
        const end = this.rows.add(approvalId, resolve);
        stop = () => {
          signal.removeEventListener('abort', abort);
          end();
        };
        this.rows.look([approvalId]).catch(reject);
        // Between the first look and the first notification an answer may have come of which nothing was heard.
        this.database.outside(() => void this.rows.listen().then(() => this.rows.lookAgain([approvalId])));
      });
    } finally {
      stop?.();
    }
  }

  /** Tells what this process knows without being notified. In a transaction nothing is certain before its commit, which the notification follows. */
  told(row: ApprovalRow): void {
    if (!this.database.isInTransaction) this.rows.tell(row.approval_id, row);
  }
}

/**
 * Withdraws the approvals of these runs that have no answer, in the transaction that ends them: a process may be killed after it. One that is being answered at this
 * moment is skipped, since its answer waits for the run.
 */
export async function withdrawApprovals(database: Database, runs: readonly Pick<ApprovalBinding, 'tenant' | 'runId'>[]): Promise<void> {
  if (runs.length === 0) return;
  await database.query(
    `with asked as (
       select approval_id from toolloop.approvals
       where (tenant, run_id) in (select * from unnest($1::text[], $2::text[])) and decision is null for update skip locked
     )
     update toolloop.approvals set decision = 'deny', answer = $3 where approval_id in (select approval_id from asked)`,
    [runs.map(({ tenant }) => tenant), runs.map(({ runId }) => runId), storedJson(withdrawal(), 'answer')],
  );
}
