import { Injectable, Logger, Optional } from '@nestjs/common';
import { AuditTrail } from '../../audit/audit.trail.js';
import type { DirectiveEventType, DirectiveRecord } from '../../protocol/directive.js';
import type { JsonObject } from '../../protocol/json.js';

/** What becomes of directives, in the audit, where the application keeps one. That one was asked for is recorded with the call. */
@Injectable()
export class DirectiveAudit {
  private readonly logger = new Logger(DirectiveAudit.name);

  constructor(@Optional() private readonly trail?: AuditTrail) {}

  /** Before it happens. Rejects with `AuditError` when it cannot be kept: then it must not happen. */
  async record(
    event: DirectiveEventType | 'refused',
    { intent, task, epoch, attempts }: DirectiveRecord,
    more: JsonObject = {},
  ): Promise<void> {
    const { tenant, directiveId, authority, call, correlationId } = intent;
    const { runId, toolCallId, step, declaredId, instanceId } = call;
    const subject = {
      actorId: authority.actorId,
      runId,
      toolCallId,
      step,
      declaredId,
      ...(instanceId !== undefined && { instanceId }),
      correlationId,
    };
    const details = { task, epoch, attempts, ...more };
    await this.trail?.record({ tenant, subject, event: { kind: `directive-${event.replaceAll('_', '-')}`, directiveId, details } });
  }

  /** After it happened: nothing can be undone, so what cannot be kept is logged. */
  async note(event: DirectiveEventType, record: DirectiveRecord, more?: JsonObject): Promise<void> {
    try {
      await this.record(event, record, more);
    } catch (error) {
      this.logger.error(`The outcome of the directive ${record.intent.directiveId} is not in the audit (${event}).`, error);
    }
  }
}
