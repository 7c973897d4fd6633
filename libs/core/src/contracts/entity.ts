import type { RegisteredActor } from './registered-actor.js';
import type { RunContext } from './tool-call.js';

/**
 * The port that loads an entity again by its id, for the run's actor as of now. A class marked
 * `@ToolEntityResolver(Customer)` is one; it need not extend this.
 *
 * @example
 * class CustomerResolver extends EntityResolver<Customer, User> {
 *   resolve(id: string, { tenant }: EntityContext<User>): Promise<Customer | undefined> {
 *     return this.customers.findOne({ id, tenant });
 *   }
 * }
 */
export abstract class EntityResolver<Entity extends object, Actor = RegisteredActor> {
  /**
   * Returns undefined or null if there is no such instance, or none that this actor may have: the
   * model reads the same for both (`tool_gone`). A Nest exception with status 403 becomes
   * `forbidden`; any other exception is a failure that may pass. `instanceId` is always a string,
   * whatever the property holds.
   */
  abstract resolve(
    instanceId: string,
    context: EntityContext<Actor>,
  ): Entity | null | undefined | Promise<Entity | null | undefined>;
}

/**
 * When an entity's instance is loaded again by its resolver, instead of calling the one that a tool
 * returned.
 *
 * - `always`: before every call, so that no call sees stale data or outlives a permission. State
 *   that an instance keeps between calls is lost.
 * - `on-resume`: once, after a run was resumed, in whatever process.
 * - `never`: the instance that was returned is called for as long as the process has it.
 */
export type Rehydrate = 'never' | 'on-resume' | 'always';

/**
 * The run for which an entity is looked up. Calls that need the instance at the same time share one
 * look-up, so it contains nothing of a single call.
 */
export interface EntityContext<Actor = RegisteredActor> extends RunContext<Actor> {
  /** Aborted with the run, or when the look-up has taken longer than `limits.toolCallMs`. */
  readonly signal: AbortSignal;
}
