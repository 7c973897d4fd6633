/**
 * The port that loads the actor, as of now, when a run or a directive continues without a request:
 * in another process, or days later. The present roles of the actor decide what is permitted. One
 * class that extends it, a provider of any module, is found at the start.
 *
 * @example
 * class Staff extends ActorDirectory<User> {
 *   find(actorId: string, tenant: string): Promise<User | undefined> {
 *     return this.users.findOne({ id: actorId, tenant });
 *   }
 * }
 */
export abstract class ActorDirectory<Actor = unknown> {
  /** Returns the actor; undefined for one who is not there any more, or not in that tenant. */
  abstract find(actorId: string, tenant: string): Promise<Actor | undefined>;
}

/**
 * The port that says which tenants there are. With one, whatever acts for a tenant that it does not
 * know is `forbidden`: a run ends before its model is asked, a session is not opened, a call and a
 * directive are refused. Without one, every name is the name of a tenant. Provide it in
 * `forRoot({ providers })` or in a global module.
 *
 * A yes is believed for 60 s in each process, a no is asked again each time, so that a new tenant
 * is served at once. A directory that fails or hangs is treated as a store that does: nothing is
 * run for a tenant that cannot be looked up.
 *
 * @example
 * class Tenants extends TenantDirectory {
 *   async exists(tenant: string): Promise<boolean> {
 *     return (await this.accounts.count({ tenant, closedAt: null })) > 0;
 *   }
 * }
 */
export abstract class TenantDirectory {
  /** Returns whether there is such a tenant, and it may use the application. */
  abstract exists(tenant: string): Promise<boolean>;
}

/**
 * Types the actor once for the whole application:
 *
 * ```ts no-run
 * declare module '@toolloop/core' { interface Register { actor: User } }
 * ```
 */
export interface Register {}

/** The actor's type: what {@link Register} says, else `unknown`. */
export type RegisteredActor = Register extends { actor: infer Actor } ? Actor : unknown;
