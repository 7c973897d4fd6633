import { Module, type MiddlewareConsumer, type NestModule } from '@nestjs/common';
import { IdentityModule } from '../identity/identity.module.js';
import { RunsModule } from '../runs/runs.module.js';
import { ChatController } from './chat.controller.js';
import { NoReplayMiddleware } from './no-replay.middleware.js';
import { ToolsController } from './tools.controller.js';

@Module({ imports: [IdentityModule, RunsModule], controllers: [ChatController, ToolsController] })
export class ChatModule implements NestModule {
  configure(consumer: MiddlewareConsumer): void {
    consumer.apply(NoReplayMiddleware).forRoutes('chat/stream');
  }
}
