import { Module } from '@nestjs/common';
import { SystemClock } from '../time/clock.js';
import { BearerGuard } from './bearer.guard.js';
import { TicketGuard } from './ticket.guard.js';
import { TicketOffice } from './ticket.office.js';

@Module({ providers: [SystemClock, BearerGuard, TicketGuard, TicketOffice], exports: [BearerGuard, TicketGuard, TicketOffice] })
export class IdentityModule {}
