/**
 * The port that loads who acts, as they are now, where a run or a directive goes on without a request: in another process, or days later. What they may do is
 * decided by their roles of that moment. One class that extends it, a provider of any module, is found at the start.
 */
export abstract class ActorDirectory<Actor = unknown> {
  /** Undefined for somebody who is not there any more, or not in that tenant. */
  abstract find(actorId: string, tenant: string): Promise<Actor | undefined>;
}
