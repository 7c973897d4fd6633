import { Injectable, Optional } from '@nestjs/common';
import { ApprovalWitness, type ApprovalAnswer, type ApprovalRecord, type RefusedDecision } from '../protocol/approval.js';
import type { AuditEvent } from '../protocol/audit.js';
import { AuditTrail } from './audit.trail.js';

/** Records every decision on an approval, and every attempt at one, where the application keeps an audit. */
@Injectable()
export class ApprovalAudit extends ApprovalWitness {
  constructor(@Optional() private readonly trail?: AuditTrail) {
    super();
  }

  override async decided(record: ApprovalRecord, answer: ApprovalAnswer): Promise<void> {
    const { decision, decidedBy, decidedAt, reason, args } = answer;
    const said = { decision, decidedBy, decidedAt, ...(reason !== undefined && { reason }), edited: args !== undefined };
    await this.record(record, { kind: 'approval-decision', approvalId: record.request.approvalId, ...said });
  }

  override async refused(record: ApprovalRecord, attempt: RefusedDecision): Promise<void> {
    await this.record(record, { kind: 'approval-refusal', approvalId: record.request.approvalId, ...attempt });
  }

  private async record({ binding, request }: ApprovalRecord, event: AuditEvent): Promise<void> {
    const { tenant, requesterId, runId, subRunId, toolCallId, declaredId, instanceId } = binding;
    const subject = {
      ...(requesterId !== undefined && { actorId: requesterId }),
      ...(subRunId === undefined ? { runId } : { runId: subRunId, rootRunId: runId }),
      toolCallId,
      step: request.step,
      declaredId,
      ...(instanceId !== undefined && { instanceId }),
    };
    await this.trail?.record({ tenant, subject, event });
  }
}
