import { Injectable } from '@nestjs/common';
import { Operators } from '../operators/operators.js';
import type { Operator } from '../../contracts/operator.js';
import { isUsable, type PendingApproval } from '../../contracts/pending.js';
import type { EndorsedArgument } from '../../contracts/policy.js';
import type { PolicyVersion } from '../../contracts/policy-store.js';
import type { RegisteredActor } from '../../contracts/registered-actor.js';
import { BoundedStores } from '../../call/bounded-stores.js';
import { WrittenStores } from '../written/written-stores.js';
import { readStoredVersion } from './dropped-levels.js';
import { PendingError } from '../inbox/pending-error.js';
import { ActorIdentity } from '../../policy/actor-identity.js';

/** The reason for which an operator trusts what is in a store. It is in the audit. */
export interface Endorsement {
  readonly reason: string;
}

/**
 * Lets operators trust what is from outside: the contents of a store, or a value for good. They
 * need the action `policy`, and each use is in the audit.
 */
@Injectable()
export class EndorsementService<Actor = RegisteredActor> {
  private readonly written: WrittenStores;

  constructor(
    private readonly stores: BoundedStores,
    private readonly operators: Operators<Actor>,
    private readonly identity: ActorIdentity,
  ) {
    this.written = new WrittenStores(stores.accounts);
  }

  /**
   * Trusts what is in a store of the operator's tenant by now, which a person has looked at.
   * Resolves to the number of writes that this is about; the next one makes the store one from
   * outside again.
   *
   * @throws {OperatorError} Where the person may not.
   * @example
   * await endorsements.endorse(
   *   'notes',
   *   { actor: user, tenant: user.tenantId },
   *   { reason: 'I read all of them.' },
   * );
   */
  async endorse(
    store: string,
    operator: Operator<Actor>,
    { reason }: Endorsement,
  ): Promise<number> {
    await this.operators.use(operator, 'policy', { details: { do: 'endorse', store, reason } });
    return this.written.endorse(operator.tenant, store);
  }

  /**
   * Tells whether what is in a store of the operator's tenant counts as from outside.
   *
   * @throws {OperatorError} Where the person may not.
   * @example
   * const mustBeRead = await endorsements.isFromOutside('notes', {
   *   actor: user,
   *   tenant: user.tenantId,
   * });
   */
  async isFromOutside(store: string, operator: Operator<Actor>): Promise<boolean> {
    await this.operators.use(operator, 'policy', { details: { do: 'isFromOutside', store } });
    return this.written.isOfOutside(operator.tenant, store);
  }

  /**
   * Trusts the value that an argument of an approved call has, in all further runs of the
   * operator's tenant: "always for this recipient". It makes a version of the tenant's policy,
   * which can be rolled back like any other, and holds for that very value of that argument of that
   * tool, as long as the application's policy has a rule which lets it (`endorsements` with
   * `always`).
   *
   * @throws {OperatorError} Where the person may not.
   * @throws {PendingError} For a call that the tenant has not, that no one has approved, or of
   *   which no rule lets the value be trusted for good.
   * @example
   * await endorsements.always(
   *   approvalId,
   *   { argument: 'to', reason: 'Our accountant.' },
   *   { actor: user, tenant: user.tenantId },
   * );
   */
  async always(
    approvalId: string,
    given: LastingEndorsement,
    operator: Operator<Actor>,
  ): Promise<PolicyVersion> {
    const { binding, request, answer } = await this.named(approvalId, given, operator);
    if (!answer || !isUsable(answer))
      throw new PendingError(
        'invalid_answer',
        'No one has approved this call, so nothing of it is trusted.',
      );
    const { argument, reason } = given;
    const { declaredId: tool } = binding;
    const value = (answer.args ?? request.args)[argument];
    if (value === undefined)
      throw new PendingError('invalid_answer', `The call was approved without "${argument}".`);
    await this.operators.use(operator, 'policy', {
      details: { do: 'endorse', tool, argument, approvalId, reason },
    });
    return this.trust({ tool, argument, value }, operator, reason);
  }

  /**
   * Adds a version that has all else of the newest. Operators may change the policy at the same
   * moment.
   */
  private async trust(
    value: EndorsedArgument,
    { actor, tenant }: Operator<Actor>,
    reason: string,
  ): Promise<PolicyVersion> {
    const author = this.identity.idOf(actor) ?? 'unknown';
    for (let attempt = 0; attempt < MOST_ATTEMPTS; attempt += 1) {
      const [newest] = await this.stores.policies.list({ tenant, limit: 1 });
      const { number, policies, endorsed = [] } = newest ? readStoredVersion(newest) : NO_VERSION;
      const said = {
        author,
        reason: reason.slice(0, MOST_REASON_CHARACTERS),
        at: new Date().toISOString(),
      };
      const version = {
        tenant,
        number: number + 1,
        ...(policies && { policies }),
        endorsed: [...endorsed, value],
        ...said,
      };
      if (await this.stores.policies.add(version)) return version;
    }
    throw new PendingError(
      'held',
      'The policy is being changed all the time. Try again in a moment.',
    );
  }

  /**
   * Ensures that a person may trust a value for good with a decision that they are about to take; a
   * refusal is in the audit.
   *
   * @throws {OperatorError} Where the person may not.
   * @throws {PendingError} As {@link always} does, but for the decision that is still to come,
   *   which must be a yes.
   * @example
   * await endorsements.assertAlways(
   *   approvalId,
   *   { argument: 'to', reason: 'Our accountant.' },
   *   operator,
   * );
   */
  async assertAlways(
    approvalId: string,
    given: LastingEndorsement,
    operator: Operator<Actor>,
    decision = 'approve',
  ): Promise<void> {
    const { binding } = await this.named(approvalId, given, operator);
    const { argument, reason } = given;
    if (decision !== 'approve')
      throw new PendingError('invalid_answer', 'Only with a yes is a value trusted.');
    const details = { do: 'endorse', tool: binding.declaredId, argument, approvalId, reason };
    if (!this.operators.may(operator, 'policy'))
      await this.operators.use(operator, 'policy', { details });
  }

  private async named(
    approvalId: string,
    { argument, reason }: LastingEndorsement,
    { tenant }: Operator<Actor>,
  ): Promise<PendingApproval> {
    const record =
      typeof approvalId === 'string' ? await this.stores.pending.find(approvalId) : undefined;
    if (record?.kind !== 'approval' || record.binding.tenant !== tenant)
      throw new PendingError('not_found', 'There is no such approval.');
    if (typeof reason !== 'string' || reason.trim() === '')
      throw new PendingError('invalid_answer', 'A reason is needed: it stays with the value.');
    if (record.request.mayEndorse?.always?.includes(argument)) return record;
    throw new PendingError(
      'invalid_answer',
      'The policy lets no one trust the value of that argument for good.',
    );
  }
}

const NO_VERSION: Pick<PolicyVersion, 'number' | 'policies' | 'endorsed'> = { number: 0 };

const MOST_ATTEMPTS = 10;

const MOST_REASON_CHARACTERS = 1_000;

/**
 * A value that is to be trusted in all further runs of a tenant: that of an argument of a call
 * which waits for approval, or was approved.
 */
export interface LastingEndorsement extends Endorsement {
  readonly argument: string;
}
