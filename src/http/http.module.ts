import { Module } from '@nestjs/common';
import { ToolField } from '@toolloop/core';
import { ConsoleModule, type ConsoleCredentials } from '@toolloop/console';
import { DurableHealth } from '@toolloop/durable';
import { ToolLoopHttpModule, type ToolLoopHttpOptions } from '@toolloop/http';
import { IsArray, IsString, MaxLength } from 'class-validator';
import { IdentityModule } from '../identity/identity.module.js';
import { TicketOffice, userOfRequest } from '../identity/tickets.js';
import { principalOf, type Principal, User, userOfToken } from '../identity/user.js';
import { termsFor } from '../policy.js';
import { SETTINGS, SettingsModule, type Settings } from '../settings.js';

/** The form of an answer that a program reads. */
export class Answer {
  @ToolField({ description: 'The answer, in a sentence or two.' })
  @IsString()
  @MaxLength(4000)
  answer!: string;

  @ToolField({ description: 'Ids of the customers, orders, products and carts it rests on.' })
  @IsArray()
  @IsString({ each: true })
  sources!: string[];
}

/**
 * Lets a user into the console whose password is their token. A real application asks its own users
 * here.
 */
function login({ name, password }: ConsoleCredentials): Principal | undefined {
  const user = userOfToken(password);
  return user?.id === name.trim().toLowerCase() ? principalOf(user) : undefined;
}

/**
 * The routes of the desk: those of every Toolloop application, with the desk's users, policy and
 * form of an answer.
 */
@Module({
  imports: [
    ToolLoopHttpModule.forRootAsync({
      imports: [IdentityModule, SettingsModule],
      inject: [TicketOffice, DurableHealth, SETTINGS],
      useFactory: (
        tickets: TicketOffice,
        health: DurableHealth,
        settings: Settings,
      ): ToolLoopHttpOptions => ({
        identity: (request) => principalOf(userOfRequest(request, tickets)),
        terms: ({ actor }) => (actor instanceof User ? termsFor(actor) : {}),
        output: Answer,
        hosts: settings.allowedHosts,
        origins: settings.allowedOrigins,
        // four users share the desk, and tests of load are one of them
        limits: { requests: 0, openStreams: 100_000 },
        readiness: async () => {
          const { database, ...readiness } = await health.readiness();
          return { ...readiness, checks: { database } };
        },
      }),
    }),
    ConsoleModule.forRootAsync({
      imports: [SettingsModule],
      inject: [SETTINGS],
      useFactory: ({ consoleSecret }: Settings) => ({
        login,
        developer: () => login({ name: 'alice', password: 'demo-alice' }) ?? null,
        title: 'Order desk',
        ...(consoleSecret && { secret: consoleSecret }),
      }),
    }),
  ],
})
export class DeskHttpModule {}
