import { ConfigurableModuleBuilder, Module } from '@nestjs/common';
import { RouterModule } from '@nestjs/core';
import { CallerGuard } from './caller.js';
import { ToolLoopExceptionFilter } from './exception-filter.js';
import { HTTP_OPTIONS, type ToolLoopHttpExtras, type ToolLoopHttpOptions } from './http-options.js';
import { HealthController } from './health.controller.js';
import { ApprovalsController, PendingController, QuestionsController } from './pending.controller.js';
import { PoliciesController } from './policies.controller.js';
import { AuditController, ConversationsController, DirectivesController, UsageController } from './records.controller.js';
import { RunsController } from './runs.controller.js';
import { ServedLoop } from './served-loop.js';
import { ExplainController, ToolsController } from './tools.controller.js';

const { ConfigurableModuleClass } = new ConfigurableModuleBuilder<ToolLoopHttpOptions>({ optionsInjectionToken: HTTP_OPTIONS })
  .setClassMethodName('forRoot')
  .setExtras<ToolLoopHttpExtras>({}, (definition, { path = '' }) => ({
    ...definition,
    global: true, // so that controllers of the application ask who calls as these do
    imports: [...(definition.imports ?? []), ...prefixed(path.replace(/^\/+|\/+$/g, ''))],
  }))
  .build();

/**
 * The routes of a Toolloop application, on Express and Fastify: runs and what they ask. Import it beside `ToolLoopModule.forRoot`, and say who is asking.
 *
 * @example
 * ToolLoopHttpModule.forRoot({ identity: (request) => users.ofToken(request.headers.authorization) })
 */
@Module({
  controllers: [
    RunsController,
    ApprovalsController,
    QuestionsController,
    PendingController,
    ToolsController,
    ExplainController,
    ConversationsController,
    DirectivesController,
    PoliciesController,
    AuditController,
    UsageController,
    HealthController,
  ],
  providers: [ServedLoop, CallerGuard, ToolLoopExceptionFilter],
  exports: [ServedLoop, CallerGuard, ToolLoopExceptionFilter, HTTP_OPTIONS],
})
export class ToolLoopHttpModule extends ConfigurableModuleClass {}

function prefixed(path: string): ReturnType<typeof RouterModule.register>[] {
  return path === '' ? [] : [RouterModule.register([{ path, module: ToolLoopHttpModule }])];
}
