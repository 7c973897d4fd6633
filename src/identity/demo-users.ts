import { User } from './user.js';

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
