import type { ToolCallContext } from './tool-call.js';

/**
 * The port that turns a connection id into a credential for the tenant and the actor of a call.
 * `resolve` must throw if the connection is not theirs.
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

/**
 * A credential that a `ConnectionBroker` returns. A tool gets it wrapped: `token` can be read
 * during the call alone and throws afterwards, and the credential prints as `[secret]`. A token in
 * the tool's result, error or log is replaced by `[secret]`.
 */
export interface Credential {
  readonly connectionId: string;
  readonly token: string;
  readonly expiresAt?: Date;
}
