import {
  ConfigurableModuleBuilder,
  Inject,
  type MiddlewareConsumer,
  Module,
  type NestModule,
  type Type,
} from '@nestjs/common';
import { HttpAdapterHost, RouterModule } from '@nestjs/core';
import { AccessMiddleware, CORS_HEADERS } from './access-middleware.js';
import { CallerGuard, Callers } from './caller.js';
import { CallerLimits } from './caller-limits.js';
import { ChatController } from './chat.controller.js';
import { ToolLoopExceptionFilter } from './exception-filter.js';
import {
  type ChatProtocol,
  extrasOf,
  HTTP_OPTIONS,
  type ToolLoopHttpExtras,
  type ToolLoopHttpOptions,
} from './http-options.js';
import { describeRoutes, ROUTE_DESCRIPTIONS } from './openapi.js';
import { HealthController } from './health.controller.js';
import { ApprovalsController } from './approvals.controller.js';
import { PendingController } from './pending.controller.js';
import { QuestionsController } from './questions.controller.js';
import { PoliciesController } from './policies.controller.js';
import { AuditController } from './audit.controller.js';
import { ConversationsController } from './conversations.controller.js';
import { DirectivesController } from './directives.controller.js';
import { UsageController } from './usage.controller.js';
import { OpenAiController } from './openai.controller.js';
import { SourcesController } from './sources.controller.js';
import { ViewAsController } from './view-as.controller.js';
import { ProtocolAnswers } from './protocol-answers.js';
import {
  AgUiController,
  AssistantController,
  ChatTurns,
  DataStreamController,
  UiMessageController,
} from './protocols.controller.js';
import { RunStreams } from './run-streams.js';
import { RehearsalsController, RunsController } from './runs.controller.js';
import { ServedLoop } from './served-loop.js';
import { ExplainController } from './explain.controller.js';
import { ToolsController } from './tools.controller.js';

const PROTOCOLS: Readonly<Record<ChatProtocol, Type>> = {
  'ai-sdk': UiMessageController,
  'ag-ui': AgUiController,
  'assistant-transport': AssistantController,
  'data-stream': DataStreamController,
  openai: OpenAiController,
};

/** The controllers that every application has. */
const CONTROLLERS: readonly Type[] = [
  ChatController,
  RunsController,
  RehearsalsController,
  ApprovalsController,
  QuestionsController,
  PendingController,
  ToolsController,
  ExplainController,
  ConversationsController,
  DirectivesController,
  PoliciesController,
  SourcesController,
  ViewAsController,
  AuditController,
  UsageController,
  HealthController,
];

/** The names alone count: an option of one of them is none of the others. */
const EXTRAS: Readonly<Record<keyof ToolLoopHttpExtras, undefined>> = {
  path: undefined,
  protocols: undefined,
};

const { ConfigurableModuleClass } = new ConfigurableModuleBuilder<ToolLoopHttpOptions>({
  optionsInjectionToken: HTTP_OPTIONS,
})
  .setClassMethodName('forRoot')
  .setExtras<ToolLoopHttpExtras>(EXTRAS, (definition, given) => {
    const { path, protocols } = extrasOf(given);
    return {
      ...definition,
      global: true, // so that controllers of the application ask who calls as these do
      imports: [...(definition.imports ?? []), ...prefixed(path)],
      controllers: [...new Set(protocols)].map((protocol) => PROTOCOLS[protocol]),
    };
  })
  .build();

/**
 * The routes of a Toolloop application, on Express and Fastify. Import it beside
 * `ToolLoopModule.forRoot`, and say who is asking.
 *
 * @example
 * ToolLoopHttpModule.forRoot({
 *   identity: (request) => users.ofToken(request.headers.authorization),
 * });
 */
@Module({
  controllers: [...CONTROLLERS],
  providers: [
    {
      provide: ROUTE_DESCRIPTIONS,
      useFactory: () => describeRoutes([...CONTROLLERS, ...Object.values(PROTOCOLS)]),
    },
    ServedLoop,
    CallerLimits,
    RunStreams,
    ProtocolAnswers,
    ChatTurns,
    Callers,
    CallerGuard,
    ToolLoopExceptionFilter,
  ],
  exports: [
    ServedLoop,
    CallerLimits,
    RunStreams,
    Callers,
    CallerGuard,
    ToolLoopExceptionFilter,
    HTTP_OPTIONS,
  ],
})
export class ToolLoopHttpModule extends ConfigurableModuleClass implements NestModule {
  constructor(
    @Inject(HTTP_OPTIONS) private readonly options: ToolLoopHttpOptions,
    private readonly adapters: HttpAdapterHost,
  ) {
    super();
  }

  configure(consumer: MiddlewareConsumer): void {
    const { origins = [] } = this.options;
    const { methods, allowedHeaders, exposedHeaders } = CORS_HEADERS;
    const cors = {
      methods: [...methods],
      allowedHeaders: [...allowedHeaders],
      exposedHeaders: [...exposedHeaders],
    };
    if (origins.length > 0) this.adapters.httpAdapter.enableCors({ origin: [...origins], ...cors });
    consumer.apply(AccessMiddleware).forRoutes('{*path}');
  }
}

function prefixed(path: string): ReturnType<typeof RouterModule.register>[] {
  return path === '' ? [] : [RouterModule.register([{ path, module: ToolLoopHttpModule }])];
}
