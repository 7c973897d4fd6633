import { randomBytes } from 'node:crypto';
import { Injectable, type CanActivate, type ExecutionContext } from '@nestjs/common';
import type { HttpRequest } from '@toolloop/http';
import { isRecord } from '@toolloop/protocol';
import { SystemClock } from '../desk/clock.js';
import { unauthorized, userOfHeader, type IdentifiedRequest } from './bearer.guard.js';
import type { User } from './user.js';

/** The key with which a browser opens one stream. */
export interface Ticket {
  readonly ticket: string;
  readonly expiresAt: Date;
}

interface IssuedTicket extends Ticket {
  readonly user: User;
}

const LIFE_MS = 60_000;
const TICKET_BYTES = 32;
/** Unused tickets of one user; the oldest gives way, so that a page which is reloaded often never gets stuck. */
const MOST_PER_USER = 5;

/**
 * Hands out tickets, each good for one stream within a minute. `EventSource` cannot send headers, and a bearer token in a URL would end up in logs
 * and histories; a used ticket is worth nothing there.
 */
@Injectable()
export class TicketOffice {
  /** The unused tickets, in the order of issue. */
  private readonly issued = new Map<string, IssuedTicket>();

  constructor(private readonly clock: SystemClock) {}

  issue(user: User): Ticket {
    this.forget(user);
    const ticket = randomBytes(TICKET_BYTES).toString('base64url');
    const expiresAt = new Date(this.clock.now().getTime() + LIFE_MS);
    this.issued.set(ticket, { ticket, expiresAt, user });
    return { ticket, expiresAt };
  }

  /** Takes a ticket and answers with its user. A ticket is good once. */
  redeem(ticket: string): User | undefined {
    const found = this.issued.get(ticket);
    this.issued.delete(ticket);
    return found && found.expiresAt > this.clock.now() ? found.user : undefined;
  }

  /** Drops what has expired, and a user's oldest tickets until there is room for one more. */
  private forget(user: User): void {
    const now = this.clock.now();
    for (const { ticket, expiresAt } of this.issued.values()) {
      if (expiresAt <= now) this.issued.delete(ticket);
    }
    const own = [...this.issued.values()].filter((issued) => issued.user.id === user.id);
    for (const { ticket } of own.slice(0, Math.max(0, own.length - MOST_PER_USER + 1))) this.issued.delete(ticket);
  }
}

/**
 * Finds the user who asks: by a bearer token or, where no header can be sent, by an unused `?ticket=`.
 *
 * @throws UnauthorizedException where neither names one.
 */
export function userOfRequest({ headers, query }: Pick<HttpRequest, 'headers' | 'query'>, office: TicketOffice): User {
  const ticket = isRecord(query) ? query['ticket'] : undefined;
  if (typeof ticket !== 'string') return userOfHeader(headers.authorization);
  const user = office.redeem(ticket);
  if (!user) throw unauthorized('The ticket is unknown, used or older than a minute. POST /chat/tickets gives a new one.');
  return user;
}

/** Lets in a user with a bearer token or a ticket. */
@Injectable()
export class TicketGuard implements CanActivate {
  constructor(private readonly office: TicketOffice) {}

  canActivate(context: ExecutionContext): boolean {
    const request = context.switchToHttp().getRequest<IdentifiedRequest>();
    request.user = userOfRequest(request, this.office);
    return true;
  }
}
