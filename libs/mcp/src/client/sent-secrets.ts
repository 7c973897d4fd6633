import { Secret } from '@toolloop/core';

/**
 * The texts that a server is sent and must not tell: those of its options, and the latest
 * credentials that its `authProvider` has put into requests. The latter are known when they are
 * sent, since a provider may get another token in the middle of a call. Iterated anew for each
 * text, it has also those that were sent meanwhile.
 */
export class SentSecrets implements Iterable<Secret<string>> {
  private sent: readonly Secret<string>[] = [];

  /** `fixed` go out with each request. */
  constructor(private readonly fixed: readonly Secret<string>[]) {}

  /** Takes note of a request before it is sent. */
  note({ headers, body }: Pick<RequestInit, 'headers' | 'body'>): void {
    const found = new Set([
      ...inHeader(new Headers(headers).get('authorization')),
      ...inForm(body),
    ]);
    const earlier = this.sent.filter((one) => !found.has(one.reveal()));
    this.sent = [...earlier, ...[...found].map((one) => new Secret(one))].slice(-MOST_KEPT);
  }

  *[Symbol.iterator](): Generator<Secret<string>> {
    yield* this.fixed;
    yield* this.sent;
  }
}

/** The parts of a request for tokens that are credentials. */
const SECRET_FIELDS = [
  'client_secret',
  'client_assertion',
  'refresh_token',
  'code',
  'code_verifier',
  'password',
] as const;

/** An answer may tell a credential that was replaced a while ago; none is kept for ever. */
const MOST_KEPT = 16;

/** The credential of a header: a token, or the password of a client. */
function inHeader(header: string | null): readonly string[] {
  const [, scheme = '', given = ''] = /^\s*(\S+)\s+(\S+)\s*$/.exec(header ?? '') ?? [];
  if (given === '') return [];
  if (scheme.toLowerCase() !== 'basic') return [given];
  const plain = Buffer.from(given, 'base64').toString();
  const password = plain.slice(plain.indexOf(':') + 1);
  return [given, password, decodedForm(password)];
}

/** A client writes its password into the header as a form would. */
function decodedForm(text: string): string {
  return new URLSearchParams(`value=${text}`).get('value') ?? text;
}

function inForm(body: RequestInit['body']): readonly string[] {
  const isForm =
    body instanceof URLSearchParams || (typeof body === 'string' && /^[\w.~%+-]+=/.test(body));
  if (!isForm) return [];
  const form = new URLSearchParams(body);
  return SECRET_FIELDS.flatMap((name) => form.getAll(name)).filter((value) => value !== '');
}
