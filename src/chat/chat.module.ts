import { Injectable, Module, type MiddlewareConsumer, type NestMiddleware, type NestModule } from '@nestjs/common';
import type { NextFunction, Request, Response } from 'express';
import { IdentityModule } from '../identity/identity.module.js';
import { AiChatController } from './ai-chat.controller.js';
import { ChatController } from './chat.controller.js';

/**
 * An `EventSource` reconnects after a stream that ended well, and would have the same question answered again, tools and all. It then sends the id
 * of the last event it saw; the 204 tells it that this was the end. Express answers HEAD by the handler for GET: it would run the tools too.
 */
@Injectable()
export class NoReplayMiddleware implements NestMiddleware {
  use(request: Request, response: Response, next: NextFunction): void {
    if (request.method === 'HEAD') response.status(405).setHeader('allow', 'GET').end();
    else if (request.headers['last-event-id'] === undefined) next();
    else response.status(204).end();
  }
}

@Module({
  imports: [IdentityModule],
  controllers: [ChatController, AiChatController],
})
export class ChatModule implements NestModule {
  configure(consumer: MiddlewareConsumer): void {
    consumer.apply(NoReplayMiddleware).forRoutes('chat/stream');
  }
}
