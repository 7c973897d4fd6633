import { Injectable, Optional } from '@nestjs/common';
import type { ToolInvocationRecord } from '@toolloop/protocol';
import { outsideOfRuns, untilRunCloses, whileRunLives } from '../../call/store-calls.js';
import type { AuditEvent, AuditSubject } from '../../contracts/audit.js';
import type {
  CallOutcome,
  CheckedCall,
  HeldCall,
  OpenedCall,
  PlaceInRun,
  RecordEntry,
} from '../../plugin/call-points.js';
import type { Plugin } from '../../plugin/plugin.js';
import type { RunView } from '../../plugin/run-view.js';
import { ToolLoopPlugin } from '../../plugin/tool-loop-plugin.decorator.js';
import { type AuditDraft, AuditTrail } from './audit-trail.js';

/**
 * Writes calls into the audit. What cannot be recorded before an effect keeps the effect from
 * happening.
 */
@Injectable()
@ToolLoopPlugin({ name: 'audit', isBounded: true })
export class CallAudit implements Plugin {
  constructor(@Optional() private readonly trail?: AuditTrail) {}

  open(): boolean {
    return this.trail !== undefined;
  }

  /**
   * Records a decision, and before it the rules that do not hold for the tool, and why; and that a
   * call waits, or takes effect later.
   *
   * @throws {AuditError} if it cannot be kept
   */
  async record(entry: RecordEntry, run: RunView, call?: CheckedCall): Promise<void> {
    for (const event of eventsOf(entry, run, call))
      await this.before(
        call
          ? draftBefore(event, call)
          : { tenant: run.tenant, subject: subjectAt(entry, run), event },
      );
  }

  /**
   * Records the outcome of a call. It is too late to undo anything, so what cannot be kept now is
   * kept later: until then a durable run has it in the write that has the outcome.
   */
  async concluded(call: OpenedCall, outcome: CallOutcome): Promise<void> {
    const { trail } = this;
    // it was not made, which its decision tells; or its run does not know more
    if (!trail || outcome.record.rehearsal === 'previewed' || outcome.isPending) return;
    const journal = call.run.facts.journal?.();
    const entries = endOf(call, outcome).map((draft) => trail.note(draft));
    // or the stores would end with the run, and the entry with them
    const keeping = outsideOfRuns(() => trail.keep(entries, journal));
    await untilRunCloses('An entry of the audit', keeping).catch(() =>
      journal ? trail.owe(entries, journal) : undefined,
    );
  }

  /**
   * Other calls of the tenant have their turns first, for which a run that has ended does not wait.
   */
  private async before(draft: AuditDraft): Promise<void> {
    if (this.trail) await whileRunLives(this.trail.record(draft));
  }
}

function eventsOf(
  entry: RecordEntry,
  { facts: { vouchedFor } }: RunView,
  call: CheckedCall | undefined,
): readonly AuditEvent[] {
  switch (entry.kind) {
    case 'decision':
      return [
        ...(call ? optOutsOf(call, vouchedFor) : []),
        { kind: 'decision', decision: entry.decision },
      ];
    case 'hold':
      return [holdEvent(entry.held)];
    case 'later':
      return [{ kind: 'directive-requested', directiveId: entry.id, details: entry.details }];
  }
}

function holdEvent({ kind, id, expiresAt, reason = '' }: HeldCall): AuditEvent {
  return kind === 'approval'
    ? { kind: 'approval-request', approvalId: id, reason, expiresAt }
    : { kind: 'pending-request', pendingId: id, of: kind, expiresAt };
}

function endOf(call: OpenedCall, { record, content }: CallOutcome): readonly AuditDraft[] {
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

/** With the arguments as they were checked. */
function draftBefore(event: AuditEvent, call: CheckedCall): AuditDraft {
  const { tool, input } = call;
  return {
    ...draftOf(event, call),
    arguments: { text: input.canonical, hidden: tool.input.hidden },
  };
}

/** With the arguments as they were sent. */
function draftOf(event: AuditEvent, call: OpenedCall): AuditDraft {
  return {
    tenant: call.run.tenant,
    subject: subjectOf(call),
    event,
    arguments: { text: call.request.call.arguments },
  };
}

function subjectOf({ request, run, tool }: OpenedCall): AuditSubject {
  const { actorId, context, mode } = run.facts;
  return {
    ...(actorId !== undefined && { actorId }),
    runId: run.runId,
    ...(context.path?.[0] !== undefined && { rootRunId: context.path[0] }),
    toolCallId: request.call.toolCallId,
    step: request.step,
    ...(tool ? { declaredId: tool.spec.declaredId } : { calledId: request.call.name }),
    ...(tool && !tool.origin.trusted && { schemaHash: tool.spec.schemaHash }),
    ...(tool?.entity && { instanceId: tool.entity.instanceId }),
    ...(mode === 'dry' && { isRehearsal: true as const }),
  };
}

/** An entry about the run itself, at one of its calls if it says so. */
function subjectAt(entry: RecordEntry, { runId, facts: { actorId, mode } }: RunView): AuditSubject {
  const at: PlaceInRun | undefined = entry.kind === 'hold' ? entry.at : undefined;
  return {
    ...(actorId !== undefined && { actorId }),
    runId,
    ...at,
    ...(mode === 'dry' && { isRehearsal: true as const }),
  };
}

function joinTexts(content: CallOutcome['content']): string {
  return typeof content === 'string'
    ? content
    : content.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n');
}

const REPLACED =
  'The run knows its actor: guards that find out who asks by a header were not asked.';

const NOTHING: readonly AuditEvent[] = [];

function optOutsOf(
  { tool: { allowReserved, patterns, replacedGuards } }: CheckedCall,
  vouchedFor: string | undefined,
): readonly AuditEvent[] {
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
