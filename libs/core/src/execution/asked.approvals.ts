import { randomUUID } from 'node:crypto';
import { Injectable } from '@nestjs/common';
import { BoundedStores } from './bounded.stores.js';
import { withdrawApproval } from '../approval/withdrawn-approvals.js';
import type { ApprovalStore, ApprovalAnswer, ApprovalBinding, ApprovalRecord, ApprovalRequest } from '../protocol/approval.js';
import type { ApprovalTerms } from '../protocol/policy.js';
import type { Tool } from '../protocol/tool.js';
import { canonicalDeclaration, sha256 } from '../schema/canonical-json.js';
import { isExpired } from '../approval/approval.service.js';
import type { ReadArguments } from './argument.reader.js';
import { CallAudit } from './call.audit.js';
import { CallPending } from './call.pending.js';
import { CallPreview } from './call.preview.js';
import type { CallProgress, ExecutionScope } from './execution.scope.js';
import { linkSignal, untilAborted } from './interruption.js';
import { shownArguments } from './tool.outcome.js';

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
