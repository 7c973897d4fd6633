import type { LoopEventBody } from '@toolloop/protocol';
import type { BoundedStores } from '../../call/bounded-stores.js';
import type { ExecutionScope, PlacedCall, ReadCall } from '../../call/call.js';
import { linkSignal, untilAborted } from '../../contracts/interruption.js';
import { CallPending, CallWaitsElsewhere } from '../../call/outcome.js';
import {
  isUsable,
  type Pending,
  type PendingAnswer,
  type PendingBinding,
  type PendingKind,
  type PendingOf,
  type PendingStore,
} from '../../contracts/pending.js';
import type { RunLog } from '../../contracts/run-log.js';
import { putOnRecord } from '../../call/put-on-record.js';
import type { HeldCall } from '../../plugin/call-points.js';
import { firstNoticeAt } from '../inbox/answering-roles.js';
import { isExpired } from '../inbox/pending.service.js';
import { withdraw } from '../inbox/withdrawal.js';

/**
 * Keeps what calls ask of people and clients, and waits for the answers. Everything that is asked
 * goes through it, whatever its kind.
 */
export class Asking {
  protected readonly store: PendingStore;
  private readonly runs: Pick<RunLog, 'find'>;

  constructor({ pending, runs }: Pick<BoundedStores, 'pending' | 'runs'>) {
    this.store = pending;
    this.runs = runs;
  }

  /**
   * Finds what was asked under an id, as long as it is of that kind: no answer to one kind stands
   * for one to another.
   */
  async findOf<Kind extends PendingKind>(
    kind: Kind,
    id: string | undefined,
  ): Promise<PendingOf<Kind> | undefined> {
    const record = id === undefined ? undefined : await this.store.find(id);
    return record && isOf(kind, record) ? record : undefined;
  }

  /**
   * Asks once. The id follows from what is asked, so that a run which lost it, as in a crash, finds
   * the record again and no person is asked twice. One that was withdrawn because its run had ended
   * is no answer, and is asked for anew.
   */
  protected async once<Kind extends PendingKind>(
    kind: Kind,
    idAfter: (before?: string) => string,
    make: Making<Kind>,
  ): Promise<PendingOf<Kind>> {
    for (let id = idAfter(); ; id = idAfter(id)) {
      const known = await this.findOf(kind, id);
      if (!known?.answer?.isWithdrawn) return known ?? make(id);
    }
  }

  protected async keep<Kind extends PendingKind>(
    call: ReadCall,
    record: PendingOf<Kind> & Pending,
  ): Promise<PendingOf<Kind>> {
    const { conversation } = call.scope;
    await putOnRecord(call, { kind: 'hold', held: heldOf(record) });
    const noticeAt = firstNoticeAt(record);
    await this.store.add({
      ...record,
      ...(conversation !== undefined && { conversation }),
      ...(noticeAt !== undefined && { noticeAt }),
    });
    return record;
  }

  /**
   * Ensures that no equal call of the conversation waits: asked for by two runs, it would be
   * approved and made twice.
   *
   * @throws {CallWaitsElsewhere} Where another run has asked for it, and may still make it.
   */
  protected async assertAskedFirst(
    { scope: { conversation } }: ReadCall,
    binding: PendingBinding,
  ): Promise<void> {
    if (conversation === undefined) return;
    const { tenant } = binding;
    for (let last: string | undefined; ;) {
      const page = await this.store.list({
        tenant,
        conversation,
        limit: PAGE,
        ...(last !== undefined && { after: last }),
      });
      for (const record of page)
        if (isOfAnotherRun(record.binding, binding) && (await this.mayBeMade(record)))
          throw new CallWaitsElsewhere(record);
      last = page.at(-1)?.id;
      if (page.length < PAGE) return;
    }
  }

  /** An answer that was not used yet is used by its run, unless that has ended. */
  private async mayBeMade(record: Pending): Promise<boolean> {
    const { answer, usedAt, binding } = record;
    if (isExpired(record) || usedAt !== undefined) return false;
    if (!answer) return true;
    const run = isUsable(answer) ? await this.runs.find(binding.runId) : undefined;
    return run !== undefined && run.status !== 'ended';
  }

  /**
   * Resolves once there is an answer while the run waited; false where none came in time.
   *
   * @throws {CallPending} Where the run does not wait.
   */
  async answered(record: Pending, { scope, request }: Asker): Promise<boolean> {
    const { id, kind, expiresAt } = record;
    await scope.emit(requestEvent(record, request.step)); // again, for a reader who comes later
    if (scope.approvals.mode === 'suspend') throw new CallPending(kind);
    const link = linkSignal(scope.signal, {
      ms: Math.max(0, Date.parse(expiresAt) - Date.now()),
      message: 'It expired without an answer.',
    });
    try {
      await untilAborted(this.store.answered(id, link.signal), link.signal);
      return true;
    } catch (error) {
      if (scope.signal.aborted) await withdraw(this.store, id);
      if (scope.signal.aborted || !link.signal.aborted) throw error;
      return false;
    } finally {
      link.release();
    }
  }

  /** Emits what became of it. */
  async tell(
    { id, kind, binding: { toolCallId } }: Pending,
    answer: PendingAnswer,
    { scope, request: { step } }: Asker,
  ): Promise<void> {
    const { decision, reason, decidedBy } = answer;
    if (kind !== 'approval')
      return scope.emit({
        type: 'pending-answer',
        step,
        kind,
        pendingId: id,
        toolCallId,
        decision,
        answeredBy: decidedBy,
      });
    if (decision === 'answer') return;
    const told = { approvalId: id, decision, ...(reason !== undefined && { reason }) };
    return scope.emit({ type: 'approval-decision', step, decision: told, decidedBy });
  }

  /** Uses a yes or a value up, once and in time; the reason where that cannot be. */
  async use(record: Pending): Promise<string | undefined> {
    if (isExpired(record)) return 'The approval had expired';
    return (await this.store.use(record.id)) ? undefined : 'The approval was used already';
  }
}

/** The place from which something is asked. */
export interface Asker {
  readonly scope: ExecutionScope;
  readonly request: Pick<PlacedCall, 'step'>;
}

const PAGE = 100;

/** Tells whether two runs ask about the same call. */
function isOfAnotherRun(one: PendingBinding, other: PendingBinding): boolean {
  const isOfOneActor = one.requesterId === other.requesterId;
  const isOneTool = one.declaredId === other.declaredId && one.instanceId === other.instanceId;
  return one.runId !== other.runId && isOfOneActor && isOneTool && one.argsHash === other.argsHash;
}

/** Makes what is asked, and keeps it under this id. */
type Making<Kind extends PendingKind> = (id: string) => Promise<PendingOf<Kind>>;

export function isOf<Kind extends PendingKind>(
  kind: Kind,
  record: { readonly kind: PendingKind },
): record is PendingOf<Kind> {
  return record.kind === kind;
}

function requestEvent(record: Pending, step: number): LoopEventBody {
  if (record.kind === 'approval')
    return { type: 'approval-request', step, approval: record.request };
  if (record.kind === 'client')
    return { type: 'pending-request', step, kind: record.kind, request: record.request };
  if (record.kind === 'rehearsal')
    return { type: 'pending-request', step, kind: record.kind, request: record.request };
  return { type: 'pending-request', step, kind: record.kind, request: record.request };
}

function heldOf(record: Pending): HeldCall {
  const { id, kind, expiresAt } = record;
  return {
    kind,
    id,
    expiresAt,
    ...(record.kind === 'approval' && { reason: record.request.reason }),
  };
}
