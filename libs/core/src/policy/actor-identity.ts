/** Reads the id and the roles of an actor, for policies, approvals and the audit. */
export class ActorIdentity<Actor = unknown> {
  constructor(private readonly options: ActorIdentityOptions<Actor>) {}

  /** Returns the id of an actor; undefined where the actor has none. */
  idOf(actor: Actor): string | undefined {
    const { actorId } = this.options;
    const id: unknown = actorId ? actorId(actor) : readProperty(actor, 'id');
    return (typeof id === 'string' && id !== '') || typeof id === 'number' ? String(id) : undefined;
  }

  rolesOf(actor: Actor): readonly string[] {
    const { actorRoles } = this.options;
    const roles: unknown = actorRoles ? actorRoles(actor) : readProperty(actor, 'roles');
    return Array.isArray(roles) ? roles.filter((role: unknown) => typeof role === 'string') : [];
  }
}

/** Options that identify an actor. */
export interface ActorIdentityOptions<Actor> {
  readonly actorId?: (actor: Actor) => string;
  readonly actorRoles?: (actor: Actor) => readonly string[];
}

function readProperty(actor: unknown, name: string): unknown {
  return typeof actor === 'object' && actor !== null ? Reflect.get(actor, name) : undefined;
}
