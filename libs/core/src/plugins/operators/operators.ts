import type { JsonObject } from '@toolloop/protocol';
import type { AuditEvent } from '../../contracts/audit.js';
import {
  type Operator,
  type OperatorAction,
  OperatorError,
  type OperatorRule,
} from '../../contracts/operator.js';
import type { RegisteredActor } from '../../contracts/registered-actor.js';
import { Logger } from '../../findings/logger.js';
import type { ActorIdentity } from '../../policy/actor-identity.js';
import type { AuditTrail } from '../audit/audit-trail.js';

/**
 * Decides who may take the actions of operators, and records each use in the audit. Every service
 * for operators asks it, so that there is one answer.
 */
export class Operators<Actor = RegisteredActor> {
  private readonly logger = new Logger(Operators.name);

  constructor(
    private readonly rule: OperatorRule<Actor> | undefined,
    private readonly identity: ActorIdentity<Actor>,
    private readonly trail: AuditTrail | undefined,
  ) {}

  /**
   * Returns whether a person may take an action, for what is shown to them. Nothing is recorded:
   * call {@link use} before it is taken.
   */
  may({ actor, tenant: own }: Operator<Actor>, action: OperatorAction, tenant = own): boolean {
    const reach = this.reachOf(actor, action);
    return reach === 'all' || (reach === 'own' && tenant === own);
  }

  /**
   * Lets an operator take an action. It resolves once the use is in the audit of the tenant that it
   * is about; a refused one is in that of the person's own.
   *
   * @throws {OperatorError} Where they may not.
   * @throws {AuditError} Where the use cannot be recorded: then it must not happen.
   */
  async use(
    operator: Operator<Actor>,
    action: OperatorAction,
    use: OperatorUse = {},
  ): Promise<void> {
    const { tenant: own } = operator;
    const { tenant = own, everywhere = false } = use;
    const details = { ...use.details, ...(everywhere && { everywhere }) };
    const told = Object.keys(details).length > 0 && { details };
    if (
      everywhere
        ? this.reachOf(operator.actor, action) === 'all'
        : this.may(operator, action, tenant)
    ) {
      const from = tenant !== own && { operatorTenant: own };
      return this.record(operator, tenant, {
        kind: 'operator',
        action,
        granted: true,
        ...from,
        ...told,
      });
    }
    const of = tenant !== own && { ofTenant: tenant };
    const recording = this.record(operator, own, {
      kind: 'operator',
      action,
      granted: false,
      ...of,
      ...told,
    });
    await recording.catch((error: unknown) =>
      this.logger.error(`A refused action of operators (${action}) is not in the audit.`, error),
    );
    throw new OperatorError(action);
  }

  private async record(
    { actor }: Operator<Actor>,
    tenant: string,
    event: AuditEvent,
  ): Promise<void> {
    const actorId = this.identity.idOf(actor);
    await this.trail?.record({
      tenant,
      subject: { ...(actorId !== undefined && { actorId }) },
      event,
    });
  }

  private reachOf(actor: Actor, action: OperatorAction): 'none' | 'own' | 'all' {
    if (!this.rule) return 'none';
    try {
      const answer: unknown = this.rule(actor, action);
      if (answer === 'all') return 'all';
      if (typeof answer === 'boolean') return answer ? 'own' : 'none';
      this.logger.error(
        `forRoot({ operators }) has not answered true, false or 'all' at once for "${action}", so it is not permitted.`,
      );
    } catch (error) {
      this.logger.error(
        `forRoot({ operators }) failed for "${action}", so it is not permitted.`,
        error,
      );
    }
    return 'none';
  }
}

/** The object of an operator's action. */
export interface OperatorUse {
  /** The tenant whose data the action is about. @default the operator's own */
  readonly tenant?: string;
  /** Set for an action that is about all tenants. It is in the audit of the operator's own. */
  readonly everywhere?: boolean;
  /**
   * Facts for the audit, such as the version that was put in force. No secrets: operators of the
   * tenant read it.
   */
  readonly details?: JsonObject;
}
