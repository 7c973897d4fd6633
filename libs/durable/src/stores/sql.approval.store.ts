import { ApprovalStore, type ApprovalAnswer, type ApprovalQuery, type ApprovalRecord } from '@toolloop/core';
import type { Database } from '../database/database.js';
import { ANSWERED, AnswerWatch } from './answer.watch.js';
import { recordOf, type ApprovalRow } from './approval-row.js';
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

  /** One statement: of two who answer, one finds it unanswered. Whoever waits is told after the commit. */
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
