/**
 * Lists a member that carries a decorator of ours on its class: most classes of an application have
 * none, and are told apart by one look.
 */
export function recordMember(target: object, property: string | symbol): void {
  Reflect.defineMetadata(
    DECORATED_MEMBERS_METADATA,
    [...decoratedMembersOf(target), property],
    target,
  );
}

const DECORATED_MEMBERS_METADATA = 'toolloop:decorated-members';

/**
 * Returns the own members of a prototype, or of a class, that carry a decorator of ours; one with
 * several is listed as often.
 */
export function decoratedMembersOf(target: object): readonly (string | symbol)[] {
  return (Reflect.getOwnMetadata(DECORATED_MEMBERS_METADATA, target) ?? []) as readonly (
    string | symbol
  )[];
}
