/** Lets one task of a tenant run at a time, in the order they came; tenants do not wait for each other. */
export class TenantTurns {
  private readonly last = new Map<string, Promise<void>>();

  async take(tenant: string, task: () => Promise<void>): Promise<void> {
    const before = this.last.get(tenant);
    const mine = before ? before.then(task, task) : task();
    this.last.set(tenant, mine);
    try {
      await mine;
    } finally {
      if (this.last.get(tenant) === mine) this.last.delete(tenant);
    }
  }
}
