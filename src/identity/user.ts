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
