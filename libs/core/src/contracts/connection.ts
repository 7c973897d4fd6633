import type { ToolCallContext } from './tool-call.js';

/**
 * A credential that a `ConnectionBroker` returned. `token` can be read only during the call;
 * afterwards it throws. The credential prints as `[secret]`, and if the token appears in the tool's
 * result, error or log, it is replaced by `[secret]`.
 */
export interface Credential {
  readonly connectionId: string;
  readonly token: string;
  readonly expiresAt?: Date;
}

/**
 * The port that turns a connection id into a credential for one tenant and actor. Throws if it is
 * not theirs.
 *
 * @example
 * class VaultBroker extends ConnectionBroker {
 *   async resolve(connectionId: string, { tenant }: ToolCallContext): Promise<Credential> {
 *     return { connectionId, token: await this.vault.read(tenant, connectionId) };
 *   }
 * }
 */
export abstract class ConnectionBroker {
  abstract resolve(connectionId: string, context: ToolCallContext): Promise<Credential>;
}
