import { withdrawal } from '@toolloop/core/internal';
import {
  type DueNotice,
  type LeaseRequest,
  type NextNotice,
  type Pending,
  type PendingAnswer,
  type PendingBinding,
  type PendingQuery,
  PendingStore,
} from '@toolloop/core/stores';
import type { Database } from '../database/database.js';
import { inMs } from '../database/lease-sql.js';
import { ANSWERED, AnswerWatch } from './answer-watch.js';
import { COLUMNS, type PendingRow, recordOf } from './pending-row.js';
import { isStorable, storableKey, storedJson } from './storable.js';

/** Keeps what runs ask of people in SQL: answered in one process, used in another, once. */
export class SqlPendingStore extends PendingStore {
  private readonly watch: AnswerWatch;

  constructor(private readonly database: Database) {
    super();
    this.watch = new AnswerWatch(database);
  }

  override async add({ answer, usedAt, ...record }: Pending): Promise<void> {
    const { id, binding } = record;
    await this.database.query(
      `insert into toolloop.pending (id, tenant, run_id, conversation, record, decision, answer, used_at, notice_at, notice_due)
       values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9) on conflict (id) do nothing`,
      [
        storableKey(id, 'id of the question'),
        storableKey(binding.tenant, 'tenant'),
        storableKey(binding.runId, 'id of the run'),
        record.conversation ?? null,
        storedJson(record, 'question'),
        answer?.decision ?? null,
        answer ? storedJson(answer, 'answer') : null,
        usedAt ?? null,
        record.noticeAt ?? null,
      ],
    );
  }

  override async find(id: string): Promise<Pending | undefined> {
    if (!isStorable(id)) return undefined;
    const [row] = await this.database.query<PendingRow>(
      `select ${COLUMNS} from toolloop.pending where id = $1`,
      [id],
    );
    return row && recordOf(row);
  }

  override async list({
    tenant,
    runId,
    conversation,
    pending = false,
    limit = 100,
    after,
  }: PendingQuery): Promise<readonly Pending[]> {
    if (!isStorable(tenant) || (runId !== undefined && !isStorable(runId))) return [];
    const rows = await this.database.query<PendingRow>(
      `select ${COLUMNS} from toolloop.pending
       where tenant = $1 and ($2::text is null or run_id = $2)
         and ($5::text is null or conversation = $5) ${pending ? 'and decision is null' : ''}
         and position > coalesce((select position from toolloop.pending where id = $3 and tenant = $1), 0)
       order by position limit $4`,
      [tenant, runId ?? null, storableOrNull(after), limit, conversation ?? null],
    );
    return rows.map(recordOf);
  }

  override async claim(id: string, { owner, forMs }: LeaseRequest): Promise<boolean> {
    if (!isStorable(id)) return false;
    const claimed = await this.database.query(
      `update toolloop.pending set owner = $2, expires_at = ${inMs('$3')}
       where id = $1 and decision is null and (owner is null or owner = $2 or expires_at <= clock_timestamp()) returning id`,
      [id, owner, forMs],
    );
    return claimed.length > 0;
  }

  /**
   * One statement: of two who answer, one finds it unanswered. Those who wait are told after the
   * commit.
   */
  override async answer(id: string, answer: PendingAnswer): Promise<Pending | undefined> {
    if (!isStorable(id)) return undefined;
    const [row] = await this.database.query<PendingRow>(
      `with answered as (
         update toolloop.pending set decision = $2, answer = $3 where id = $1 and decision is null returning ${COLUMNS}
       )
       select ${COLUMNS}, pg_notify('${ANSWERED}', id)::text from answered`,
      [id, answer.decision, storedJson(answer, 'answer')],
    );
    if (row) this.watch.told(row);
    return row && recordOf(row);
  }

  override async use(id: string): Promise<boolean> {
    if (!isStorable(id)) return false;
    const used = await this.database.query(
      `update toolloop.pending set used_at = clock_timestamp() where id = $1 and decision in ('approve', 'answer') and used_at is null returning id`,
      [id],
    );
    return used.length > 0;
  }

  override async due({ owner, forMs }: LeaseRequest, most: number): Promise<readonly DueNotice[]> {
    const rows = await this.database.query<NoticeRow>(
      `update toolloop.pending set notice_owner = $1, notice_expires_at = ${inMs('$2')}
       where id in (
         select id from toolloop.pending where decision is null and notice_due <= clock_timestamp()
           and (notice_expires_at is null or notice_expires_at <= clock_timestamp())
         order by notice_due limit $3 for update skip locked
       ) returning ${COLUMNS}, notice_at, notice_attempts`,
      [owner, forMs, most],
    );
    return rows.map((row) => ({
      record: recordOf(row),
      at: row.notice_at.toISOString(),
      attempts: row.notice_attempts,
    }));
  }

  override async reschedule(id: string, owner: string, next?: NextNotice): Promise<void> {
    if (!isStorable(id)) return;
    await this.database.query(
      `update toolloop.pending set notice_at = $3, notice_attempts = $4, notice_owner = null, notice_expires_at = null,
         notice_due = case when $3::timestamptz is null then null else ${inMs('$5')} end
       where id = $1 and notice_owner = $2`,
      [id, owner, next?.at ?? null, next?.attempts ?? 0, next?.dueInMs ?? 0],
    );
  }

  override async answered(id: string, signal: AbortSignal): Promise<Pending> {
    return recordOf(await this.watch.answered(id, signal));
  }
}

/** Runs work as one unit with whatever it asks of the database. */
export type Transaction = <Result>(work: () => Promise<Result>) => Promise<Result>;

function storableOrNull(text: string | undefined): string | null {
  return text !== undefined && isStorable(text) ? text : null;
}

/** A question with its notice that is due. */
interface NoticeRow extends PendingRow {
  readonly notice_at: Date;
  readonly notice_attempts: number;
}

/**
 * Withdraws what these runs have asked and has no answer, in the transaction that ends them: a
 * process may be killed after it. One that is being answered at this moment is skipped, since its
 * answer waits for the run.
 */
export async function withdrawPending(
  database: Database,
  runs: readonly Pick<PendingBinding, 'tenant' | 'runId'>[],
): Promise<void> {
  if (runs.length === 0) return;
  await database.query(
    `with asked as (
       select id from toolloop.pending
       where (tenant, run_id) in (select * from unnest($1::text[], $2::text[])) and decision is null for update skip locked
     )
     update toolloop.pending set decision = 'deny', answer = $3 where id in (select id from asked)`,
    [
      runs.map(({ tenant }) => tenant),
      runs.map(({ runId }) => runId),
      storedJson(withdrawal(), 'answer'),
    ],
  );
}
