import { Injectable } from '@nestjs/common';
import { Operators } from '../audit/operators.js';
import type { Operator } from '../contracts/operator.js';
import type { RegisteredActor } from '../contracts/tool-call.js';
import { BoundedStores } from '../execution/bounded-stores.js';
import { WrittenStores } from '../execution/call-account.js';

/** The reason for which an operator trusts what is in a store. It is in the audit. */
export interface Endorsement {
  readonly reason: string;
}

/** Lets operators trust again what is in a store into which something from outside was written. They need the action `policy`, and each use is in the audit. */
@Injectable()
export class EndorsementService<Actor = RegisteredActor> {
  private readonly written: WrittenStores;

  constructor(
    stores: BoundedStores,
    private readonly operators: Operators<Actor>,
  ) {
    this.written = new WrittenStores(stores.accounts);
  }

  /**
   * Trusts what is in a store of the operator's tenant by now, which a person has looked at. Resolves to the number of writes that this is about; the next one makes the store one from outside again.
   *
   * @throws {OperatorError} Where the person may not.
   * @example
   * await endorsements.endorse('notes', { actor: user, tenant: user.tenantId }, { reason: 'I read all of them.' });
   */
  async endorse(store: string, operator: Operator<Actor>, { reason }: Endorsement): Promise<number> {
    await this.operators.use(operator, 'policy', { details: { do: 'endorse', store, reason } });
    return this.written.endorse(operator.tenant, store);
  }

  /**
   * Tells whether what is in a store of the operator's tenant counts as from outside.
   *
   * @throws {OperatorError} Where the person may not.
   * @example
   * const mustBeRead = await endorsements.isFromOutside('notes', { actor: user, tenant: user.tenantId });
   */
  async isFromOutside(store: string, operator: Operator<Actor>): Promise<boolean> {
    await this.operators.use(operator, 'policy', { details: { do: 'isFromOutside', store } });
    return this.written.isOfOutside(operator.tenant, store);
  }
}
