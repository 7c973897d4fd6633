import { Module, type MiddlewareConsumer, type NestModule } from '@nestjs/common';
import { ActorDirectory, ConnectionBroker, LanguageModel, ToolLoopModule } from '@toolloop/core';
import { ApprovalsModule } from './approvals/approvals.module.js';
import { auditKeyOf, AuditModule } from './audit/audit.module.js';
import { ChatModule } from './chat/chat.module.js';
import { calendarDay, TODAY } from './desk/clock.js';
import { DirectivesModule } from './directives/directives.module.js';
import { HealthController } from './health.controller.js';
import { HostMiddleware } from './http/configure.js';
import { isOperator, rolesOf, User, UserDirectory } from './identity/user.js';
import { CarrierAccounts, McpModule } from './mcp/mcp.module.js';
import { ModelModule } from './model.module.js';
import { PoliciesModule } from './policies/policies.module.js';
import { DESK_POLICY } from './policy.js';
import { RunsModule } from './runs/runs.module.js';
import { SETTINGS, SettingsModule, type Settings } from './settings.js';
import { StorageModule } from './storage.module.js';
import { ToolsModule } from './tools.module.js';
import { UsageModule } from './usage/usage.module.js';
import { WelcomeController } from './welcome.js';

const INSTRUCTIONS = [
  'You help the staff of an order desk. Answer from what the tools return, never from memory, and say so when they return nothing.',
  'Find a customer or an order first: its own tools appear then. Ask back when several customers match a name.',
].join(' ');

/** A page of ten orders brings 40 tools. */
const MOST_INJECTED = 64;

/** The order desk: its features, the loop, and the routes to it. */
@Module({
  imports: [
    SettingsModule,
    StorageModule,
    ToolLoopModule.forRootAsync({
      imports: [ModelModule, SettingsModule],
      inject: [LanguageModel, SETTINGS],
      useFactory: (model: LanguageModel, settings: Settings) => ({
        model,
        instructions: `${INSTRUCTIONS} Today is ${calendarDay(TODAY)}.`,
        policy: DESK_POLICY,
        clientTools: ['screen__showPage'],
        limits: { injectedTools: MOST_INJECTED },
        actorClass: User,
        actorRoles: rolesOf,
        operators: isOperator,
        audit: { key: auditKeyOf(settings) },
        directives: { operators: ['manager'], immediateEffects: 'allow' }, // a receipt that is mailed twice does no harm
      }),
      providers: [
        { provide: ActorDirectory, useClass: UserDirectory },
        { provide: ConnectionBroker, useClass: CarrierAccounts },
      ],
    }),
    ModelModule,
    ToolsModule,
    ChatModule,
    RunsModule,
    ApprovalsModule,
    AuditModule,
    DirectivesModule,
    UsageModule,
    PoliciesModule,
    McpModule,
  ],
  controllers: [WelcomeController, HealthController],
})
export class AppModule implements NestModule {
  configure(consumer: MiddlewareConsumer): void {
    consumer.apply(HostMiddleware).forRoutes('{*path}');
  }
}
