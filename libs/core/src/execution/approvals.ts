import type { ApprovalRequest, ApprovalTerms } from '@toolloop/protocol';
import type { Pending, PendingAnswer, PendingBinding, PendingStore } from '../contracts/pending.js';
import { isExpired, withdraw } from '../pending/pending.service.js';
import { areSamePeople } from '../policy/rules.js';
import { canonicalDeclaration, sha256 } from '../schema/canonical-json.js';
import type { BoundedStores } from './bounded-stores.js';
import type { CallAudit } from './call-audit.js';
import { linkSignal, untilAborted } from './call-failure.js';
import { type Call, CallPending, type ExecutionScope, type ReadCall } from './call.js';
import { shownArguments } from './describe.js';
import type { CallPreview } from './preview.js';

/** Asks people about calls and uses their answers. Policy's approvals and the repetition of a call with an unknown outcome both go through it. */
export class AskedApprovals {
  private readonly store: PendingStore;

  constructor(
    stores: BoundedStores,
    private readonly preview: CallPreview,
    private readonly audit: CallAudit | undefined,
  ) {
    this.store = stores.pending;
  }

  async find(approvalId: string | undefined): Promise<Pending | undefined> {
    return approvalId === undefined ? undefined : this.store.find(approvalId);
  }

  /** The approval that was asked for before, as long as the call is the same, and policy still asks the same people, in whatever version. */
  async findSame(approvalId: string | undefined, call: ReadCall, question: ApprovalQuestion): Promise<Pending | undefined> {
    const record = await this.find(approvalId);
    if (!record) return undefined;
    const isSameCall = callIn(record.binding) === callIn(bindingOf(call, question));
    const isEditable = record.answer?.args === undefined || question.mayEdit;
    return isSameCall && isEditable && areSamePeople(record.admitted, question.terms) ? record : undefined;
  }

  /**
   * Asks a person about a call. The id of an approval follows from its run, step, call and question, so that a run which lost it, as in a crash, finds the approval
   * again and asks no person twice. One that was withdrawn is no answer, and is asked for anew.
   */
  async ask(call: ReadCall, question: ApprovalQuestion, after?: string): Promise<Pending> {
    const approvalId = approvalIdOf(call, question, after);
    const known = await this.store.find(approvalId);
    if (known?.answer?.isWithdrawn) return this.ask(call, question, approvalId);
    return known ?? this.add(approvalId, call, question);
  }

  private async add(approvalId: string, call: ReadCall, question: ApprovalQuestion): Promise<Pending> {
    const { tool, input, scope, request } = call;
    const { reason, mayEdit, mayRemember, terms, rule } = question;
    const createdAt = new Date();
    const expiresAfter = Math.min(...(terms.length > 0 ? terms : [{}]).map(expiryOf));
    const expiresAt = new Date(createdAt.getTime() + expiresAfter).toISOString();
    const preview = await this.preview.of(call);
    const record: Pending = {
      id: approvalId,
      kind: 'approval',
      request: {
        approvalId,
        ...waitingRunOf(scope),
        step: request.step,
        toolCallId: request.call.toolCallId,
        tool: tool.spec.id,
        declaredId: tool.spec.declaredId,
        ...(tool.entity && { instanceId: tool.entity.instanceId }),
        args: shownArguments(input.args, tool.input.hidden),
        reason,
        ...(preview && { preview }),
        ...(tool.presentation && { presentation: tool.presentation }),
        expiresAt,
        mayEdit,
        mayRemember,
      },
      binding: bindingOf(call, question),
      admitted: terms,
      rule,
      createdAt: createdAt.toISOString(),
      expiresAt,
    };
    await this.audit?.asked(call, record);
    await this.store.add(record);
    return record;
  }

  /**
   * Resolves once a person has answered while the run waited; false where no answer came in time.
   *
   * @throws {CallPending} Where the run does not wait.
   */
  async answered({ id, request: approval, expiresAt }: Pending, { scope, request }: Call): Promise<boolean> {
    await scope.emit({ type: 'approval-request', step: request.step, approval }); // again, for a reader who comes later
    if (scope.approvals.mode === 'suspend') throw new CallPending('approval');
    const link = linkSignal(scope.signal, {
      ms: Math.max(0, Date.parse(expiresAt) - Date.now()),
      message: 'The approval expired without an answer.',
    });
    try {
      await untilAborted(this.store.answered(id, link.signal), link.signal);
      return true;
    } catch (error) {
      if (scope.signal.aborted) await withdraw(this.store, id);
      if (scope.signal.aborted || !link.signal.aborted) throw error;
      return false;
    } finally {
      link.release();
    }
  }

  /** Emits the decision. */
  async tell({ id: approvalId }: Pending, answer: PendingAnswer, { scope, request }: Call): Promise<void> {
    const { decision, reason, decidedBy } = answer;
    const told = { approvalId, decision, ...(reason !== undefined && { reason }) };
    await scope.emit({ type: 'approval-decision', step: request.step, decision: told, decidedBy });
  }

  /** Uses a yes up, once and in time; the reason where that cannot be. */
  async use(record: Pending): Promise<string | undefined> {
    if (isExpired(record)) return 'The approval had expired';
    return (await this.store.use(record.id)) ? undefined : 'The approval was used already';
  }
}

const DIGITS_OF_ID = 32;

/** A day, where no rule says otherwise. */
const EXPIRES_AFTER_MS = 86_400_000;

/** A question to a person about a call. */
export interface ApprovalQuestion extends Pick<ApprovalRequest, 'reason' | 'mayEdit' | 'mayRemember'> {
  /** The rule that asks. */
  readonly rule: string;
  readonly policyVersion: string;
  readonly terms: readonly ApprovalTerms[];
}

/** The reason why no person can be asked about a call of this run; undefined where one can. */
export function unaskableReason({ approvals, actorId }: ExecutionScope): string | undefined {
  if (approvals.mode === 'deny') return 'No one can give it in this run.';
  // Without an id no one could resume the run, and where the policy names no role no one could approve.
  return actorId === undefined ? 'The actor of this run has no id, so no one can give it.' : undefined;
}

/** A sub-run does not wait by itself: the root run does, and is resumed. */
function waitingRunOf({ run: { runId, path } }: ExecutionScope): Pick<ApprovalRequest, 'runId' | 'path'> {
  return { runId: path?.[0] ?? runId, ...(path && { path }) };
}

function expiryOf({ expiresAfterMs = EXPIRES_AFTER_MS }: ApprovalTerms): number {
  return expiresAfterMs;
}

function bindingOf({ tool, input, scope, request }: ReadCall, { policyVersion }: ApprovalQuestion): PendingBinding {
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

/** `after` is the approval that this one follows, where another is needed for the same question. */
function approvalIdOf(call: ReadCall, question: ApprovalQuestion, after?: string): string {
  const { rule, terms } = question;
  const asked = { binding: bindingOf(call, question), step: call.request.step, rule, terms, ...(after !== undefined && { after }) };
  return `apr_${sha256(canonicalDeclaration(asked)).slice(0, DIGITS_OF_ID)}`;
}

function callIn({ policyVersion: _ofQuestion, ...call }: PendingBinding): string {
  return canonicalDeclaration(call);
}
