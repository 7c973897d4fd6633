import { BadRequestException, createParamDecorator, ValidationPipe, type ExecutionContext } from '@nestjs/common';
import type { Request, Response } from 'express';

/** Refuses a body or a query with a property that its DTO does not name. */
export const STRICT = new ValidationPipe({ transform: true, whitelist: true, forbidNonWhitelisted: true });

/** Drops the properties that the DTO does not name. */
export const NAMED_ONLY = new ValidationPipe({ transform: true, whitelist: true });

/** Visible characters. A header that was sent twice is joined by a comma and a space, which is no key. */
const KEY = /^[\x21-\x7e]{1,255}$/;

/** The parameter receives the client's name for its request, or undefined. A request that is repeated under its name gets the same run, or the same refund. */
export const IdempotencyKey = createParamDecorator((_options: unknown, context: ExecutionContext): string | undefined => {
  const key = context.switchToHttp().getRequest<Request>().headers['idempotency-key'];
  if (key === undefined || (typeof key === 'string' && KEY.test(key))) return key;
  throw new BadRequestException('Idempotency-Key must be one text of 1 to 255 visible characters, such as a UUID.');
});

/** The parameter receives a signal that is aborted when the client goes away before it is answered. */
export const ClientSignal = createParamDecorator((_options: unknown, context: ExecutionContext): AbortSignal => {
  const response = context.switchToHttp().getResponse<Response>();
  const gone = new AbortController();
  response.once('close', () => {
    if (!response.writableFinished) gone.abort();
  });
  return gone.signal;
});

/** The parameter receives the sequence of the last event that a client has seen of a stream it lost, or undefined. */
export const LastEventId = createParamDecorator((_options: unknown, context: ExecutionContext): number | undefined => {
  const text = context.switchToHttp().getRequest<Request>().headers['last-event-id'];
  if (text === undefined) return undefined;
  if (typeof text === 'string' && /^\d{1,9}$/.test(text)) return Number(text);
  throw new BadRequestException('Last-Event-ID must be the sequence of an event.');
});
