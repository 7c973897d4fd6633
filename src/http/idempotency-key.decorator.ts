import { BadRequestException, createParamDecorator, type ExecutionContext } from '@nestjs/common';
import type { Request } from 'express';

/** Visible characters. A header that was sent twice is joined by a comma and a space, and is none. */
const KEY = /^[\x21-\x7e]{1,255}$/;

/** The parameter receives what the client calls its request: when it repeats it, it gets the same run, or the same refund. Undefined where it does not say. */
export const IdempotencyKey = createParamDecorator((_options: unknown, context: ExecutionContext): string | undefined => {
  const key = context.switchToHttp().getRequest<Request>().headers['idempotency-key'];
  if (key === undefined || (typeof key === 'string' && KEY.test(key))) return key;
  throw new BadRequestException('Idempotency-Key must be one text of 1 to 255 visible characters, such as a UUID.');
});
