import { ConfigurationError } from '@toolloop/core';
import { StorageUnavailableError } from '@toolloop/protocol';
import { fromError } from './storage-error.js';

/**
 * Describes the mistake in the address of a server without ever quoting it: there is a password in
 * it.
 */
export function urlProblem(url: string): string | undefined {
  const isRead = URL.canParse(url) && /^postgres(ql)?:$/.test(new URL(url).protocol);
  if (!isRead)
    return 'It is not an address of the form postgres://user:password@host:5432/database.';
  // In `postgres://user:pass/word@host` the host would be the user, and the port a part of the
  // password.
  return new URL(url).pathname.includes('@')
    ? 'A character of its user or password, such as / or #, is not percent-encoded.'
    : undefined;
}

const AT = 'DurableModule url';

/** Describes the server and the user of an address: all of it that may be shown. */
function placeOf(url: string): string {
  const { hostname, port, pathname, username } = new URL(url);
  const database = decodeURIComponent(pathname.slice(1)) || username;
  return `${hostname || 'localhost'}:${port || '5432'}, database "${database}", user "${decodeURIComponent(username)}"`;
}

/** Why a server does not let us in, and what to do. */
export function unreachable(url: string, error: unknown): ConfigurationError {
  const { code, message } = fromError(StorageUnavailableError.in(error)?.cause ?? error);
  const said = withoutPassword(url, message).replace(/\.$/, '');
  return new ConfigurationError([
    {
      at: AT,
      problem: `PostgreSQL at ${placeOf(url)} cannot be used: ${said || code}.`,
      remedy: REMEDIES[code] ?? REMEDY,
    },
  ]);
}

function withoutPassword(url: string, text: string): string {
  const { password } = new URL(url);
  if (password === '') return text;
  return [password, decodeURIComponent(password)].reduce(
    (kept, secret) => kept.replaceAll(secret, '***'),
    text,
  );
}

const REMEDY =
  'Start the server and check host, port, user and database. Without a server, give a folder instead: { dataDir }.';

const REMEDIES: Readonly<Record<string, string>> = {
  '28P01': 'Check user and password; characters such as @ : / # are percent-encoded in an address.',
  '28000':
    'Let the user log in from here (pg_hba.conf), or check whether the server asks for TLS: ?sslmode=require.',
  '3D000': 'Create the database (createdb), or name one that exists.',
  '42501': 'Let the user create the schema "toolloop": grant create on database … to … .',
  '53300':
    'The server has no connection left: raise max_connections, or give fewer to each process ({ connections }).',
};
