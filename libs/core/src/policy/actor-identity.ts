/** How the application tells who an actor is. */
export interface ActorIdentityOptions<Actor> {
  readonly actorId?: (actor: Actor) => string;
  readonly actorRoles?: (actor: Actor) => readonly string[];
}

/** What of an actor policies, approvals and the audit go by: an id and roles. */
export class ActorIdentity<Actor = unknown> {
  constructor(private readonly options: ActorIdentityOptions<Actor>) {}

  /** Undefined where nothing identifies the actor. */
  idOf(actor: Actor): string | undefined {
    const { actorId } = this.options;
    const id: unknown = actorId ? actorId(actor) : propertyOf(actor, 'id');
    return (typeof id === 'string' && id !== '') || typeof id === 'number' ? String(id) : undefined;
  }

  rolesOf(actor: Actor): readonly string[] {
    const { actorRoles } = this.options;
    const roles: unknown = actorRoles ? actorRoles(actor) : propertyOf(actor, 'roles');
    return Array.isArray(roles) ? roles.filter((role: unknown) => typeof role === 'string') : [];
  }
}

function propertyOf(actor: unknown, name: string): unknown {
  return typeof actor === 'object' && actor !== null ? Reflect.get(actor, name) : undefined;
}
