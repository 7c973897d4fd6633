import { createParamDecorator, type ExecutionContext } from '@nestjs/common';
import { unauthorized } from './bearer.js';
import type { IdentifiedRequest } from './identified-request.js';
import type { User } from './user.js';

/** The parameter receives whom the guard let in. */
export const CurrentUser = createParamDecorator((_options: unknown, context: ExecutionContext): User => {
  const { user } = context.switchToHttp().getRequest<IdentifiedRequest>();
  if (!user) throw unauthorized('This route has no guard that says who is asking.');
  return user;
});
