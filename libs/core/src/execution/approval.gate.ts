import { Injectable } from '@nestjs/common';
import { BoundedStores } from './bounded.stores.js';
import { isExpired } from '../approval/approval.service.js';
import type { ApprovalStore, ApprovalAnswer, ApprovalRecord } from '../protocol/approval.js';
import type { JsonObject } from '../protocol/json.js';
import type { Decision } from '../protocol/policy.js';
import type { Tool } from '../protocol/tool.js';
import { ApprovedEdit } from './approved.edit.js';
import type { ReadArguments } from './argument.reader.js';
import { AskedApprovals, nobodyFor, type ApprovalQuestion, type AskedCall } from './asked.approvals.js';
import { CallAudit } from './call.audit.js';
import { CallFailure } from './call.failure.js';
import { CallPending } from './call.pending.js';
import { directiveOf } from './directive.requests.js';
import type { CallProgress } from './execution.scope.js';
import { PolicyGate } from './policy.gate.js';

/** A call that policy has decided on. */
interface JudgedCall extends AskedCall {
  readonly decision: Decision;
}

/** The second half of stage 4: policy's word on this very call, and where it wants that a person's yes to it. */
@Injectable()
export class ApprovalGate {
  private readonly store: ApprovalStore;

  constructor(
    private readonly policy: PolicyGate,
    stores: BoundedStores,
    private readonly edits: ApprovedEdit,
    private readonly asked: AskedApprovals,
    private readonly audit: CallAudit,
  ) {
    this.store = stores.approvals;
  }

  /**
   * The input to go on with, which is another where the approver changed it. Throws `policy_denied`, `budget_exceeded` or `approval_denied`, and
   * `CallPending` where the run waits for an answer.
   */
  authorise(tool: Tool, input: ReadArguments, progress: CallProgress): ReadArguments | Promise<ReadArguments> {
    const decision = this.policy.judge(tool, input.args, progress);
    const { request, scope } = progress;
    const wasAsked = scope.approvals.approvalOf(request.call.toolCallId) !== undefined;
    const isLetIn = decision.kind === 'allow' && !request.isHeld && !wasAsked;
    if (isLetIn) this.policy.charge(tool, input.args, progress); // in the turn of the decision: parallel calls must see it
    const recording = this.audit.decided(tool, input, progress);
    if (isLetIn) return recording ? recording.then(() => input) : input;
    return this.decided({ tool, input, decision, progress }, recording);
  }

  private async decided(call: JudgedCall, recording: Promise<void> | undefined): Promise<ReadArguments> {
    const { tool, input, decision, progress } = call;
    await recording;
    const final = decision.kind === 'allow' ? await this.honoured(input, progress) : await this.approved(call);
    if (!final) return this.authoriseAgain(call); // which counts it
    this.policy.charge(tool, final.args, progress);
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

  /** The input that a person said yes to; undefined where one answered while the run waited. */
  private async approved(call: JudgedCall): Promise<ReadArguments | undefined> {
    const { input, decision, progress } = call;
    if (progress.scope.approvals.covers(decision)) return input;
    const asked = await this.askedBefore(call);
    if (isSettled(call, asked)) {
      if (progress.request.isHeld) throw new CallPending();
      return input;
    }
    const whoever = nobodyFor(progress.scope);
    if (whoever !== undefined)
      throw CallFailure.of('approval_denied', `The call was not made. It needs a person's approval: ${decision.reason} ${whoever}`);
    const record = asked ?? (await this.ask(call));
    if (!record.answer) {
      const isAnswered = !isExpired(record) && (await this.asked.answered(record, progress));
      if (isAnswered) return undefined;
      throw CallFailure.of('approval_denied', 'Nobody approved the call in time, so it was not made.');
    }
    if (progress.request.isHeld) throw new CallPending(record.request.approvalId);
    return this.use(record, record.answer, call);
  }

  /** What policy and the tool itself say may have changed while the run waited, and so may the entity it belongs to. */
  async authoriseAgain({ tool, input, progress }: AskedCall): Promise<ReadArguments> {
    const admitted = await this.policy.admit(tool, progress);
    return this.authorise(admitted, input, progress);
  }

  /** What this call asked for already, as long as all of it is the same. */
  private askedBefore(call: JudgedCall): Promise<ApprovalRecord | undefined> {
    const { request, scope } = call.progress;
    return this.asked.find(scope.approvals.approvalOf(request.call.toolCallId), call, questionOf(call));
  }

  private async ask(call: JudgedCall): Promise<ApprovalRecord> {
    const { scope, request } = call.progress;
    const record = await this.asked.ask(call, questionOf(call));
    scope.approvals.ask(request.call.toolCallId, record.request.approvalId);
    return record;
  }

  /** An approval is used once, and in time. */
  private async use(record: ApprovalRecord, answer: ApprovalAnswer, call: JudgedCall): Promise<ReadArguments> {
    const { tool, decision, progress } = call;
    await this.asked.tell(record, answer, progress);
    if (answer.decision === 'deny') throw CallFailure.of('approval_denied', denialText(answer));
    const take = async (): Promise<void> => {
      if (!isTakenUp(record, progress)) await this.takeOnce(record);
      if (answer.remember) progress.scope.approvals.remember(tool.spec.declaredId, ruleOf(decision), record.request.approvalId);
    };
    if (directiveOf(tool, progress)) progress.takeApproval = take;
    else await take();
    return this.inputOf(record, answer, call);
  }

  private async takeOnce(record: ApprovalRecord): Promise<void> {
    const refusal = await this.asked.use(record);
    if (refusal !== undefined) throw CallFailure.of('approval_denied', `${refusal}, so the call was not made.`);
  }

  private inputOf(
    record: ApprovalRecord,
    answer: ApprovalAnswer,
    { tool, input, progress }: JudgedCall,
  ): ReadArguments | Promise<ReadArguments> {
    return answer.args ? this.edits.read(tool, withHidden(answer.args, input.args, tool.input.hidden), progress, record) : input;
  }
}

/**
 * Whether a yes that was given holds for it, or nothing happens that needs one: it is answered with the directive that was asked for before. A no to this very
 * call, or a change of its arguments, goes before a yes to all calls of the rule.
 */
function isSettled({ tool, decision, progress }: JudgedCall, asked: ApprovalRecord | undefined): boolean {
  if (asked?.answer?.decision === 'deny' || asked?.answer?.args) return false;
  const standing = progress.scope.approvals.standingFor(tool.spec.declaredId, ruleOf(decision));
  return standing !== undefined || (!asked && progress.standing !== undefined);
}

/** Whether it was used for this very call already: by a process that is gone, or before a person was asked about a repetition. What became of the call, the journal knows. */
function isTakenUp({ isUsed }: ApprovalRecord, { request, scope }: CallProgress): boolean {
  return isUsed && (request.mayHaveRun === true || scope.approvals.repeatOf(request.call.toolCallId) !== undefined);
}

/** What the approver could not see they cannot have changed. */
function withHidden(edited: JsonObject, sent: JsonObject, hidden: readonly string[]): JsonObject {
  const changed = Object.entries(edited).filter(([name]) => !hidden.includes(name));
  return Object.fromEntries([...changed, ...Object.entries(sent).filter(([name]) => hidden.includes(name))]);
}

function denialText({ reason }: ApprovalAnswer): string {
  return `A person denied this call.${reason === undefined ? '' : ` They said: ${reason}`}`;
}

function questionOf({ decision }: JudgedCall): ApprovalQuestion {
  const { reason, rule, policyVersion, approval: terms = [] } = decision;
  const mayEdit = terms.length > 0 && terms.every((one) => one.mayEdit);
  const mayRemember = terms.length > 0 && terms.every((one) => one.mayRemember);
  return { reason, rule, policyVersion, terms, mayEdit, mayRemember };
}

/** The rule of one policy: that of another version is another. */
function ruleOf({ rule, policyVersion }: Decision): string {
  return `${policyVersion} ${rule}`;
}
