import { randomUUID } from 'node:crypto';
import { Injectable } from '@nestjs/common';
import type { ApprovalRequest, ApprovalTerms, Decision, JsonObject } from '@toolloop/protocol';
import type { ApprovalAnswer, ApprovalBinding, ApprovalRecord, ApprovalStore } from '../contracts/approval.js';
import type { Tool } from '../contracts/tool.js';
import { isExpired, withdrawApproval } from '../pending/approval.service.js';
import { canonicalDeclaration, sha256 } from '../schema/canonical-json.js';
import { BoundedStores } from './bounded-stores.js';
import { CallAudit } from './call-audit.js';
import { CallFailure, linkSignal, untilAborted } from './call-failure.js';
import { CallPending, type CallProgress, type ExecutionScope } from './call.js';
import { directiveOf } from './directive-requests.js';
import { CallAdmission } from './nest-admission.js';
import { shownArguments } from './outcome.js';
import { PolicyGate } from './policy-gate.js';
import { CallPreview } from './preview.js';
import { ArgumentReader, type ReadArguments } from './read-arguments.js';

/** A call that policy has decided on. */
interface JudgedCall extends AskedCall {
  readonly decision: Decision;
}

/** What the approver put in the place of the model's arguments, through every check that those went through. */
@Injectable()
export class ApprovedEdit {
  constructor(
    private readonly reader: ArgumentReader,
    private readonly admission: CallAdmission,
    private readonly policy: PolicyGate,
    private readonly audit: CallAudit,
  ) {}

  async read(tool: Tool, args: JsonObject, progress: CallProgress, { terms }: ApprovalRecord): Promise<ReadArguments> {
    const call = { ...progress.request.call, arguments: JSON.stringify(args) };
    const edited = { ...progress, request: { ...progress.request, call } };
    const input = await this.admission.admit(tool, await this.reader.read(tool, edited), edited);
    const { kind, approval = [] } = this.policy.judge(tool, input.args, progress); // a yes does not let in what is denied
    const met = new Set(terms.map(canonicalDeclaration));
    if (kind === 'require_approval' && !approval.every((one) => met.has(canonicalDeclaration(one))))
      throw CallFailure.of('approval_denied', 'What the approver made of the call needs the approval of somebody else.');
    await this.audit.decided(tool, input, progress);
    return input;
  }
}

/** Asks people about calls, and uses what they said: the one way to, whoever wants to know. */
@Injectable()
export class AskedApprovals {
  private readonly store: ApprovalStore;

  constructor(
    stores: BoundedStores,
    private readonly preview: CallPreview,
    private readonly audit: CallAudit,
  ) {
    this.store = stores.approvals;
  }

  /** What was asked before, as long as all of it is the same. */
  async find(approvalId: string | undefined, call: AskedCall, question: ApprovalQuestion): Promise<ApprovalRecord | undefined> {
    const record = approvalId === undefined ? undefined : await this.store.find(approvalId);
    if (!record) return undefined;
    return textOf(record.binding, record.terms) === textOf(bindingOf(call, question), question.terms) ? record : undefined;
  }

  async ask(call: AskedCall, question: ApprovalQuestion): Promise<ApprovalRecord> {
    const { tool, input, progress } = call;
    const { scope, request } = progress;
    const { reason, mayEdit, mayRemember, terms, rule } = question;
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
        reason,
        ...(preview && { preview }),
        expiresAt: new Date(createdAt.getTime() + expiresAfter).toISOString(),
        mayEdit,
        mayRemember,
      },
      binding: bindingOf(call, question),
      terms,
      rule,
      createdAt: createdAt.toISOString(),
      isUsed: false,
    };
    await this.audit.asked(tool, input, record, progress);
    await this.store.add(record);
    return record;
  }

  /** Resolves once somebody has answered while the run waited; false where nobody did in time. Throws `CallPending` where it does not wait. */
  async answered({ request: approval }: ApprovalRecord, { scope, request }: CallProgress): Promise<boolean> {
    const { approvalId, expiresAt } = approval;
    await scope.emit({ type: 'approval-request', step: request.step, approval }); // again for whoever comes to watch later
    if (scope.approvals.mode === 'suspend') throw new CallPending(approvalId);
    const link = linkSignal(scope.signal, { ms: Math.max(0, Date.parse(expiresAt) - Date.now()), message: 'Nobody answered in time.' });
    try {
      await untilAborted(this.store.answered(approvalId, link.signal), link.signal);
      return true;
    } catch (error) {
      if (scope.signal.aborted) await withdrawApproval(this.store, approvalId);
      if (scope.signal.aborted || !link.signal.aborted) throw error;
      return false;
    } finally {
      link.release();
    }
  }

  /** Shows what was decided to whoever watches the run. */
  async tell({ request: { approvalId } }: ApprovalRecord, answer: ApprovalAnswer, { scope, request }: CallProgress): Promise<void> {
    const { decision, reason, decidedBy } = answer;
    const told = { approvalId, decision, ...(reason !== undefined && { reason }) };
    await scope.emit({ type: 'approval-decision', step: request.step, decision: told, decidedBy });
  }

  /** Uses a yes up, once and in time; says why not where that cannot be. */
  async use(record: ApprovalRecord): Promise<string | undefined> {
    if (isExpired(record)) return 'The approval had expired';
    return (await this.store.use(record.request.approvalId)) ? undefined : 'The approval was used already';
  }
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

/** How long an approval waits where no rule says otherwise: a day. */
const EXPIRES_AFTER_MS = 86_400_000;

/** A call that a person is asked about. */
export interface AskedCall {
  readonly tool: Tool;
  readonly input: ReadArguments;
  readonly progress: CallProgress;
}

/** Why a person is asked, and who may answer how. */
export interface ApprovalQuestion extends Pick<ApprovalRequest, 'reason' | 'mayEdit' | 'mayRemember'> {
  /** What asks. */
  readonly rule: string;
  readonly policyVersion: string;
  readonly terms: readonly ApprovalTerms[];
}

/** Why nobody can be asked about a call of this run; undefined where somebody can. */
export function nobodyFor({ approvals, actorId }: ExecutionScope): string | undefined {
  if (approvals.mode === 'deny') return 'Nobody can give it in this run.';
  // Nobody could go on with the run, and where the policy names no role nobody could approve.
  return actorId === undefined ? 'The actor of this run has no id, so nobody can give it.' : undefined;
}

/** A sub-run does not wait by itself: the root run does, and is resumed. */
function whoWaits({ run: { runId, path } }: ExecutionScope): Pick<ApprovalRequest, 'runId' | 'path'> {
  return { runId: path?.[0] ?? runId, ...(path && { path }) };
}

function expiryOf({ expiresAfterMs = EXPIRES_AFTER_MS }: ApprovalTerms): number {
  return expiresAfterMs;
}

function bindingOf({ tool, input, progress: { scope, request } }: AskedCall, { policyVersion }: ApprovalQuestion): ApprovalBinding {
  return {
    tenant: scope.run.tenant,
    runId: scope.run.path?.[0] ?? scope.run.runId,
    ...(scope.run.path && { subRunId: scope.run.runId }),
    requesterId: scope.actorId,
    toolCallId: request.call.toolCallId,
    declaredId: tool.spec.declaredId,
    instanceId: tool.entity?.instanceId,
    argsHash: sha256(input.canonical),
    policyVersion,
  };
}

function textOf(binding: ApprovalBinding, terms: readonly ApprovalTerms[]): string {
  return canonicalDeclaration({ binding, terms });
}
