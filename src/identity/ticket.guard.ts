import { Injectable, type CanActivate, type ExecutionContext } from '@nestjs/common';
import { unauthorized, userOfHeader } from './bearer.js';
import type { IdentifiedRequest } from './identified-request.js';
import { TicketOffice } from './ticket.office.js';
import type { User } from './user.js';

/** Lets in who sends a bearer token or, where no header can be sent, an unused `?ticket=`. */
@Injectable()
export class TicketGuard implements CanActivate {
  constructor(private readonly office: TicketOffice) {}

  canActivate(context: ExecutionContext): boolean {
    const request = context.switchToHttp().getRequest<IdentifiedRequest>();
    const { ticket } = request.query;
    request.user = typeof ticket === 'string' ? this.userOfTicket(ticket) : userOfHeader(request.headers.authorization);
    return true;
  }

  private userOfTicket(ticket: string): User {
    const user = this.office.redeem(ticket);
    if (!user) throw unauthorized('The ticket is unknown, used or older than a minute. POST /chat/tickets gives a new one.');
    return user;
  }
}
