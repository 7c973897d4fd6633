import type { IncomingMessage } from 'node:http';
import { Injectable } from '@nestjs/common';
import { ActorDirectory } from '@toolloop/core';
import { type OperatorAction } from '@toolloop/core/policy';

export type Role = 'support' | 'manager' | 'operator';

/** The person who asks: the actor of every run. */
export class User {
  constructor(
    readonly id: string,
    readonly name: string,
    readonly tenantId: string,
    readonly role: Role,
  ) {}
}

/** A user as the services of Toolloop take one: the actor, and the tenant in which it acts. */
export interface Principal {
  readonly actor: User;
  readonly tenant: string;
}

export function principalOf(user: User): Principal {
  return { actor: user, tenant: user.tenantId };
}

/** The roles by which policies and approvals name an actor. */
export function rolesOf(actor: unknown): readonly Role[] {
  return actor instanceof User ? [actor.role] : [];
}

/**
 * Says who may take the actions of operators, in their own tenant: operators all of them, and
 * managers may read the audit.
 */
export function mayOperate(actor: unknown, action: OperatorAction): boolean {
  if (!(actor instanceof User)) return false;
  return actor.role === 'operator' || (actor.role === 'manager' && action === 'audit');
}

/** The bearer tokens of the demo. A real application verifies a signed token here. */
const USERS: ReadonlyMap<string, User> = new Map([
  ['demo-alice', new User('alice', 'Alice', 'acme', 'support')],
  ['demo-mia', new User('mia', 'Mia', 'acme', 'manager')],
  ['demo-ops', new User('ops', 'Otto', 'acme', 'operator')],
  ['demo-bob', new User('bob', 'Bob', 'globex', 'support')],
]);

/** The token of a scraper, who is no user and of no tenant. */
const SCRAPE_TOKEN = 'demo-scrape';

/**
 * Tells whether a request may read the metrics, which tell of all tenants: no operator of one of
 * them may.
 */
export function mayScrape({ headers }: IncomingMessage): boolean {
  return headers.authorization === `Bearer ${SCRAPE_TOKEN}`;
}

export function userOfToken(token: string): User | undefined {
  return USERS.get(token);
}

/**
 * Finds the user who says that they are at the desk themselves, which no program does that has only
 * their token. A real application asks for a password or a passkey.
 */
export function userOfWord(word: string): User | undefined {
  return [...USERS.values()].find(({ id }) => word === `${id} at the desk`);
}

export function userWith(actorId: string, tenant: string): User | undefined {
  return [...USERS.values()].find(({ id, tenantId }) => id === actorId && tenantId === tenant);
}

/**
 * Loads the actor where there is no request, such as when a directive is performed: a refund is
 * paid with the rights that the user has by then.
 */
@Injectable()
export class UserDirectory extends ActorDirectory<User> {
  override find(actorId: string, tenant: string): Promise<User | undefined> {
    return Promise.resolve(userWith(actorId, tenant));
  }
}
