import { randomUUID } from 'node:crypto';
import { Injectable } from '@nestjs/common';
import { isExpired } from '../approval/approval.service.js';
import { withdrawApproval } from '../approval/withdrawn-approvals.js';
import {
  ApprovalStore,
  type ApprovalAnswer,
  type ApprovalBinding,
  type ApprovalRecord,
  type ApprovalRequest,
} from '../protocol/approval.js';
import type { JsonObject } from '../protocol/json.js';
import type { ApprovalTerms, Decision } from '../protocol/policy.js';
import type { Tool } from '../protocol/tool.js';
import { canonicalDeclaration, sha256 } from '../schema/canonical-json.js';
import { ApprovedEdit } from './approved.edit.js';
import type { ReadArguments } from './argument.reader.js';
import { CallAudit } from './call.audit.js';
import { CallFailure } from './call.failure.js';
import { CallPending } from './call.pending.js';
import { CallPreview } from './call.preview.js';
import { directiveOf } from './directive.requests.js';
import type { CallProgress, ExecutionScope } from './execution.scope.js';
import { linkSignal, untilAborted } from './interruption.js';
import { PolicyGate } from './policy.gate.js';
import { shownArguments } from './tool.outcome.js';

/** How long an approval waits where no rule says otherwise: a day. */
const EXPIRES_AFTER_MS = 86_400_000;

/** What an approval is about. */
interface JudgedCall {
  readonly tool: Tool;
  readonly input: ReadArguments;
  readonly decision: Decision;
  readonly progress: CallProgress;
}

/** The second half of stage 4: policy's word on this very call, and where it wants that a person's yes to it. */
@Injectable()
export class ApprovalGate {
  constructor(
    private readonly policy: PolicyGate,
    private readonly store: ApprovalStore,
    private readonly edits: ApprovedEdit,
    private readonly preview: CallPreview,
    private readonly audit: CallAudit,
  ) {}

  /**
   * The input to go on with, which is another where the approver changed it. Throws `policy_denied`, `budget_exceeded` or `approval_denied`, and
   * `CallPending` where the run waits for an answer.
   */
  authorise(tool: Tool, input: ReadArguments, progress: CallProgress): ReadArguments | Promise<ReadArguments> {
    const decision = this.policy.judge(tool, input.args, progress);
    const { request, scope } = progress;
    const wasAsked = scope.approvals.approvalOf(request.call.toolCallId) !== undefined;
    const isLetIn = decision.kind === 'allow' && !request.isHeld && !wasAsked;
    if (isLetIn) this.policy.charge(tool, input.args, scope); // in the turn of the decision: parallel calls must see it
    const recording = this.audit.decided(tool, input, progress);
    if (isLetIn) return recording ? recording.then(() => input) : input;
    return this.decided({ tool, input, decision, progress }, recording);
  }

  private async decided(call: JudgedCall, recording: Promise<void> | undefined): Promise<ReadArguments> {
    const { tool, input, decision, progress } = call;
    await recording;
    const final = decision.kind === 'allow' ? await this.honoured(input, progress) : await this.approved(call);
    this.policy.charge(tool, final.args, progress.scope);
    return final;
  }

  /** Somebody may have been asked about this very call: what policy says by now takes no answer back, and gives none. */
  private async honoured(input: ReadArguments, { request, scope }: CallProgress): Promise<ReadArguments> {
    if (request.isHeld) throw new CallPending();
    const approvalId = scope.approvals.approvalOf(request.call.toolCallId);
    const record = approvalId === undefined ? undefined : await this.store.find(approvalId);
    if (record?.answer?.decision === 'deny') throw CallFailure.of('approval_denied', denialText(record.answer));
    if (record && !record.answer && !isExpired(record)) throw new CallPending(approvalId);
    return input;
  }

  private async approved(call: JudgedCall): Promise<ReadArguments> {
    const { tool, input, decision, progress } = call;
    const { approvals } = progress.scope;
    if (approvals.covers(decision)) return input;
    if (approvals.standingFor(tool.spec.declaredId, ruleOf(decision)) !== undefined) {
      if (progress.request.isHeld) throw new CallPending();
      return input;
    }
    const asked = await this.askedBefore(call);
    if (!asked && progress.standing) {
      if (progress.request.isHeld) throw new CallPending();
      return input; // it is answered with what was asked for before
    }
    const whoever = nobodyFor(progress.scope);
    if (whoever !== undefined)
      throw CallFailure.of('approval_denied', `The call was not made. It needs a person's approval: ${decision.reason} ${whoever}`);
    const record = asked ?? (await this.ask(call));
    const answer = record.answer ?? (await this.answerTo(record, progress));
    if (!answer) return this.authoriseAgain(call);
    if (progress.request.isHeld) throw new CallPending(record.request.approvalId);
    return this.use(record, answer, call);
  }

  /** What policy and the tool itself say may have changed while the run waited, and so may the entity it belongs to. */
  private async authoriseAgain({ tool, input, progress }: JudgedCall): Promise<ReadArguments> {
    const admitted = await this.policy.admit(tool, progress);
    return this.authorise(admitted, input, progress);
  }

  /** What this call asked for already, as long as all of it is the same. */
  private async askedBefore(call: JudgedCall): Promise<ApprovalRecord | undefined> {
    const { request, scope } = call.progress;
    const approvalId = scope.approvals.approvalOf(request.call.toolCallId);
    const record = approvalId === undefined ? undefined : await this.store.find(approvalId);
    if (!record || (!record.answer && isExpired(record))) return undefined; // nobody can answer it any more
    const isSame = textOf(record.binding, record.terms) === textOf(bindingOf(call), call.decision.approval ?? []);
    return isSame ? record : undefined;
  }

  private async ask(call: JudgedCall): Promise<ApprovalRecord> {
    const { tool, input, decision, progress } = call;
    const { scope, request } = progress;
    const { approval: terms = [] } = decision;
    const createdAt = new Date();
    const expiresAfter = Math.min(...(terms.length > 0 ? terms : [{}]).map(expiryOf));
    const preview = await this.preview.of(tool, input, progress);
    const record: ApprovalRecord = {
      request: {
        approvalId: randomUUID(),
        ...whoWaits(scope),
        step: request.step,
        toolCallId: request.call.toolCallId,
        tool: tool.spec.id,
        declaredId: tool.spec.declaredId,
        ...(tool.entity && { instanceId: tool.entity.instanceId }),
        args: shownArguments(input.args, tool.input.hidden),
        reason: decision.reason,
        ...(preview && { preview }),
        expiresAt: new Date(createdAt.getTime() + expiresAfter).toISOString(),
        mayEdit: terms.length > 0 && terms.every(({ mayEdit }) => mayEdit),
        mayRemember: terms.length > 0 && terms.every(({ mayRemember }) => mayRemember),
      },
      binding: bindingOf(call),
      terms,
      rule: decision.rule,
      createdAt: createdAt.toISOString(),
      isUsed: false,
    };
    await this.audit.asked(tool, input, record, progress);
    await this.store.add(record);
    scope.approvals.ask(request.call.toolCallId, record.request.approvalId);
    return record;
  }

  /** Undefined once somebody has answered while the run waited. Throws `CallPending` where it does not wait. */
  private async answerTo({ request: approval }: ApprovalRecord, { scope, request }: CallProgress): Promise<ApprovalAnswer | undefined> {
    const { approvalId, expiresAt } = approval;
    await scope.emit({ type: 'approval-request', step: request.step, approval }); // again for whoever comes to watch later
    if (scope.approvals.mode === 'suspend') throw new CallPending(approvalId);
    const link = linkSignal(scope.signal, { ms: Math.max(0, Date.parse(expiresAt) - Date.now()), message: 'Nobody answered in time.' });
    try {
      await untilAborted(this.store.answered(approvalId, link.signal), link.signal);
      return undefined;
    } catch (error) {
      if (scope.signal.aborted) await withdrawApproval(this.store, approvalId);
      if (scope.signal.aborted || !link.signal.aborted) throw error;
      throw CallFailure.of('approval_denied', 'Nobody approved the call in time, so it was not made.');
    } finally {
      link.release();
    }
  }

  /** An approval is used once, and in time. */
  private async use(record: ApprovalRecord, answer: ApprovalAnswer, call: JudgedCall): Promise<ReadArguments> {
    const { tool, decision, progress } = call;
    const { approvalId } = record.request;
    const { decision: verdict, reason, decidedBy } = answer;
    const told = { approvalId, decision: verdict, ...(reason !== undefined && { reason }) };
    await progress.scope.emit({ type: 'approval-decision', step: progress.request.step, decision: told, decidedBy });
    if (verdict === 'deny') throw CallFailure.of('approval_denied', denialText(answer));
    const take = async (): Promise<void> => {
      if (!isTakenUp(record, progress)) await this.takeOnce(record);
      if (answer.remember) progress.scope.approvals.remember(tool.spec.declaredId, ruleOf(decision), approvalId);
    };
    if (directiveOf(tool, progress)) progress.takeApproval = take;
    else await take();
    return this.inputOf(record, answer, call);
  }

  private async takeOnce(record: ApprovalRecord): Promise<void> {
    if (isExpired(record)) throw CallFailure.of('approval_denied', 'The approval had expired, so the call was not made.');
    if (!(await this.store.use(record.request.approvalId)))
      throw CallFailure.of('approval_denied', 'The approval was used already, so the call was not made.');
  }

  private inputOf(
    record: ApprovalRecord,
    answer: ApprovalAnswer,
    { tool, input, progress }: JudgedCall,
  ): ReadArguments | Promise<ReadArguments> {
    return answer.args ? this.edits.read(tool, withHidden(answer.args, input.args, tool.input.hidden), progress, record) : input;
  }
}

/** A sub-run does not wait by itself: the root run does, and is resumed. */
function whoWaits({ run: { runId, path } }: ExecutionScope): Pick<ApprovalRequest, 'runId' | 'path'> {
  return { runId: path?.[0] ?? runId, ...(path && { path }) };
}

/** Whether a process that is gone had used it for this very call. What became of the call then, the journal knows. */
function isTakenUp({ isUsed }: ApprovalRecord, { request }: CallProgress): boolean {
  return isUsed && request.mayHaveRun === true;
}

function expiryOf({ expiresAfterMs = EXPIRES_AFTER_MS }: ApprovalTerms): number {
  return expiresAfterMs;
}

/** What the approver could not see they cannot have changed. */
function withHidden(edited: JsonObject, sent: JsonObject, hidden: readonly string[]): JsonObject {
  const changed = Object.entries(edited).filter(([name]) => !hidden.includes(name));
  return Object.fromEntries([...changed, ...Object.entries(sent).filter(([name]) => hidden.includes(name))]);
}

/** Why nobody can approve a call of this run; undefined where somebody can. */
function nobodyFor({ approvals, actorId }: ExecutionScope): string | undefined {
  if (approvals.mode === 'deny') return 'Nobody can give it in this run.';
  // Nobody could go on with the run, and where the policy names no role nobody could approve.
  return actorId === undefined ? 'The actor of this run has no id, so nobody can give it.' : undefined;
}

function denialText({ reason }: ApprovalAnswer): string {
  return `A person denied this call.${reason === undefined ? '' : ` They said: ${reason}`}`;
}

function bindingOf({ tool, input, decision, progress: { scope, request } }: JudgedCall): ApprovalBinding {
  return {
    tenant: scope.run.tenant,
    runId: scope.run.path?.[0] ?? scope.run.runId,
    ...(scope.run.path && { subRunId: scope.run.runId }),
    requesterId: scope.actorId,
    toolCallId: request.call.toolCallId,
    declaredId: tool.spec.declaredId,
    instanceId: tool.entity?.instanceId,
    argsHash: sha256(input.canonical),
    policyVersion: decision.policyVersion,
  };
}

function textOf(binding: ApprovalBinding, terms: readonly ApprovalTerms[]): string {
  return canonicalDeclaration({ binding, terms });
}

/** The rule of one policy: that of another version is another. */
function ruleOf({ rule, policyVersion }: Decision): string {
  return `${policyVersion} ${rule}`;
}
