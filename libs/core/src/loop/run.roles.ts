import { Logger } from '@nestjs/common';
import { PolicyEngine, type Decision, type PolicyActor } from '../protocol/policy.js';

/** Roles as a strategy says them: those that hold, or all that the actor has. */
export type AssumedRoles = readonly string[] | 'all';

/** For whom policies decide right now, and by which. */
export interface Authority {
  readonly actor: PolicyActor;
  readonly policies: readonly PolicyEngine[];
}

const UNKNOWN: Decision = { kind: 'deny', rule: 'roles', reason: 'The roles of the actor could not be found out.', policyVersion: 'none' };

/** Stands before all policies where nobody knows what the actor is. */
class UnknownRoles extends PolicyEngine {
  override decide(): Decision {
    return UNKNOWN;
  }
}

/**
 * The roles of whom a run acts for: what the application says they are at this moment, and of those what the run assumes. It can assume less than there is,
 * never more.
 */
export class RunRoles {
  private readonly logger = new Logger(RunRoles.name);
  private listedFor: string;

  constructor(
    private readonly planned: Authority,
    private readonly read: () => readonly string[],
    private own: AssumedRoles | undefined,
    /** Of the run around a sub-run. */
    private readonly outer?: RunRoles,
  ) {
    this.listedFor = JSON.stringify(planned.actor);
  }

  /** What was assumed; undefined where nothing ever was. */
  get assumed(): AssumedRoles | undefined {
    return this.own;
  }

  assume(roles: AssumedRoles): void {
    this.own = roles;
  }

  /** Asked at every listing and every call, so that a role taken away is gone with the next. */
  now(): Authority {
    const { actor, policies } = this.planned;
    const assumed = this.held;
    try {
      return { actor: { tenant: actor.tenant, roles: this.read(), ...(assumed && { assumed }) }, policies };
    } catch (error) {
      this.logger.error('The roles of an actor could not be read, so everything is denied.', error);
      return { actor: { tenant: actor.tenant, roles: [] }, policies: [new UnknownRoles(), ...policies] };
    }
  }

  /** Whether they are others than those the tools were last listed for; from then on they are these. */
  hasChanged({ actor, policies }: Authority): boolean {
    const now = JSON.stringify(policies.length === this.planned.policies.length ? actor : UNKNOWN);
    if (now === this.listedFor) return false;
    this.listedFor = now;
    return true;
  }

  /** A sub-run holds no role that the run around it has laid down. */
  private get held(): readonly string[] | undefined {
    const around = this.outer?.held;
    if (this.own === undefined || this.own === 'all') return around;
    return around ? this.own.filter((role) => around.includes(role)) : this.own;
  }
}
