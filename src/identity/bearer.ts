import { UnauthorizedException } from '@nestjs/common';
import { userOfToken } from './demo-users.js';
import type { User } from './user.js';

/** The user an `Authorization` header names. Throws what becomes a 401. */
export function userOfHeader(header: string | undefined): User {
  if (!header) throw unauthorized('Send "Authorization: Bearer demo-alice", demo-bob or demo-mia.');
  const [, token] = /^Bearer +(\S+)$/i.exec(header) ?? [];
  const user = token && userOfToken(token);
  if (!user) throw unauthorized('The bearer token is not known. The demo knows demo-alice, demo-bob and demo-mia.');
  return user;
}

export function unauthorized(message: string): UnauthorizedException {
  return new UnauthorizedException({ code: 'unauthorized', message });
}
