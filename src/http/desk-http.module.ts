import { Module } from '@nestjs/common';
import { DurableHealth } from '@toolloop/durable';
import { ToolLoopHttpModule, type ToolLoopHttpOptions } from '@toolloop/http';
import { Answer } from '../chat/chat.dto.js';
import { IdentityModule } from '../identity/identity.module.js';
import { TicketOffice, userOfRequest } from '../identity/ticket.guard.js';
import { principalOf, User } from '../identity/user.js';
import { termsFor } from '../policy.js';

/** The routes of the desk: those of every Toolloop application, with the desk's users, policy and form of an answer. */
@Module({
  imports: [
    ToolLoopHttpModule.forRootAsync({
      imports: [IdentityModule],
      inject: [TicketOffice, DurableHealth],
      useFactory: (tickets: TicketOffice, health: DurableHealth): ToolLoopHttpOptions => ({
        identity: (request) => principalOf(userOfRequest(request, tickets)),
        terms: ({ actor }) => (actor instanceof User ? termsFor(actor) : {}),
        output: Answer,
        argsOrigin: 'actor', // people fill in forms of the desk
        readiness: async () => {
          const { database, ...readiness } = await health.readiness();
          return { ...readiness, checks: { database } };
        },
      }),
    }),
  ],
})
export class DeskHttpModule {}
