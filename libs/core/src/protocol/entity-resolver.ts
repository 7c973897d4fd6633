import type { RegisteredActor } from './register.js';
import type { RunContext } from './tool-call-context.js';

/**
 * When an entity's instance is found anew by its resolver, instead of the one that a tool returned being called.
 *
 * - `always`: before every call, so that no call sees stale data or outlives a permission. What an instance keeps in itself between calls is lost.
 * - `on-resume`: when a run goes on after it waited, in whatever process, and then once.
 * - `never`: the instance that was returned is called for as long as the process has it.
 */
export type Rehydrate = 'never' | 'on-resume' | 'always';

export const REHYDRATE: readonly Rehydrate[] = ['never', 'on-resume', 'always'];

/** For whom an entity is looked up. It is shared by calls that need the instance at the same time, so nothing of a single call is in it. */
export interface EntityContext<Actor = RegisteredActor> extends RunContext<Actor> {
  /** Aborted with the run, or when the look-up has taken longer than `limits.toolCallMs`. */
  readonly signal: AbortSignal;
}

/**
 * The port that finds an entity again by its id, for whom the run acts for now. A class marked `@ToolEntityResolver(Customer)` is one; it need not extend this.
 */
export abstract class EntityResolver<Entity extends object, Actor = RegisteredActor> {
  /**
   * Undefined or null where there is no such instance, or none that this actor may have: the model reads the same of both (`tool_gone`). A Nest exception with
   * status 403 is told as `forbidden`; whatever else it throws is a failure that may pass. `instanceId` is text, whatever the property holds.
   */
  abstract resolve(instanceId: string, context: EntityContext<Actor>): Entity | null | undefined | Promise<Entity | null | undefined>;
}
