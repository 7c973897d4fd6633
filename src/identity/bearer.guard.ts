import { createParamDecorator, Injectable, UnauthorizedException, type CanActivate, type ExecutionContext } from '@nestjs/common';
import type { Request } from 'express';
import { userOfToken, type User } from './user.js';

/** A request whose user a guard has identified. */
export interface IdentifiedRequest extends Request {
  user?: User;
}

/** Lets in a user with a known bearer token. */
@Injectable()
export class BearerGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const request = context.switchToHttp().getRequest<IdentifiedRequest>();
    request.user = userOfHeader(request.headers.authorization);
    return true;
  }
}

/** The parameter receives the user whom the guard let in. */
export const CurrentUser = createParamDecorator((_options: unknown, context: ExecutionContext): User => {
  const { user } = context.switchToHttp().getRequest<IdentifiedRequest>();
  if (!user) throw unauthorized('This route has no guard that says who is asking.');
  return user;
});

/**
 * Finds the user whom an `Authorization` header names.
 *
 * @throws UnauthorizedException for a missing header or an unknown token.
 */
export function userOfHeader(header: string | undefined): User {
  if (!header) throw unauthorized('Send "Authorization: Bearer demo-alice", demo-bob, demo-mia or demo-ops.');
  const [, token] = /^Bearer +(\S+)$/i.exec(header) ?? [];
  const user = token && userOfToken(token);
  if (!user) throw unauthorized('The bearer token is not known. The demo knows demo-alice, demo-bob, demo-mia and demo-ops.');
  return user;
}

export function unauthorized(message: string): UnauthorizedException {
  return new UnauthorizedException({ code: 'unauthorized', message });
}
