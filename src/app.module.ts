import { Module } from '@nestjs/common';
import { APP_FILTER } from '@nestjs/core';
import {
  ActorDirectory,
  ConnectionBroker,
  LanguageModel,
  Notifier,
  ToolLoopModule,
} from '@toolloop/core';
import { ToolLoopExceptionFilter } from '@toolloop/http';
import { offline } from '@toolloop/offline';
import { WebhookNotifier } from '@toolloop/toolbox';
import { PrometheusExporter } from '@opentelemetry/exporter-prometheus';
import { MeterProvider } from '@opentelemetry/sdk-metrics';
import { TelemetryModule } from '@toolloop/telemetry';
import { calendarDay, TODAY } from './desk/clock.js';
import { DeskHttpModule } from './http/http.module.js';
import { mayOperate, mayScrape, rolesOf, User, UserDirectory } from './identity/user.js';
import { CarrierAccounts, McpModule } from './mcp/mcp.module.js';
import { ModelModule } from './model.module.js';
import { CANDIDATES, DESK_POLICY } from './policy.js';
import { SETTINGS, SettingsModule, type Settings } from './settings.js';
import { auditKeyOf, StorageModule } from './storage.module.js';
import { ToolsModule } from './tools.module.js';
import { WelcomeController } from './welcome.js';

const INSTRUCTIONS = [
  'You help the staff of an order desk. Answer from what the tools return, never from memory, and say so when they return nothing.',
  'Find a customer or an order first: its own tools appear then. Ask back when several customers match a name.',
].join(' ');

/** A page of ten orders brings 40 tools. */
const MOST_INJECTED = 64;

/** Tells people what waits for them, if the settings say where. */
function notifierOf({ webhook }: Settings): Notifier | undefined {
  return webhook && new WebhookNotifier(webhook);
}

/** The metrics of this process, which a scraper reads. They are of all tenants together. */
const prometheus = new PrometheusExporter({ preventServerStart: true });
const meterProvider = new MeterProvider({ readers: [prometheus] });

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
        models: { brief: offline({ maxCalls: 1 }) },
        candidates: CANDIDATES,
        clientTools: ['screen__showPage'],
        limits: { injectedTools: MOST_INJECTED },
        actorClass: User,
        actorRoles: rolesOf,
        operators: mayOperate,
        audit: { key: auditKeyOf(settings) },
        // a receipt that is mailed twice does no harm
        directives: { operators: ['manager'], immediateEffects: 'allow' },
      }),
      providers: [
        { provide: ActorDirectory, useClass: UserDirectory },
        { provide: ConnectionBroker, useClass: CarrierAccounts },
      ],
    }),
    ModelModule,
    ToolsModule,
    DeskHttpModule, // it looks at the host of every request, also of those behind it
    TelemetryModule.forRoot({ meterProvider, metrics: { exporter: prometheus, allow: mayScrape } }),
    McpModule,
  ],
  controllers: [WelcomeController],
  providers: [
    { provide: APP_FILTER, useClass: ToolLoopExceptionFilter },
    { provide: Notifier, inject: [SETTINGS], useFactory: notifierOf },
  ],
})
export class AppModule {}
