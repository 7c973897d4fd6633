import { Injectable } from '@nestjs/common';
import { filter, firstValueFrom, fromEvent, map, merge, Subject, take } from 'rxjs';
import { type ApprovalAnswer, type ApprovalQuery, type ApprovalRecord, ApprovalStore } from '../contracts/approval.js';

const MOST_APPROVALS = 10_000;

/** Keeps approvals for as long as the process lives. Past 10,000 of a tenant its oldest goes, which is as if it had expired. */
@Injectable()
export class MemoryApprovalStore extends ApprovalStore {
  private readonly records = new Map<string, ApprovalRecord>();
  /** So that a tenant that floods takes nothing from another. */
  private readonly ofTenants = new Map<string, Set<string>>();
  private readonly answers$ = new Subject<ApprovalRecord>();

  override add(record: ApprovalRecord): Promise<void> {
    const { tenant } = record.binding;
    if (this.records.has(record.request.approvalId)) return Promise.resolve();
    const ids = this.ofTenants.get(tenant) ?? new Set();
    this.ofTenants.set(tenant, ids.add(record.request.approvalId));
    this.records.set(record.request.approvalId, record);
    const [oldest] = ids;
    if (ids.size > MOST_APPROVALS && oldest !== undefined) {
      ids.delete(oldest);
      this.records.delete(oldest);
    }
    return Promise.resolve();
  }

  override find(approvalId: string): Promise<ApprovalRecord | undefined> {
    return Promise.resolve(this.records.get(approvalId));
  }

  override list({ tenant, runId, pending = false, limit = 100, after }: ApprovalQuery): Promise<readonly ApprovalRecord[]> {
    const found = [...this.records.values()]
      .filter(({ binding }) => binding.tenant === tenant && (runId === undefined || binding.runId === runId))
      .filter(({ answer }) => !pending || !answer);
    const start = after === undefined ? 0 : found.findIndex(({ request }) => request.approvalId === after) + 1;
    return Promise.resolve(found.slice(start, start + limit));
  }

  override answer(approvalId: string, answer: ApprovalAnswer): Promise<ApprovalRecord | undefined> {
    const record = this.records.get(approvalId);
    if (!record || record.answer) return Promise.resolve(undefined);
    const answered = { ...record, answer };
    this.records.set(approvalId, answered);
    this.answers$.next(answered);
    return Promise.resolve(answered);
  }

  override use(approvalId: string): Promise<boolean> {
    const record = this.records.get(approvalId);
    if (record?.answer?.decision !== 'approve' || record.isUsed) return Promise.resolve(false);
    this.records.set(approvalId, { ...record, isUsed: true });
    return Promise.resolve(true);
  }

  override async answered(approvalId: string, signal: AbortSignal): Promise<ApprovalRecord> {
    signal.throwIfAborted();
    const known = this.records.get(approvalId);
    if (known?.answer) return known;
    const aborted$ = fromEvent(signal, 'abort').pipe(
      map((): never => {
        throw signal.reason;
      }),
    );
    const answered$ = this.answers$.pipe(filter(({ request }) => request.approvalId === approvalId));
    return firstValueFrom(merge(answered$, aborted$).pipe(take(1)));
  }
}
