import type { Decision } from '@toolloop/protocol';
import { type PolicyActor, PolicyEngine } from '../contracts/policy.js';
import { Logger } from '../findings/logger.js';
import { revisionOf } from '../policy/rules.js';
import { type Form, list, TEXT, wordOr } from '../schema/saved-form.js';

/**
 * The roles of whom a run acts for: what the application says they are at this moment, and of those
 * what the run assumes. It can assume less than there is, never more.
 */
export class RunRoles {
  private readonly logger = new Logger(RunRoles.name);
  private listedFor: string;
  private listedUnder: number;

  constructor(
    private readonly planned: PlannedAuthority,
    private readonly read: () => readonly string[],
    private own: AssumedRoles | undefined,
    /** The roles of the run around a sub-run. */
    private readonly outer?: RunRoles,
  ) {
    this.listedFor = JSON.stringify(planned.actor);
    this.listedUnder = planned.listedUnder;
  }

  /** Returns the assumed roles; undefined if none were ever assumed. */
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
      return {
        actor: { tenant: actor.tenant, roles: this.read(), ...(assumed && { assumed }) },
        policies,
      };
    } catch (error) {
      this.logger.error('The roles of an actor could not be read, so everything is denied.', error);
      return {
        actor: { tenant: actor.tenant, roles: [] },
        policies: [new UnknownRoles(), ...policies],
      };
    }
  }

  /**
   * Returns what has changed of the authority since the tools were last listed, and remembers this
   * one; undefined where nothing has.
   */
  changeIn({ actor, policies }: Authority): 'roles' | 'policy' | undefined {
    const now = JSON.stringify(policies.length === this.planned.policies.length ? actor : UNKNOWN);
    const revision = revisionOf(policies);
    const change =
      now !== this.listedFor ? 'roles' : revision === this.listedUnder ? undefined : 'policy';
    this.listedFor = now;
    this.listedUnder = revision;
    return change;
  }

  /** A sub-run holds no role that the run around it has laid down. */
  private get held(): readonly string[] | undefined {
    const around = this.outer?.held;
    if (this.own === undefined || this.own === 'all') return around;
    return around ? this.own.filter((role) => around.includes(role)) : this.own;
  }
}

/** Roles as a strategy says them: those that hold, or all that the actor has. */
export type AssumedRoles = readonly string[] | 'all';

export const SAVED_ROLES: Form<AssumedRoles> = wordOr('all', list(TEXT));

/** The actor for whom policies decide at present, and the policies. */
export interface Authority {
  readonly actor: PolicyActor;
  readonly policies: readonly PolicyEngine[];
}

/**
 * The authority for which the tools were listed when the run was prepared, and the revision of the
 * policies then.
 */
export interface PlannedAuthority extends Authority {
  readonly listedUnder: number;
}

const UNKNOWN: Decision = {
  kind: 'deny',
  rule: 'roles',
  reason: 'The roles of the actor could not be found out.',
  policyVersion: 'none',
};

/** Precedes all policies if the roles of the actor are unknown. */
class UnknownRoles extends PolicyEngine {
  override decide(): Decision {
    return UNKNOWN;
  }
}
