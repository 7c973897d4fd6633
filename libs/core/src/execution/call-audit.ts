import { Injectable, Logger, Optional } from '@nestjs/common';
import type { JsonObject, JsonValue, ToolInvocationRecord } from '@toolloop/protocol';
import { type AuditDraft, AuditTrail } from '../audit/audit-trail.js';
import type { ApprovalRecord } from '../contracts/approval.js';
import type { AuditEvent, AuditSubject } from '../contracts/audit.js';
import type { DirectiveIntent } from '../contracts/directive.js';
import type { ReservedAllowance, Tool } from '../contracts/tool.js';
import { CallFailure } from './call-failure.js';
import type { CallProgress, ToolOutcome } from './call.js';
import { shownArguments } from './outcome.js';
import type { ReadArguments } from './read-arguments.js';
import { untilRunCloses, whileRunLives } from './store-calls.js';

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

/** As much of a name that a model made up as is worth a log. */
const MOST_OF_A_NAME = 64;

/**
 * One line when a call is let in and one when it has ended, for tools that log, and one for each attempt that failed where there may be several. None holds
 * a result or a text that the model reads; what an attempt threw is the last detail of its line.
 */
export class CallLog {
  private readonly logger = new Logger('ToolCall');

  started(tool: Tool, progress: CallProgress): void {
    const { options, args } = progress;
    const shown = options.logArguments &&
      args && { arguments: cutArguments(shownArguments(args, tool.input.hidden), options.truncateLogs) };
    this.write('debug', 'Tool call started', progress, { ...shown });
  }

  attemptFailed(
    progress: CallProgress,
    { number, code, error }: { readonly number: number; readonly code: string; readonly error: unknown },
  ): void {
    this.write('warn', 'Tool call attempt failed', progress, { attempt: number, code }, error instanceof CallFailure ? error.cause : error);
  }

  ended(progress: CallProgress, { status, durationMs, error, attempt }: ToolInvocationRecord): void {
    const level = status === 'succeeded' ? 'debug' : 'warn';
    const facts = { durationMs, status, ...(attempt > 1 && { attempt }), ...(error && { code: error.code }) };
    this.write(level, 'Tool call ended', progress, facts);
  }

  /** A logger that fails must not turn a call that took place into one that did not. */
  private write(
    level: 'debug' | 'warn',
    message: string,
    { options, request, scope, tool }: CallProgress,
    facts: JsonObject,
    ...details: readonly unknown[]
  ): void {
    if (!options.logging) return;
    const name = tool?.spec.declaredId ?? request.call.name.slice(0, MOST_OF_A_NAME);
    const { toolCallId } = request.call;
    try {
      this.logger[level](message, { runId: scope.run.runId, step: request.step, toolCallId, tool: name, ...facts }, ...details);
    } catch {
      // there is nowhere to tell it
    }
  }
}

function cutArguments(args: JsonObject, mostCharacters: number): JsonObject {
  return Object.fromEntries(Object.entries(args).map(([name, value]) => [cut(name, MOST_OF_A_NAME), cutValue(value, mostCharacters)]));
}

/** Numbers, booleans and null are short as they are; lists and objects are logged as JSON. */
function cutValue(value: JsonValue, mostCharacters: number): JsonValue {
  if (typeof value === 'string') return cut(value, mostCharacters);
  return typeof value === 'object' && value !== null ? cut(JSON.stringify(value), mostCharacters) : value;
}

function cut(text: string, mostCharacters: number): string {
  return text.length > mostCharacters ? `${text.slice(0, mostCharacters)}…` : text;
}
