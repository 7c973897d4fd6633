import { BadRequestException, createParamDecorator, type ExecutionContext } from '@nestjs/common';
import type { Request } from 'express';

/** The parameter receives the sequence of the last event that a client has seen of the stream it lost; undefined for one that lost none. */
export const LastEventId = createParamDecorator((_options: unknown, context: ExecutionContext): number | undefined => {
  const text = context.switchToHttp().getRequest<Request>().headers['last-event-id'];
  if (text === undefined) return undefined;
  if (typeof text === 'string' && /^\d{1,9}$/.test(text)) return Number(text);
  throw new BadRequestException('Last-Event-ID must be the sequence of an event.');
});
