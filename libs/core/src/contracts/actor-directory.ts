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
