import { Module } from '@nestjs/common';
import { SystemClock } from '../desk/clock.js';
import { BearerGuard } from './bearer.guard.js';
import { TicketGuard, TicketOffice } from './ticket.guard.js';

@Module({ providers: [SystemClock, BearerGuard, TicketGuard, TicketOffice], exports: [BearerGuard, TicketGuard, TicketOffice] })
export class IdentityModule {}
