import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import type { ApprovalDecision, ApprovalGroup, ApprovalRequest } from '@toolloop/protocol';
import type { RegisteredActor } from '../../contracts/registered-actor.js';
import { PendingWitness } from '../../contracts/pending-witness.js';
import type {
  ApprovalAmendment,
  InboxEntry,
  Pending,
  PendingAnswer,
  PendingKind,
  PendingQuery,
  PendingStore,
  PendingView,
  PendingViewOf,
} from '../../contracts/pending.js';
import { ActorIdentity } from '../../policy/actor-identity.js';
import type { DataPolicyEngine } from '../../policy/policy-engine.js';
import { SchemaValidators } from '../../schema/validators.js';
import {
  type IdentifiedApprover,
  maySee,
  refusalFor,
  withdrawalRefusalFor,
} from './answer-right.js';
import { answeringRoles } from './answering-roles.js';
import { PendingError } from './pending-error.js';
import { assertOneGroup, groupsOf } from './pending-groups.js';
import {
  assertAmendment,
  type GivenReply,
  readDecision,
  readReply,
  type ReadReply,
  readTogether,
  type Said,
} from './pending-reply.js';
import { EXPIRED, decidedAlready, settled } from './settled-pending.js';

/**
 * Lists what runs ask of people and clients, and takes the answers. Nothing of another tenant is
 * ever found.
 */
@Injectable()
export class PendingService<Actor = RegisteredActor> {
  constructor(
    private readonly store: PendingStore,
    private readonly identity: ActorIdentity<Actor>,
    private readonly witness: PendingWitness,
    /** Absent where nothing can be stopped. */
    private readonly inForce?: Pick<DataPolicyEngine, 'isHeld'>,
    private readonly validators = new SchemaValidators(),
  ) {}

  /**
   * Lists the approvals that an approver may see, the oldest first, without expired ones. By
   * default at most 100 that are still open.
   *
   * @throws PendingError (`not_permitted`) if the actor has no id
   * @example
   * const waiting = await approvals.list({ actor: user, tenant: user.tenantId });
   */
  async list(
    approver: Respondent<Actor>,
    filter: Omit<PendingFilter, 'kind'> = {},
  ): Promise<readonly ApprovalRequest[]> {
    const views = await this.inbox(approver, { ...filter, kind: 'approval' });
    return views.flatMap((view) => (view.kind === 'approval' ? [view.request] : []));
  }

  /**
   * Lists what a person may see of all that runs ask, the oldest first, without what has expired.
   * By default at most 100 that are still open.
   *
   * @throws PendingError (`not_permitted`) if the actor has no id
   * @example
   * const mine = await pending.inbox({ actor: user, tenant: user.tenantId }, { kind: 'client' });
   */
  async inbox(
    person: Respondent<Actor>,
    { kind, limit = PAGE, after, ...which }: PendingFilter = {},
  ): Promise<readonly InboxEntry[]> {
    const identified = this.identified(person);
    const visible: InboxEntry[] = [];
    for (let last = after; visible.length < limit;) {
      const page = await this.store.list({
        pending: true,
        ...which,
        tenant: person.tenant,
        limit: PAGE,
        ...(last !== undefined && { after: last }),
      });
      const shown = page.filter(
        (record) =>
          (kind === undefined || record.kind === kind) &&
          !isExpired(record) &&
          maySee(record, identified),
      );
      visible.push(...shown.map((record) => toEntry(record, identified)));
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
   * const { request, usedAt } = await approvals.get(approvalId, {
   *   actor: user,
   *   tenant: user.tenantId,
   * });
   */
  async get(approvalId: string, approver: Respondent<Actor>): Promise<PendingViewOf<'approval'>> {
    return approvalIn(toView(await this.find(approvalId, approver)));
  }

  /**
   * Returns whether a person may decide or answer, by the terms of the policy: for a client that
   * offers the question only to those whose answer counts. `decide` asks again.
   *
   * @throws PendingError (`not_found`) if there is none that the person may see
   * @example
   * if (await approvals.mayDecide(approvalId, { actor: user, tenant: user.tenantId }))
   *   show(approvalId);
   */
  async mayDecide(id: string, approver: Respondent<Actor>): Promise<boolean> {
    return refusalFor(await this.find(id, approver), this.identified(approver)) === undefined;
  }

  private async find(id: unknown, person: Respondent<Actor>, kind?: PendingKind): Promise<Pending> {
    const record = typeof id === 'string' ? await this.store.find(id) : undefined;
    if (record?.binding.tenant === person.tenant && maySee(record, this.identified(person)))
      return record;
    throw notFound(kind);
  }

  /**
   * Finds what a reply is about. A call of a client is named by its run and its id; which of two
   * calls with one id is meant must be said.
   */
  private async meantBy(
    { id, toolCallId, kind }: ReadReply,
    person: Respondent<Actor>,
    runId: string | undefined,
  ): Promise<Pending> {
    if (id !== undefined) {
      const record = await this.find(id, person, kind);
      if (runId === undefined || record.binding.runId === runId) return record;
      throw new PendingError('not_found', 'This run asked nothing of the kind.');
    }
    if (runId === undefined) throw notFound(kind);
    const identified = this.identified(person);
    const asked = await this.store.list({ tenant: person.tenant, runId, limit: MOST_OF_A_RUN });
    const named = asked.filter(
      (one) =>
        one.kind === 'client' && one.binding.toolCallId === toolCallId && maySee(one, identified),
    );
    const open = named.filter(({ answer }) => !answer);
    if (open.length > 1)
      throw new PendingError(
        'invalid_answer',
        'Two calls of this run have this id. Say which by its pendingId.',
      );
    const [record = named.at(-1)] = open;
    if (record) return record;
    throw new PendingError('not_found', 'This run asked nothing of the kind.');
  }

  /**
   * Takes a decision about a call, once. The run continues by `ToolLoopService.resume`, or at once
   * if it is still waiting in memory.
   *
   * @throws PendingError if the approver may not decide, the approval was decided, has expired, was
   *   withdrawn or is held, or the decision is invalid
   * @example
   * await approvals.decide(
   *   { approvalId, decision: 'approve' },
   *   { actor: user, tenant: user.tenantId },
   * );
   */
  async decide(
    decision: ApprovalDecision,
    approver: Respondent<Actor>,
    amendment: ApprovalAmendment = {},
  ): Promise<PendingViewOf<'approval'>> {
    const { approvalId, decision: word, reason } = decision;
    const said = readDecision(word, reason, ['approve', 'deny', 'withdraw']);
    return approvalIn(
      await this.reply({ id: approvalId, kind: 'approval', said }, approver, { amendment }),
    );
  }

  /**
   * Lists what an approver may see as groups: the calls of one tool in one step, about which the
   * same rule asks the same people. The oldest first, a call without others included. The limit
   * counts calls, so that the last group may have more.
   *
   * @throws PendingError (`not_permitted`) if the actor has no id
   * @example
   * const [group] = await approvals.groups({ actor: user, tenant: user.tenantId }, { runId });
   */
  async groups(
    approver: Respondent<Actor>,
    filter: Omit<PendingFilter, 'kind'> = {},
  ): Promise<readonly ApprovalGroup[]> {
    return groupsOf(await this.list(approver, filter));
  }

  /**
   * Takes one decision about several calls of a group. Nothing is decided where one of them cannot
   * be; each is then decided by itself, with its own entry in the audit.
   *
   * @throws PendingError As {@link decide}, also for calls of two groups; and once the others are
   *   decided, for one that another person has decided meanwhile
   * @example
   * await approvals.decideTogether(
   *   group.calls.map(({ approvalId }) => approvalId),
   *   { decision: 'approve' },
   *   { actor: user, tenant: user.tenantId },
   * );
   */
  async decideTogether(
    approvalIds: readonly string[],
    { decision, reason }: Omit<ApprovalDecision, 'approvalId'>,
    approver: Respondent<Actor>,
  ): Promise<readonly PendingViewOf<'approval'>[]> {
    const said = readDecision(decision, reason, ['approve', 'deny', 'withdraw']);
    const asked = readTogether(approvalIds).map((id): ReadReply => ({
      id,
      kind: 'approval',
      said,
    }));
    const found = await Promise.all(
      asked.map(async (reply) => ({
        reply,
        record: await this.meantBy(reply, approver, undefined),
      })),
    );
    assertOneGroup(found.map(({ record }) => record));
    const taking: (() => Promise<PendingView>)[] = [];
    for (const { reply, record } of found) {
      const answer = await this.witnessed(record, reply, approver, () =>
        this.answerTo(record, reply, approver),
      );
      taking.push(() => this.witnessed(record, reply, approver, () => this.take(record, answer)));
    }
    return (await settled(taking.map((take) => take()))).map(approvalIn);
  }

  /**
   * Takes an answer of any kind, once, as a client sends it: a decision about an approval, or the
   * result of a call that the client was to make. With `runId` only for what that run asked.
   *
   * @throws PendingError As {@link decide}; `invalid_answer` also for a value that does not fit
   *   what was asked for
   * @example
   * await pending.answer(
   *   { toolCallId, result: { colour: 'red' } },
   *   { actor: user, tenant: user.tenantId },
   *   runId,
   * );
   */
  async answer(reply: GivenReply, person: Respondent<Actor>, runId?: string): Promise<PendingView> {
    return this.reply(readReply(reply), person, { ...(runId !== undefined && { runId }) });
  }

  /**
   * Withdraws what a run of this conversation asked, as the actor of that run.
   *
   * @param conversation the hash that the record bears
   * @throws PendingError As {@link decide}; `not_found` also for what was asked elsewhere
   * @example
   * await pending.withdrawIn(scope.conversation, { id }, { actor: user, tenant: user.tenantId });
   */
  async withdrawIn(
    conversation: string,
    { id, reason }: { readonly id: string; readonly reason?: string | undefined },
    actor: Respondent<Actor>,
  ): Promise<PendingView> {
    const record = await this.store.find(id);
    if (record?.conversation !== conversation || record.binding.tenant !== actor.tenant)
      throw new PendingError('not_found', 'Nothing of this id waits in this conversation.');
    return this.reply(
      { id, kind: record.kind, said: readDecision('withdraw', reason, ['withdraw']) },
      actor,
      {},
    );
  }

  private async reply(
    reply: ReadReply,
    person: Respondent<Actor>,
    { runId, amendment = {} }: { readonly runId?: string; readonly amendment?: ApprovalAmendment },
  ): Promise<PendingView> {
    const record = await this.meantBy(reply, person, runId);
    return this.witnessed(record, reply, person, () =>
      this.take(record, this.answerTo(record, reply, person, amendment)),
    );
  }

  /** Records it where an answer is refused. */
  private async witnessed<Result>(
    record: Pending,
    { said }: ReadReply,
    person: Respondent<Actor>,
    work: () => Promise<Result> | Result,
  ): Promise<Result> {
    const attempt = { decidedBy: this.identified(person).id, decision: said.decision };
    try {
      return await work();
    } catch (error) {
      if (error instanceof PendingError)
        await this.witness.refused(record, { ...attempt, code: error.code });
      throw error;
    }
  }

  /**
   * Returns the answer that a reply is. Throws a `PendingError` for what cannot be answered, not by
   * this person or not in this way.
   */
  private answerTo(
    record: Pending,
    reply: ReadReply,
    person: Respondent<Actor>,
    amendment: ApprovalAmendment = {},
  ): PendingAnswer {
    if (record.kind !== reply.kind)
      throw new PendingError('invalid_answer', 'This is no answer to what was asked.');
    this.assertOpen(record, reply);
    this.assertPermitted(record, person, reply, amendment);
    const { args, remember, endorse } = amendment;
    const amended = {
      ...(args && { args }),
      ...(remember && { remember }),
      ...(endorse && { endorse }),
    };
    return {
      ...this.fitting(record, reply),
      ...amended,
      decidedBy: this.identified(person).id,
      decidedAt: new Date().toISOString(),
    };
  }

  /**
   * Returns what was said, its value with the defaults of its schema. Throws a `PendingError` for a
   * value of another form.
   */
  private fitting({ schema }: Pending, { said }: ReadReply): Said {
    if (said.value === undefined) return said;
    if (Buffer.byteLength(JSON.stringify(said.value)) > MOST_VALUE_BYTES)
      throw new PendingError(
        'invalid_answer',
        `The answer has more than ${MOST_VALUE_BYTES} bytes.`,
      );
    // which fills in defaults: the value is a copy
    const problems = schema ? this.validators.validate(schema, said.value) : [];
    if (problems.length === 0) return said;
    const told = problems.map(({ pointer, message }) => `${pointer || 'It'} ${message}`).join('; ');
    throw new PendingError(
      'invalid_answer',
      `The answer does not have the form that was asked for: ${told}.`,
    );
  }

  /**
   * Records the decision, then stores it: a decision without a record must not count, and one that
   * comes too late must not be recorded as one.
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

  /**
   * Throws a `PendingError` for something of which there is nothing to answer now. What an operator
   * holds may be withdrawn.
   */
  private assertOpen(record: Pending, { said }: ReadReply): void {
    if (record.answer) throw decidedAlready(record.answer);
    if (isExpired(record)) throw new PendingError('expired', EXPIRED[record.kind]);
    const { tenant, declaredId } = record.binding;
    const tools =
      record.kind === 'rehearsal'
        ? record.request.calls.map((call) => call.declaredId)
        : [declaredId];
    if (said.decision !== 'withdraw' && tools.some((tool) => this.inForce?.isHeld(tenant, tool)))
      throw new PendingError(
        'held',
        'An operator has stopped the tool. What it asks is held, and can be answered once it is released.',
      );
  }

  /** Throws a `PendingError` if the approver may not answer, or may not answer in this way. */
  private assertPermitted(
    record: Pending,
    approver: Respondent<Actor>,
    { said }: ReadReply,
    amendment: ApprovalAmendment,
  ): void {
    const identified = this.identified(approver);
    const isWithdrawal = said.decision === 'withdraw';
    const refusal = isWithdrawal
      ? withdrawalRefusalFor(record, identified)
      : refusalFor(record, identified);
    if (refusal !== undefined) throw new PendingError('not_permitted', refusal);
    assertAmendment(record, said, amendment);
  }

  /** Throws a `PendingError` (`not_permitted`) for an actor without an id. */
  private identified({ actor }: Respondent<Actor>): IdentifiedApprover {
    const id = this.identity.idOf(actor);
    if (id !== undefined) return { id, roles: this.identity.rolesOf(actor) };
    throw new PendingError(
      'not_permitted',
      'A person who answers needs an id. Set ToolLoopModule.forRoot({ actorId: (actor) => … }).',
    );
  }
}

export const PAGE = 100;

/** The milliseconds for which a decision is claimed: longer than the audit takes for an entry. */
const CLAIM_MS = 15_000;

/** The pause of who waits for another's decision. */
const AGAIN_MS = 20;

/**
 * The person who lists or answers what runs ask, as the application identified them; never taken
 * from a client's body.
 */
export interface Respondent<Actor = RegisteredActor> {
  readonly actor: Actor;
  readonly tenant: string;
}

/** The filter of a list. The tenant is always the person's own. */
export interface PendingFilter extends Omit<PendingQuery, 'tenant'> {
  /** @default every kind */
  readonly kind?: PendingKind;
}

/**
 * Copies a record for a client, without the binding: its hash would reveal arguments that can be
 * guessed.
 */
function toView(record: Pending): PendingView {
  const {
    binding: _binding,
    conversation: _conversation,
    admitted: _admitted,
    rule: _rule,
    schema: _schema,
    expiresAt: _at,
    noticeAt: _noticeAt,
    ...view
  } = record;
  return view;
}

function toEntry(record: Pending, person: IdentifiedApprover): InboxEntry {
  const { requesterId } = record.binding;
  const mayAnswer = refusalFor(record, person) === undefined;
  return {
    ...toView(record),
    ...(requesterId !== undefined && { requestedBy: requesterId }),
    mayAnswer,
    ...answeringRoles(record),
  };
}

/** Far more than a run asks. */
const MOST_OF_A_RUN = 1_000;
/** The largest value that is taken, in bytes of canonical JSON. */
const MOST_VALUE_BYTES = 65_536;

function approvalIn(view: PendingView): PendingViewOf<'approval'> {
  if (view.kind === 'approval') return view;
  throw notFound();
}

function notFound(kind: PendingKind = 'approval'): PendingError {
  return new PendingError(
    'not_found',
    `There is no such ${kind === 'client' ? 'call of a client' : kind}.`,
  );
}

/** Tells whether an approval has expired, for a decision as well as for the use of one. */
export function isExpired({ expiresAt }: Pick<Pending, 'expiresAt'>): boolean {
  return Date.parse(expiresAt) <= Date.now();
}
