import { Module } from '@nestjs/common';
import { SystemClock } from '../desk/clock.js';
import { TicketOffice, TicketsController } from './tickets.js';

@Module({
  controllers: [TicketsController],
  providers: [SystemClock, TicketOffice],
  exports: [TicketOffice],
})
export class IdentityModule {}
