import { randomBytes } from 'node:crypto';
import { Controller, Injectable, Post, UnauthorizedException, UseGuards } from '@nestjs/common';
import { type Caller, CallerGuard, CurrentCaller, type HttpRequest } from '@toolloop/http';
import { isRecord } from '@toolloop/protocol';
import { SystemClock } from '../desk/clock.js';
import { User, userOfToken } from './user.js';

/** The key with which a browser opens one stream. */
export interface Ticket {
  readonly ticket: string;
  readonly expiresAt: Date;
}

interface IssuedTicket extends Ticket {
  readonly user: User;
  isUsed: boolean;
}

const LIFE_MS = 60_000;
const TICKET_BYTES = 32;
/**
 * Tickets of one user; the oldest gives way, so that a page which is reloaded often never gets
 * stuck.
 */
const MOST_PER_USER = 5;

/**
 * Hands out tickets, each good for one stream within a minute. `EventSource` cannot send headers,
 * and a bearer token in a URL would end up in logs and histories; a used ticket is worth nothing
 * there.
 */
@Injectable()
export class TicketOffice {
  /** The tickets of the last minute, in the order of issue. */
  private readonly issued = new Map<string, IssuedTicket>();

  constructor(private readonly clock: SystemClock) {}

  issue(user: User): Ticket {
    this.forget(user);
    const ticket = randomBytes(TICKET_BYTES).toString('base64url');
    const expiresAt = new Date(this.clock.now().getTime() + LIFE_MS);
    this.issued.set(ticket, { ticket, expiresAt, user, isUsed: false });
    return { ticket, expiresAt };
  }

  /**
   * Takes a ticket and answers with its user. A ticket opens one stream, and nothing else; an
   * `EventSource` that has lost it may read on with the same ticket, which starts nothing.
   */
  redeem(ticket: string, isAgain = false): User | undefined {
    const found = this.issued.get(ticket);
    if (!found || found.isUsed !== isAgain || found.expiresAt <= this.clock.now()) return undefined;
    found.isUsed = true;
    return found.user;
  }

  /** Drops what has expired, and a user's oldest tickets until there is room for one more. */
  private forget(user: User): void {
    const now = this.clock.now();
    for (const { ticket, expiresAt } of this.issued.values()) {
      if (expiresAt <= now) this.issued.delete(ticket);
    }
    const own = [...this.issued.values()].filter((issued) => issued.user.id === user.id);
    for (const { ticket } of own.slice(0, Math.max(0, own.length - MOST_PER_USER + 1)))
      this.issued.delete(ticket);
  }
}

/** The streams that a browser's `EventSource` opens. */
const STREAMS = /^\/(?:chat\/stream|runs\/[^/]+\/events)$/;

/**
 * Finds the user who asks: by a bearer token or, at a stream, where a browser can send no header,
 * by an unused `?ticket=`.
 *
 * @throws UnauthorizedException where neither names one.
 */
export function userOfRequest(
  { headers, query, url, method }: HttpRequest,
  office: TicketOffice,
): User {
  const isStream = method === 'GET' && STREAMS.test(url.split('?')[0] ?? '');
  const ticket = isStream && isRecord(query) ? query['ticket'] : undefined;
  if (typeof ticket !== 'string') return userOfHeader(headers.authorization);
  const user = office.redeem(ticket, headers['last-event-id'] !== undefined);
  if (!user)
    throw unauthorized(
      'The ticket is unknown, used or older than a minute. POST /chat/tickets gives a new one.',
    );
  return user;
}

/**
 * Finds the user whom an `Authorization` header names.
 *
 * @throws UnauthorizedException for a missing header or an unknown token.
 */
export function userOfHeader(header: string | undefined): User {
  if (!header)
    throw unauthorized('Send "Authorization: Bearer demo-alice", demo-bob, demo-mia or demo-ops.');
  const [, token] = /^Bearer +(\S+)$/i.exec(header) ?? [];
  const user = token && userOfToken(token);
  if (!user)
    throw unauthorized(
      'The bearer token is not known. The demo knows demo-alice, demo-bob, demo-mia and demo-ops.',
    );
  return user;
}

function unauthorized(message: string): UnauthorizedException {
  return new UnauthorizedException({ code: 'unauthorized', message });
}

/** Hands out tickets. */
@Controller('chat/tickets')
@UseGuards(CallerGuard)
export class TicketsController {
  constructor(private readonly tickets: TicketOffice) {}

  @Post()
  ticket(@CurrentCaller() { actor }: Caller): Ticket {
    if (actor instanceof User) return this.tickets.issue(actor);
    throw unauthorized('Only users of the desk get tickets.');
  }
}
