import { Injectable, type CanActivate, type ExecutionContext } from '@nestjs/common';
import { userOfHeader } from './bearer.js';
import type { IdentifiedRequest } from './identified-request.js';

/** Lets in who sends a known bearer token. */
@Injectable()
export class BearerGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const request = context.switchToHttp().getRequest<IdentifiedRequest>();
    request.user = userOfHeader(request.headers.authorization);
    return true;
  }
}
