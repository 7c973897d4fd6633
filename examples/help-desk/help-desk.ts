/**
 * A help desk: its assistant finds tickets, and closing one waits for a lead, who says yes or no in
 * the inbox of the console.
 *
 * `npm run example -- help-desk`
 */
import { Injectable, Module } from '@nestjs/common';
import { ConsoleModule } from '@toolloop/console';
import {
  ActorDirectory,
  LlmTool,
  type Policy,
  ToolLoopModule,
  ToolParam,
  ToolProvider,
} from '@toolloop/core';
import { type Caller, type HttpRequest, ToolLoopHttpModule } from '@toolloop/http';
import { offline } from '@toolloop/offline';
import { Expose } from 'class-transformer';
import { runIfMain, serve } from '../run.js';

interface Person {
  readonly id: string;
  readonly roles: readonly string[];
}

/** The people of the desk. Their token is their name, and so is their password. */
const PEOPLE: readonly Person[] = [
  { id: 'ann', roles: ['agent'] },
  { id: 'lee', roles: ['lead'] },
];

@Injectable()
class People extends ActorDirectory<Person> {
  override find(id: string): Promise<Person | undefined> {
    return Promise.resolve(PEOPLE.find((person) => person.id === id));
  }
}

function callerOf(id: string | undefined): Caller<Person> | undefined {
  const actor = PEOPLE.find((person) => person.id === id);
  return actor && { actor, tenant: 'acme' };
}

/** A ticket. What it can do becomes tools when a tool returns it. */
@ToolProvider({ prefix: 'ticket' })
export class Ticket {
  @Expose() readonly id: string;
  @Expose() readonly subject: string;
  @Expose() status: 'open' | 'closed' = 'open';

  constructor(id: string, subject: string) {
    this.id = id;
    this.subject = subject;
  }

  @LlmTool({ description: 'Close this ticket.', effect: 'state_change', reveal: 'all' })
  close(): string {
    this.status = 'closed';
    return `Ticket ${this.id} is closed.`;
  }
}

@Injectable()
@ToolProvider({ namespace: 'tickets' })
export class TicketTools {
  readonly tickets = [
    new Ticket('t-1', 'The printer is on fire'),
    new Ticket('t-2', 'The invoice is wrong'),
  ];

  @LlmTool({
    description: 'Find tickets by words of their subject.',
    effect: 'read_only',
    output: [Ticket],
  })
  find(@ToolParam('subject', { description: 'Words of the subject.' }) subject: string): Ticket[] {
    return this.tickets.filter((ticket) =>
      ticket.subject.toLowerCase().includes(subject.toLowerCase()),
    );
  }
}

const policy: Policy = {
  allow: ['tickets__*', 'ticket_*_*'],
  requireApproval: [
    {
      tools: ['ticket_*_close'],
      roles: ['lead'],
      notRequester: true,
      reason: 'A lead looks at what is closed.',
    },
  ],
};

@Module({
  imports: [
    ToolLoopModule.forRoot({
      model: offline(),
      policy,
      providers: [{ provide: ActorDirectory, useClass: People }],
    }),
    ToolLoopHttpModule.forRoot({
      identity: ({ headers }: HttpRequest) =>
        callerOf(headers.authorization?.replace('Bearer ', '')),
    }),
    ConsoleModule.forRoot({
      login: ({ name, password }) => (name === password ? callerOf(name) : undefined),
      developer: () => callerOf('lee'),
      title: 'Help desk',
    }),
  ],
  providers: [TicketTools],
})
export class HelpDeskModule {}

await runIfMain(import.meta.url, () => serve(HelpDeskModule));
