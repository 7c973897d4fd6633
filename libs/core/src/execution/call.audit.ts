import { Injectable, Logger, Optional } from '@nestjs/common';
import { untilRunCloses, whileRunLives } from './store-calls.js';
import { AuditTrail, type AuditDraft } from '../audit/audit.trail.js';
import type { ApprovalRecord } from '../protocol/approval.js';
import type { AuditEvent, AuditSubject } from '../protocol/audit.js';
import type { DirectiveIntent } from '../protocol/directive.js';
import type { ToolInvocationRecord } from '../protocol/tool-invocation-record.js';
import type { ReservedAllowance, Tool } from '../protocol/tool.js';
import type { ReadArguments } from './argument.reader.js';
import type { CallProgress, ToolOutcome } from './execution.scope.js';

/** A call whose arguments are known. */
interface AuditedCall {
  readonly tool: Tool;
  readonly input: ReadArguments;
}

/** What of a call goes into the audit, where the application keeps one. What cannot be recorded before an effect keeps the effect from happening. */
@Injectable()
export class CallAudit {
  private readonly logger = new Logger(CallAudit.name);

  constructor(@Optional() private readonly trail?: AuditTrail) {}

  /** Rejects with `AuditError` when it cannot be kept. */
  decided(tool: Tool, input: ReadArguments, progress: CallProgress): Promise<void> | undefined {
    const { decision } = progress;
    return decision && this.before(draftOf({ kind: 'decision', decision }, progress, { tool, input }));
  }

  /** That the tool's arguments may hold reserved names, and why. */
  async optedOut({ arguments: names, reason }: ReservedAllowance, call: AuditedCall, progress: CallProgress): Promise<void> {
    await this.before(draftOf({ kind: 'opt-out', names, reason }, progress, call));
  }

  async asked(tool: Tool, input: ReadArguments, { request }: ApprovalRecord, progress: CallProgress): Promise<void> {
    const { approvalId, reason, expiresAt } = request;
    await this.before(draftOf({ kind: 'approval-request', approvalId, reason, expiresAt }, progress, { tool, input }));
  }

  /** That an effect was asked for. */
  async directed({ directiveId, key, type, subject }: DirectiveIntent, call: AuditedCall, progress: CallProgress): Promise<void> {
    const event = { kind: 'directive-requested', directiveId, details: { key, type, subject } } as const;
    await this.before(draftOf(event, progress, call));
  }

  /** The last word on a call. It is too late to undo anything, so what cannot be kept is logged. */
  ended(progress: CallProgress, outcome: ToolOutcome): Promise<void> | undefined {
    return this.trail && untilRunCloses('An entry of the audit', this.recordEnd(this.trail, progress, outcome)).catch(() => undefined);
  }

  /** What must be kept before anything happens. Other calls of the tenant have their turns first, which a run that has ended does not wait for. */
  private before(draft: AuditDraft): Promise<void> | undefined {
    return this.trail && whileRunLives(this.trail.record(draft));
  }

  private async recordEnd(trail: AuditTrail, progress: CallProgress, { record, content }: ToolOutcome): Promise<void> {
    try {
      const { decision } = record;
      // Of what policy denies there was nothing to record before.
      if (decision?.kind === 'deny') await trail.record(draftOf({ kind: 'decision', decision }, progress));
      const draft = draftOf(outcomeOf(record), progress);
      await trail.record(record.status === 'succeeded' ? { ...draft, result: textOf(content) } : draft);
    } catch (error) {
      this.logger.error(`The outcome of ${record.id} is not in the audit (run ${progress.scope.run.runId}).`, error);
    }
  }
}

function outcomeOf({ status, error, durationMs, effect }: ToolInvocationRecord): AuditEvent {
  if (status === 'denied' && error) return { kind: 'denied', code: error.code };
  const code = error && { code: error.code };
  if (error?.code === 'unknown_outcome') return { kind: 'outcome', status: 'unknown', durationMs, ...code };
  const tookPlace = status === 'succeeded' || (error?.code === 'invalid_output' && effect !== 'read_only');
  return { kind: 'outcome', status: tookPlace ? 'succeeded' : 'failed', durationMs, ...code };
}

function draftOf(event: AuditEvent, progress: CallProgress, call?: AuditedCall): AuditDraft {
  const { run } = progress.scope;
  const draft = { tenant: run.tenant, subject: subjectOf(progress), event };
  const text = call ? { text: call.input.canonical, hidden: call.tool.input.hidden } : { text: progress.request.call.arguments };
  return { ...draft, arguments: text };
}

function subjectOf({ request, scope, tool }: CallProgress): AuditSubject {
  return {
    ...(scope.actorId !== undefined && { actorId: scope.actorId }),
    runId: scope.run.runId,
    ...(scope.run.path?.[0] !== undefined && { rootRunId: scope.run.path[0] }),
    toolCallId: request.call.toolCallId,
    step: request.step,
    ...(tool ? { declaredId: tool.spec.declaredId } : { calledId: request.call.name }),
    ...(tool?.entity && { instanceId: tool.entity.instanceId }),
  };
}

function textOf(content: ToolOutcome['content']): string {
  return typeof content === 'string' ? content : content.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n');
}
