import type { JsonValue } from '@toolloop/protocol';
import type { AuditEvent } from '../../contracts/audit.js';
import { PendingWitness, type RefusedAnswer } from '../../contracts/pending-witness.js';
import type { Pending, PendingAnswer } from '../../contracts/pending.js';
import { AuditTrail } from './audit-trail.js';

/**
 * Records every answer to what a run asks, and every refused one, if the application keeps an
 * audit.
 */
export class PendingAudit extends PendingWitness {
  constructor(private readonly trail?: AuditTrail) {
    super();
  }

  override async decided(record: Pending, answer: PendingAnswer): Promise<void> {
    const { decision, decidedBy, decidedAt, reason, args, endorse, value } = answer;
    const worded = reason !== undefined && { reason };
    if (record.kind === 'approval')
      return this.record(record, {
        kind: 'approval-decision',
        approvalId: record.id,
        decision,
        decidedBy,
        decidedAt,
        ...worded,
        edited: args !== undefined,
        ...(endorse && { endorsed: endorse }),
      });
    const event = {
      kind: 'pending-answer',
      pendingId: record.id,
      of: record.kind,
      decision,
      answeredBy: decidedBy,
      ...worded,
    } as const;
    return this.record(record, event, value);
  }

  override async refused(
    record: Pending,
    { decidedBy, decision, code }: RefusedAnswer,
  ): Promise<void> {
    const { id, kind } = record;
    if (kind === 'approval')
      return this.record(record, {
        kind: 'approval-refusal',
        approvalId: id,
        decidedBy,
        decision,
        code,
      });
    return this.record(record, {
      kind: 'pending-refusal',
      pendingId: id,
      of: kind,
      answeredBy: decidedBy,
      decision,
      code,
    });
  }

  private async record(
    { binding, request }: Pending,
    event: AuditEvent,
    value?: JsonValue,
  ): Promise<void> {
    const { tenant, requesterId, runId, subRunId, toolCallId, declaredId, instanceId } = binding;
    const subject = {
      ...(requesterId !== undefined && { actorId: requesterId }),
      ...(subRunId === undefined ? { runId } : { runId: subRunId, rootRunId: runId }),
      toolCallId,
      step: request.step,
      declaredId,
      ...(instanceId !== undefined && { instanceId }),
    };
    await this.trail?.record({
      tenant,
      subject,
      event,
      ...(value !== undefined && { result: JSON.stringify(value) }),
    });
  }
}
