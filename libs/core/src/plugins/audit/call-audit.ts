import type { ToolInvocationRecord } from '@toolloop/protocol';
import type { AuditDraft, AuditTrail } from './audit-trail.js';
import type { Pending, PendingOf } from '../../contracts/pending.js';
import type { AuditEvent, AuditSubject } from '../../contracts/audit.js';
import type { DirectiveIntent } from '../../contracts/directive.js';
import type { Call, DecidedCall, ExecutionScope, ReadCall } from '../../call/call.js';
import type { ToolOutcome } from '../../call/outcome.js';
import { outsideOfRuns, untilRunCloses, whileRunLives } from '../../call/store-calls.js';

/**
 * Writes a call into the audit. What cannot be recorded before an effect keeps the effect from
 * happening.
 */
export class CallAudit {
  constructor(private readonly trail: AuditTrail) {}

  /**
   * Records a decision, and before it the rules that do not hold for the tool, and why.
   *
   * @throws {AuditError} Where it cannot be kept.
   */
  async decided(call: DecidedCall): Promise<void> {
    for (const event of optOutsOf(call)) await this.before(event, call);
    await this.before({ kind: 'decision', decision: call.decision }, call);
  }

  asked(call: ReadCall, { id, expiresAt, ...record }: Pending): Promise<void> {
    if (record.kind !== 'approval')
      return this.before(
        { kind: 'pending-request', pendingId: id, of: record.kind, expiresAt },
        call,
      );
    return this.before(
      { kind: 'approval-request', approvalId: id, reason: record.request.reason, expiresAt },
      call,
    );
  }

  /** Records that people are asked about a rehearsal. */
  rehearsed(
    { run, actorId }: ExecutionScope,
    { id, expiresAt, request, binding }: PendingOf<'rehearsal'>,
  ): Promise<void> {
    const { runId, tenant } = run;
    const { toolCallId, declaredId } = binding;
    const subject = {
      ...(actorId !== undefined && { actorId }),
      runId,
      toolCallId,
      declaredId,
      step: request.step,
      isRehearsal: true as const,
    };
    return whileRunLives(
      this.trail.record({
        tenant,
        subject,
        event: { kind: 'pending-request', pendingId: id, of: 'rehearsal', expiresAt },
      }),
    );
  }

  /** Records that an effect was asked for. */
  directed(call: ReadCall, { directiveId, key, type, subject }: DirectiveIntent): Promise<void> {
    return this.before(
      { kind: 'directive-requested', directiveId, details: { key, type, subject } },
      call,
    );
  }

  /**
   * Records the outcome of a call. It is too late to undo anything, so what cannot be kept now is
   * kept later: until then a durable run has it in the write that has the outcome.
   */
  async ended(call: Call, outcome: ToolOutcome): Promise<void> {
    // it was not made, which its decision tells
    if (call.rehearsal === 'previewed') return;
    const { journal } = call.scope;
    const entries = endOf(call, outcome).map((draft) => this.trail.note(draft));
    // or the stores would end with the run, and the entry with them
    const keeping = outsideOfRuns(() => this.trail.keep(entries, journal));
    await untilRunCloses('An entry of the audit', keeping).catch(() =>
      journal ? this.trail.owe(entries, journal) : undefined,
    );
  }

  /**
   * Other calls of the tenant have their turns first, for which a run that has ended does not wait.
   */
  private before(event: AuditEvent, call: ReadCall): Promise<void> {
    const { tool, input } = call;
    return whileRunLives(
      this.trail.record({
        ...draftOf(event, call),
        arguments: { text: input.canonical, hidden: tool.input.hidden },
      }),
    );
  }
}

function endOf(call: Call, { record, content }: ToolOutcome): readonly AuditDraft[] {
  const { decision } = record;
  const draft = draftOf(toOutcomeEvent(record), call);
  const end = record.status === 'succeeded' ? { ...draft, result: joinTexts(content) } : draft;
  // Of what policy denies there was nothing to record before.
  return decision?.kind === 'deny' ? [draftOf({ kind: 'decision', decision }, call), end] : [end];
}

function toOutcomeEvent(record: ToolInvocationRecord): AuditEvent {
  const { status, error, durationMs } = record;
  if (status === 'denied' && error) return { kind: 'denied', code: error.code };
  const code = error && { code: error.code };
  if (error?.code === 'unknown_outcome')
    return { kind: 'outcome', status: 'unknown', durationMs, ...code };
  return {
    kind: 'outcome',
    status: tookPlace(record) ? 'succeeded' : 'failed',
    durationMs,
    ...code,
  };
}

/** A call that was answered with an equal one that waits was not made. */
function tookPlace({ status, error, effect, pendingId }: ToolInvocationRecord): boolean {
  if (pendingId !== undefined) return false;
  return status === 'succeeded' || (error?.code === 'invalid_output' && effect !== 'read_only');
}

/** With the arguments as they were sent. */
function draftOf(event: AuditEvent, call: Call): AuditDraft {
  return {
    tenant: call.scope.run.tenant,
    subject: subjectOf(call),
    event,
    arguments: { text: call.request.call.arguments },
  };
}

function subjectOf({ request, scope, tool }: Call): AuditSubject {
  return {
    ...(scope.actorId !== undefined && { actorId: scope.actorId }),
    runId: scope.run.runId,
    ...(scope.run.path?.[0] !== undefined && { rootRunId: scope.run.path[0] }),
    toolCallId: request.call.toolCallId,
    step: request.step,
    ...(tool ? { declaredId: tool.spec.declaredId } : { calledId: request.call.name }),
    ...(tool && !tool.origin.trusted && { schemaHash: tool.spec.schemaHash }),
    ...(tool?.entity && { instanceId: tool.entity.instanceId }),
    ...(scope.rehearsal && { isRehearsal: true as const }),
  };
}

function joinTexts(content: ToolOutcome['content']): string {
  return typeof content === 'string'
    ? content
    : content.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n');
}

const REPLACED =
  'The run knows its actor: guards that find out who asks by a header were not asked.';

const NOTHING: readonly AuditEvent[] = [];

function optOutsOf({
  tool: { allowReserved, patterns, replacedGuards },
  scope: { vouchedFor },
}: ReadCall): readonly AuditEvent[] {
  if (!allowReserved && !patterns && !replacedGuards && vouchedFor === undefined) return NOTHING;
  return [
    ...(vouchedFor === undefined
      ? []
      : [{ kind: 'opt-out' as const, names: ['client'], reason: vouchedFor }]),
    ...(allowReserved
      ? [{ kind: 'opt-out' as const, names: allowReserved.arguments, reason: allowReserved.reason }]
      : []),
    ...(patterns
      ? [{ kind: 'opt-out' as const, names: ['patterns'], reason: patterns.reason }]
      : []),
    ...(replacedGuards
      ? [{ kind: 'opt-out' as const, names: replacedGuards, reason: REPLACED }]
      : []),
  ];
}
