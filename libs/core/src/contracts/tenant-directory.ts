/**
 * The port that says which tenants there are. With one, whatever acts for a tenant that it does not
 * know is `forbidden`: a run ends before its model is asked, a session is not opened, a call and a
 * directive are refused. Without one, every name is the name of a tenant. Provide it in
 * `forRoot({ providers })` or in a global module.
 *
 * A yes is believed for 60 s in each process, a no is asked again each time, so that a new tenant
 * is served at once. A directory that fails or hangs is treated as a store that does: nothing is
 * run for a tenant that cannot be looked up.
 *
 * @example
 * class Tenants extends TenantDirectory {
 *   async exists(tenant: string): Promise<boolean> {
 *     return (await this.accounts.count({ tenant, closedAt: null })) > 0;
 *   }
 * }
 */
export abstract class TenantDirectory {
  /** Returns whether there is such a tenant, and it may use the application. */
  abstract exists(tenant: string): Promise<boolean>;
}
