import type { DirectiveEventType, JsonObject } from '@toolloop/protocol';
import type { DirectiveRecord } from '../../contracts/directive.js';
import { type AuditDraft, AuditTrail } from '../audit/audit-trail.js';

/**
 * Writes what happens to directives into the audit, where the application keeps one. That one was
 * asked for is recorded with the call.
 */
export class DirectiveAudit {
  constructor(private readonly trail: AuditTrail | undefined) {}

  /**
   * Before it happens. Rejects with `AuditError` when it cannot be kept: then it must not happen.
   */
  async record(
    event: DirectiveEventType | 'refused',
    record: DirectiveRecord,
    more?: JsonObject,
  ): Promise<void> {
    await this.trail?.record(draftOf(event, record, more));
  }

  /** After it happened: nothing can be undone, so what cannot be kept now is kept later. */
  async note(event: DirectiveEventType, record: DirectiveRecord, more?: JsonObject): Promise<void> {
    await this.trail?.after(draftOf(event, record, more));
  }
}

function draftOf(
  event: DirectiveEventType | 'refused',
  {
    intent,
    task,
    epoch,
    attempts,
  }: Pick<DirectiveRecord, 'intent' | 'task' | 'epoch' | 'attempts'>,
  more: JsonObject = {},
): AuditDraft {
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
  return {
    tenant,
    subject,
    event: { kind: `directive-${event.replaceAll('_', '-')}`, directiveId, details },
  };
}
