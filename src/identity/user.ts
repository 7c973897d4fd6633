import { Injectable } from '@nestjs/common';
import { ActorDirectory } from '@toolloop/core';

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

/** The bearer tokens of the demo. A real application verifies a signed token here. */
const USERS: ReadonlyMap<string, User> = new Map([
  ['demo-alice', new User('alice', 'Alice', 'acme', 'support')],
  ['demo-mia', new User('mia', 'Mia', 'acme', 'manager')],
  ['demo-bob', new User('bob', 'Bob', 'globex', 'support')],
]);

export function userOfToken(token: string): User | undefined {
  return USERS.get(token);
}

export function userOf(id: string, tenantId: string): User | undefined {
  return [...USERS.values()].find((user) => user.id === id && user.tenantId === tenantId);
}

/** Loads who acts where there is no request: in whose name a refund is paid is decided by who they are then. */
@Injectable()
export class UserDirectory extends ActorDirectory<User> {
  override find(actorId: string, tenant: string): Promise<User | undefined> {
    return Promise.resolve(userOf(actorId, tenant));
  }
}
