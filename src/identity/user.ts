export type Role = 'support' | 'manager';

/** Who asks: the actor of every run. */
export class User {
  constructor(
    readonly id: string,
    readonly name: string,
    readonly tenantId: string,
    readonly role: Role,
  ) {}
}

/** What an actor may be called by in policies and approvals. */
export function rolesOf(actor: unknown): readonly Role[] {
  return actor instanceof User ? [actor.role] : [];
}
