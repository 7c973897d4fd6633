import { BadRequestException, type CanActivate, type ExecutionContext } from '@nestjs/common';
import { isDeeperThan } from '@toolloop/protocol';
import type { HttpRequest } from './http-options.js';

/**
 * Lets pass a body that validation can walk.
 *
 * @throws {BadRequestException} For a body that is nested deeper than 32 levels.
 */
export function assertShallow({ body }: Pick<HttpRequest, 'body'>): void {
  if (isDeeperThan(MAX_DEPTH, body))
    throw new BadRequestException(`The body is nested deeper than ${MAX_DEPTH} levels.`);
}

/**
 * Far deeper than any body of these routes, far shallower than the stack of the validation that
 * walks it.
 */
const MAX_DEPTH = 32;

/**
 * Guards a controller without callers, such as one that signs people in, from a body whose
 * validation would take the stack.
 */
export class ShallowBodies implements CanActivate {
  /** @throws {BadRequestException} For a body that is nested deeper than 32 levels. */
  canActivate(context: ExecutionContext): boolean {
    assertShallow(context.switchToHttp().getRequest<HttpRequest>());
    return true;
  }
}
