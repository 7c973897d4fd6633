import { inspect } from 'node:util';
import { HttpException } from '@nestjs/common';
import {
  addressable,
  isJsonList,
  type JsonValue,
  ToolError,
  type ToolFailure,
} from '@toolloop/protocol';
import { CallFailure } from '../../call/call-failure.js';
import type { Credential } from '../../contracts/connection-broker.js';
import type { Secret } from '../../contracts/secret.js';

/**
 * The credentials that were handed out during one call. The tool should say none of them; where it
 * does all the same, in a result, an error or a log line, `[secret]` stands in its place.
 */
export class CallCredentials {
  /** The longest first. */
  private secrets: ReadonlySet<string> = new Set();
  private growing: Iterable<Secret<string>> = [];

  /** `assertUsable` throws once the call is over. */
  handOut(credential: Credential, assertUsable: () => void): Credential {
    this.hide(credential.token);
    return new LeasedCredential(credential, assertUsable);
  }

  /**
   * Hides texts that the call may tell, such as headers that go out with it; those too that are
   * among them later.
   */
  hideAll(secrets: Iterable<Secret<string>>): void {
    this.growing = secrets;
  }

  private hide(secret: string): void {
    if (secret.length < LEAST_CHARACTERS || this.secrets.has(secret)) return;
    const forms = [...this.secrets, ...formsOf(secret)];
    // a form may hold another
    this.secrets = new Set(forms.toSorted((one, other) => other.length - one.length));
  }

  text(text: string): string {
    for (const secret of this.growing) this.hide(secret.reveal());
    let shown = text;
    for (const secret of this.secrets) shown = shown.replaceAll(secret, SHOWN);
    return shown;
  }

  json(value: JsonValue): JsonValue {
    if (typeof value === 'string') return this.text(value);
    if (typeof value !== 'object' || value === null) return value;
    if (isJsonList(value)) return value.map((item) => this.json(item));
    return Object.fromEntries(
      Object.entries(value).map(([name, item]) => [this.text(name), this.json(item)]),
    );
  }

  failure(failure: ToolFailure): ToolFailure {
    const problems = failure.problems?.map((problem) => ({
      ...problem,
      message: this.text(problem.message),
    }));
    return {
      ...failure,
      safeMessage: this.text(failure.safeMessage),
      ...(problems && { problems }),
    };
  }

  /** Returns an exception without the credential: itself, or an error of the same meaning. */
  error(thrown: unknown): unknown {
    const told = inspect(thrown, { depth: 8 });
    const shown = this.text(told);
    if (shown === told) return thrown;
    const copy = this.copyOf(thrown);
    copy.stack = shown;
    return copy;
  }

  /** Returns a logged value without the credential. */
  logged(detail: unknown): unknown {
    return typeof detail === 'string' ? this.text(detail) : this.error(detail);
  }

  private copyOf(thrown: unknown): Error {
    if (thrown instanceof CallFailure)
      return new CallFailure(this.failure(thrown.failure), {
        cause: this.error(thrown.cause),
        method: thrown.method,
      });
    if (thrown instanceof ToolError) {
      const { safeMessage, retryable, retryAfterMs, isOutcomeUnknown } = thrown;
      return new ToolError(this.text(safeMessage), {
        retryable,
        isOutcomeUnknown,
        ...(retryAfterMs !== undefined && { retryAfterMs }),
      });
    }
    if (thrown instanceof HttpException)
      return new HttpException(this.text(thrown.message), thrown.getStatus());
    return new Error(
      thrown instanceof Error
        ? this.text(thrown.message)
        : 'A value was thrown that contains a credential.',
    );
  }
}

const SHOWN = '[secret]';
/** Shorter than that it is no secret, and would take half of every text with it. */
const LEAST_CHARACTERS = 4;

/**
 * As it stands, in a URL, in JSON, and in base64: by itself, and within a longer text such as
 * `user:token`, as far as its own bytes decide the characters.
 */
function formsOf(token: string): string[] {
  const plain = [token, encodeURIComponent(addressable(token)), JSON.stringify(token).slice(1, -1)];
  const encoded = [
    Buffer.from(token).toString('base64'),
    ...[0, 1, 2].map((before) => encodedBehind(token, before)),
  ];
  return [...plain, ...encoded, ...encoded.map(asInUrl)];
}

const BITS = { ofByte: 8, ofCharacter: 6 } as const;

/**
 * The characters of base64 that a text decides behind so many other bytes, whatever those and what
 * follows are.
 */
function encodedBehind(text: string, before: number): string {
  const bytes = Buffer.concat([Buffer.alloc(before), Buffer.from(text)]);
  const first = Math.ceil((before * BITS.ofByte) / BITS.ofCharacter);
  return bytes
    .toString('base64')
    .slice(first, Math.floor((bytes.length * BITS.ofByte) / BITS.ofCharacter));
}

function asInUrl(encoded: string): string {
  return encoded.replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '');
}

/**
 * A credential for the duration of one call: afterwards its token cannot be read, and it never
 * prints.
 */
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
