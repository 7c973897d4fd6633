import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import type { ApprovalDecision, ApprovalRequest, ApprovalTerms } from '@toolloop/protocol';
import {
  type ApprovalAmendment,
  type Pending,
  type PendingAnswer,
  type PendingBinding,
  type PendingQuery,
  type PendingStore,
  type PendingView,
  PendingWitness,
} from '../contracts/pending.js';
import type { RegisteredActor } from '../contracts/tool-call.js';
import { ActorIdentity } from '../policy/actor-identity.js';
import type { DataPolicyEngine } from '../policy/policy-engine.js';

/** The person who lists or answers approvals, as the application identified them; never taken from a client's body. */
export interface Respondent<Actor = RegisteredActor> {
  readonly actor: Actor;
  readonly tenant: string;
}

const PAGE = 100;
/** The milliseconds for which a decision is claimed: longer than the audit takes for an entry. */
const CLAIM_MS = 15_000;
/** The pause of who waits for another's decision. */
const AGAIN_MS = 20;

/** The filter of a list of approvals. The tenant is always the approver's. */
export type PendingFilter = Omit<PendingQuery, 'tenant'>;

/** Lists the calls that wait for a person, and takes the decisions. Approvals of another tenant are never found. */
@Injectable()
export class PendingService<Actor = RegisteredActor> {
  constructor(
    private readonly store: PendingStore,
    private readonly identity: ActorIdentity<Actor>,
    private readonly witness: PendingWitness,
    /** Absent where nothing can be stopped. */
    private readonly inForce?: Pick<DataPolicyEngine, 'isHeld'>,
  ) {}

  /**
   * Lists the approvals that an approver may see, the oldest first, without expired ones. By default at most 100 that are still open.
   *
   * @throws PendingError (`not_permitted`) if the actor has no id
   * @example
   * const waiting = await approvals.list({ actor: user, tenant: user.tenantId });
   */
  async list(approver: Respondent<Actor>, filter: PendingFilter = {}): Promise<readonly ApprovalRequest[]> {
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
      last = page.at(-1)?.id;
      if (page.length < PAGE) break;
    }
    return visible.slice(0, limit);
  }

  /**
   * Finds an approval by its id.
   *
   * @throws PendingError (`not_found`) if there is none that the approver may see
   * @example
   * const { request, usedAt } = await approvals.get(approvalId, { actor: user, tenant: user.tenantId });
   */
  async get(approvalId: string, approver: Respondent<Actor>): Promise<PendingView> {
    return toView(await this.find(approvalId, approver));
  }

  private async find(approvalId: string, approver: Respondent<Actor>): Promise<Pending> {
    const record = typeof approvalId === 'string' ? await this.store.find(approvalId) : undefined;
    if (record?.binding.tenant === approver.tenant && maySee(record, this.identified(approver))) return record;
    throw new PendingError('not_found', 'There is no such approval.');
  }

  /**
   * Takes a decision, once. The run continues by `ToolLoopService.resume`, or at once if it is still waiting in memory.
   *
   * @throws PendingError if the approver may not decide, the approval was decided, has expired, was withdrawn or is held, or the decision is invalid
   * @example
   * await approvals.decide({ approvalId, decision: 'approve' }, { actor: user, tenant: user.tenantId });
   */
  async decide(decision: ApprovalDecision, approver: Respondent<Actor>, amendment: ApprovalAmendment = {}): Promise<PendingView> {
    const said = readDecision(decision);
    const record = await this.find(decision.approvalId, approver);
    const attempt = { decidedBy: this.identified(approver).id, decision: said.decision };
    try {
      this.assertOpen(record);
      this.assertPermitted(record, approver, amendment);
      const { args, remember } = amendment;
      const amended = { ...(args && { args }), ...(remember && { remember }) };
      return await this.take(record, { ...said, ...amended, decidedBy: attempt.decidedBy, decidedAt: new Date().toISOString() });
    } catch (error) {
      if (error instanceof PendingError) await this.witness.refused(record, { ...attempt, code: error.code });
      throw error;
    }
  }

  /**
   * Records the decision, then stores it: a decision without a record must not count, and one that comes too late must not be recorded as one.
   *
   * @throws PendingError if another decision was first, or the approval was withdrawn
   */
  private async take(record: Pending, answer: PendingAnswer): Promise<PendingView> {
    const { id } = record;
    const owner = randomUUID();
    while (!(await this.store.claim(id, { owner, forMs: CLAIM_MS }))) {
      const known = await this.store.find(id);
      if (!known || known.answer) throw decidedAlready(known?.answer);
      await wait(AGAIN_MS); // another process may fail to record its decision
    }
    try {
      await this.witness.decided(record, answer);
    } catch (error) {
      await this.store.claim(id, { owner, forMs: 0 });
      throw error;
    }
    const answered = await this.store.answer(id, answer);
    if (answered) return toView(answered);
    throw decidedAlready((await this.store.find(id))?.answer); // withdrawn meanwhile
  }

  /** Throws a `PendingError` for an approval of which there is nothing to decide now. */
  private assertOpen(record: Pending): void {
    if (record.answer) throw decidedAlready(record.answer);
    if (isExpired(record)) throw new PendingError('expired', 'The approval has expired, and its call was not made. Ask for it again.');
    const { tenant, declaredId } = record.binding;
    if (this.inForce?.isHeld(tenant, declaredId))
      throw new PendingError('held', 'An operator has stopped the tool. The approval is held, and can be decided once it is released.');
  }

  /** Throws a `PendingError` if the approver may not answer, or may not answer in this way. */
  private assertPermitted(record: Pending, approver: Respondent<Actor>, { args, remember }: ApprovalAmendment): void {
    const refusal = refusalFor(record, this.identified(approver));
    if (refusal !== undefined) throw new PendingError('not_permitted', refusal);
    if (args && !record.request.mayEdit) throw new PendingError('invalid_answer', 'The arguments of this call may not be changed.');
    if (remember && !record.request.mayRemember)
      throw new PendingError('invalid_answer', 'A decision about this call cannot be remembered for further calls.');
  }

  /** Throws a `PendingError` (`not_permitted`) for an actor without an id. */
  private identified({ actor }: Respondent<Actor>): IdentifiedApprover {
    const id = this.identity.idOf(actor);
    if (id !== undefined) return { id, roles: this.identity.rolesOf(actor) };
    throw new PendingError('not_permitted', 'An approver needs an id. Set ToolLoopModule.forRoot({ actorId: (actor) => … }).');
  }
}

interface IdentifiedApprover {
  readonly id: string;
  readonly roles: readonly string[];
}

/** Copies an approval for a client, without the binding: its hash would reveal arguments that can be guessed. */
function toView({ kind, request, createdAt, answer, usedAt }: Pending): PendingView {
  return { kind, request, createdAt, ...(answer && { answer }), ...(usedAt !== undefined && { usedAt }) };
}

/** The longest reason of a decision, which the model reads. */
const MOST_REASON_CHARACTERS = 1_000;

function decidedAlready(answer: PendingAnswer | undefined): PendingError {
  if (!answer?.isWithdrawn) return new PendingError('already_answered', 'Somebody has decided already.');
  return new PendingError('withdrawn', 'The run that asked for it has ended, so there is nothing to decide any more.');
}

/** Reads a client's decision. Throws a `PendingError` for anything else. */
function readDecision({ decision, reason }: ApprovalDecision): Pick<PendingAnswer, 'decision' | 'reason'> {
  if (decision !== 'approve' && decision !== 'deny')
    throw new PendingError('invalid_answer', 'The decision is neither "approve" nor "deny".');
  return typeof reason === 'string' && reason !== '' ? { decision, reason: reason.slice(0, MOST_REASON_CHARACTERS) } : { decision };
}

/** Tells whether an approval has expired, for a decision as well as for the use of one. */
export function isExpired({ expiresAt }: Pick<Pending, 'expiresAt'>): boolean {
  return Date.parse(expiresAt) <= Date.now();
}

function maySee(record: Pending, approver: IdentifiedApprover): boolean {
  return approver.id === record.binding.requesterId || refusalFor(record, approver) === undefined;
}

/** Finds the reason why an approver may not answer. Where the policy names no approver, only the actor of the run may. */
function refusalFor({ binding, admitted }: Pending, approver: IdentifiedApprover): string | undefined {
  const terms = admitted.length > 0 ? admitted : [{}];
  return terms.map((one) => refusalUnder(one, approver, binding.requesterId)).find((refusal) => refusal !== undefined);
}

function refusalUnder(
  { roles, notRequester }: ApprovalTerms,
  { id, roles: held }: IdentifiedApprover,
  requesterId: string | undefined,
): string | undefined {
  if (notRequester && id === requesterId) return 'The actor of the run may not approve this call.';
  if (roles && !roles.some((role) => held.includes(role)))
    return `Only a person with the role ${roles.join(' or ')} may approve this call.`;
  if (!roles && !notRequester && id !== requesterId) return 'Only the actor of the run may approve this call.';
  return undefined;
}

/**
 * Thrown for a decision about an approval that is not accepted: the approver has to act. Over HTTP `not_found` is a 404, the others are a 403, 409 or 400.
 * `withdrawn`: the run has ended, so a decision would have no effect. `held`: an operator has stopped the tool for now.
 */
export class PendingError extends Error {
  override readonly name = 'PendingError';

  constructor(
    readonly code: 'not_found' | 'not_permitted' | 'already_answered' | 'expired' | 'withdrawn' | 'held' | 'invalid_answer',
    message: string,
  ) {
    super(message);
  }
}

/** Makes the answer that withdraws an approval. */
export function withdrawal(): PendingAnswer {
  return { decision: 'deny', reason: 'The run has ended.', decidedBy: 'the run', decidedAt: new Date().toISOString(), isWithdrawn: true };
}

/** Withdraws an approval that was not answered, so that no person approves a call that will not be made. */
export async function withdraw(store: PendingStore, id: string): Promise<void> {
  await store.answer(id, withdrawal());
}

/** Withdraws all open approvals of a run and its sub-runs. */
export async function withdrawPending(store: PendingStore, { tenant, runId }: Pick<PendingBinding, 'tenant' | 'runId'>): Promise<void> {
  for (;;) {
    const open = await store.list({ tenant, runId, pending: true, limit: PAGE });
    for (const { id } of open) await withdraw(store, id);
    if (open.length < PAGE) return;
  }
}
