import { Injectable } from '@nestjs/common';
import type { ApprovalDecision, ApprovalRequest, ApprovalTerms } from '@toolloop/protocol';
import {
  type ApprovalAmendment,
  type ApprovalAnswer,
  type ApprovalBinding,
  type ApprovalQuery,
  type ApprovalRecord,
  type ApprovalStore,
  type ApprovalView,
  ApprovalWitness,
} from '../contracts/approval.js';
import type { RegisteredActor } from '../contracts/tool-call.js';
import { ActorIdentity } from '../policy/actor-identity.js';

/** Who looks at approvals, or answers them: whom the application identified, never what a client says. */
export interface Approver<Actor = RegisteredActor> {
  readonly actor: Actor;
  readonly tenant: string;
}

const PAGE = 100;

/** What an approver may do beside listing what waits. */
export type ApprovalFilter = Omit<ApprovalQuery, 'tenant'>;

/** Where people see which calls wait for them, and say yes or no. Another tenant's approvals do not exist. */
@Injectable()
export class ApprovalService<Actor = RegisteredActor> {
  constructor(
    private readonly store: ApprovalStore,
    private readonly identity: ActorIdentity<Actor>,
    private readonly witness: ApprovalWitness,
  ) {}

  /** Those that this person may see, the oldest first; those that have expired are left out. */
  async list(approver: Approver<Actor>, filter: ApprovalFilter = {}): Promise<readonly ApprovalRequest[]> {
    const { limit = PAGE, after, ...which } = filter;
    const identified = this.identified(approver);
    const visible: ApprovalRequest[] = [];
    for (let last = after; visible.length < limit;) {
      const page = await this.store.list({
        pending: true,
        ...which,
        tenant: approver.tenant,
        limit: PAGE,
        ...(last !== undefined && { after: last }),
      });
      visible.push(...page.filter((record) => !isExpired(record) && maySee(record, identified)).map(({ request }) => request));
      last = page.at(-1)?.request.approvalId;
      if (page.length < PAGE) break;
    }
    return visible.slice(0, limit);
  }

  /** Throws `ApprovalError` (`not_found`), also for what this person may not see. */
  async get(approvalId: string, approver: Approver<Actor>): Promise<ApprovalView> {
    return viewOf(await this.find(approvalId, approver));
  }

  private async find(approvalId: string, approver: Approver<Actor>): Promise<ApprovalRecord> {
    const record = typeof approvalId === 'string' ? await this.store.find(approvalId) : undefined;
    if (record?.binding.tenant === approver.tenant && maySee(record, this.identified(approver))) return record;
    throw new ApprovalError('not_found', 'There is no such approval.');
  }

  /** Takes a decision, once. The run goes on by `ToolLoopService.resume`, or at once where it waits. Throws `ApprovalError`. */
  async decide(decision: ApprovalDecision, approver: Approver<Actor>, amendment: ApprovalAmendment = {}): Promise<ApprovalView> {
    const said = verdictOf(decision);
    const record = await this.find(decision.approvalId, approver);
    const { id: decidedBy } = this.identified(approver);
    try {
      this.assertOpen(record);
      this.assertPermitted(record, approver, amendment);
    } catch (error) {
      if (error instanceof ApprovalError) await this.witness.refused(record, { decidedBy, decision: said.decision, code: error.code });
      throw error;
    }
    const { args, remember } = amendment;
    const amended = { ...(args && { args }), ...(remember && { remember }) };
    const answer = { ...said, ...amended, decidedBy, decidedAt: new Date().toISOString() };
    await this.witness.decided(record, answer); // before it is taken: a decision that nobody can look up later is none
    const answered = await this.store.answer(decision.approvalId, answer);
    if (!answered) throw decidedAlready((await this.store.find(decision.approvalId))?.answer);
    return viewOf(answered);
  }

  private assertOpen(record: ApprovalRecord): void {
    if (record.answer) throw decidedAlready(record.answer);
    if (isExpired(record)) throw new ApprovalError('expired', 'The approval has expired, and its call was not made. Ask for it again.');
  }

  /** Throws `ApprovalError` when somebody may not answer, or may not say what they said. */
  private assertPermitted(record: ApprovalRecord, approver: Approver<Actor>, { args, remember }: ApprovalAmendment): void {
    const refusal = refusalFor(record, this.identified(approver));
    if (refusal !== undefined) throw new ApprovalError('not_permitted', refusal);
    if (args && !record.request.mayEdit) throw new ApprovalError('invalid_decision', 'The arguments of this call may not be changed.');
    if (remember && !record.request.mayRemember)
      throw new ApprovalError('invalid_decision', 'A decision about this call holds for this call only.');
  }

  /** Throws `ApprovalError` (`not_permitted`) for somebody whom nothing identifies. */
  private identified({ actor }: Approver<Actor>): IdentifiedApprover {
    const id = this.identity.idOf(actor);
    if (id !== undefined) return { id, roles: this.identity.rolesOf(actor) };
    throw new ApprovalError('not_permitted', 'An approver needs an id. Give one: ToolLoopModule.forRoot({ actorId: (actor) => … }).');
  }
}

interface IdentifiedApprover {
  readonly id: string;
  readonly roles: readonly string[];
}

/** Without the binding: a hash of arguments that can be guessed tells them. */
function viewOf({ request, createdAt, answer, isUsed }: ApprovalRecord): ApprovalView {
  return { request, createdAt, isUsed, ...(answer && { answer }) };
}

/** The model reads it. */
const MOST_REASON_CHARACTERS = 1_000;

function decidedAlready(answer: ApprovalAnswer | undefined): ApprovalError {
  if (!answer?.isWithdrawn) return new ApprovalError('already_decided', 'Somebody has decided already.');
  return new ApprovalError('withdrawn', 'The run that asked for it has ended, so there is nothing to decide any more.');
}

/** What a client may say. Throws `ApprovalError` for what is no decision. */
function verdictOf({ decision, reason }: ApprovalDecision): Pick<ApprovalAnswer, 'decision' | 'reason'> {
  if (decision !== 'approve' && decision !== 'deny')
    throw new ApprovalError('invalid_decision', 'The decision is neither "approve" nor "deny".');
  return typeof reason === 'string' && reason !== '' ? { decision, reason: reason.slice(0, MOST_REASON_CHARACTERS) } : { decision };
}

/** Whether it is too late, to decide as well as to use what was decided. */
export function isExpired({ request }: ApprovalRecord): boolean {
  return Date.parse(request.expiresAt) <= Date.now();
}

function maySee(record: ApprovalRecord, approver: IdentifiedApprover): boolean {
  return approver.id === record.binding.requesterId || refusalFor(record, approver) === undefined;
}

/** Why somebody may not answer. Where the policy names nobody it is the one for whom the run acts. */
function refusalFor({ binding, terms }: ApprovalRecord, approver: IdentifiedApprover): string | undefined {
  const asked = terms.length > 0 ? terms : [{}];
  return asked.map((one) => refusalOf(one, approver, binding.requesterId)).find((refusal) => refusal !== undefined);
}

function refusalOf(
  { roles, notRequester }: ApprovalTerms,
  { id, roles: held }: IdentifiedApprover,
  requesterId: string | undefined,
): string | undefined {
  if (notRequester && id === requesterId) return 'Whoever the run acts for may not approve this call.';
  if (roles && !roles.some((role) => held.includes(role))) return `This call is approved by somebody with the role ${roles.join(' or ')}.`;
  if (!roles && !notRequester && id !== requesterId) return 'This call is approved by the one for whom the run acts.';
  return undefined;
}

/** Why a decision about an approval was not taken: whoever decided must act. Over HTTP `not_found` is a 404, the others are a 403, 409 or 400. `withdrawn`: the run that asked has ended, so nothing would follow. */
export class ApprovalError extends Error {
  override readonly name = 'ApprovalError';

  constructor(
    readonly code: 'not_found' | 'not_permitted' | 'already_decided' | 'expired' | 'withdrawn' | 'invalid_decision',
    message: string,
  ) {
    super(message);
  }
}

/** The answer to what nobody has to decide any more. */
export function withdrawal(): ApprovalAnswer {
  return { decision: 'deny', reason: 'The run has ended.', decidedBy: 'the run', decidedAt: new Date().toISOString(), isWithdrawn: true };
}

/** Takes back what nobody has to answer any more; nothing, where somebody has. A yes that nothing follows would be a lie to whoever gave it. */
export async function withdrawApproval(store: ApprovalStore, approvalId: string): Promise<void> {
  await store.answer(approvalId, withdrawal());
}

/** The same for all that a run and its sub-runs asked for, and nobody has answered. */
export async function withdrawApprovals(store: ApprovalStore, { tenant, runId }: Pick<ApprovalBinding, 'tenant' | 'runId'>): Promise<void> {
  for (;;) {
    const open = await store.list({ tenant, runId, pending: true, limit: PAGE });
    for (const { request } of open) await withdrawApproval(store, request.approvalId);
    if (open.length < PAGE) return;
  }
}
