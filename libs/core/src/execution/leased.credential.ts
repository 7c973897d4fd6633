import { inspect } from 'node:util';
import type { Credential } from '../protocol/tool-call-context.js';

const SHOWN = '[secret]';

/** A credential for the duration of one call: afterwards its token cannot be read, and it never prints. */
export class LeasedCredential implements Credential {
  readonly connectionId: string;
  readonly expiresAt?: Date;
  readonly #credential: Credential;
  readonly #assertUsable: () => void;

  constructor(credential: Credential, assertUsable: () => void) {
    const { connectionId, expiresAt } = credential;
    this.connectionId = connectionId;
    if (expiresAt) this.expiresAt = expiresAt;
    this.#credential = credential;
    this.#assertUsable = assertUsable;
  }

  /** Throws once the call is over. */
  get token(): string {
    this.#assertUsable();
    return this.#credential.token;
  }

  toString(): string {
    return SHOWN;
  }

  toJSON(): string {
    return SHOWN;
  }

  [inspect.custom](): string {
    return SHOWN;
  }
}
