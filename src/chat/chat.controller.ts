import { Body, Controller, HttpCode, Post, Query, RequestMethod, Sse, UseGuards, ValidationPipe, type MessageEvent } from '@nestjs/common';
import { ToolLoopService, type LoopResult } from '@toolloop/core';
import { toSse } from '@toolloop/ui-stream';
import type { Observable } from 'rxjs';
import { ClientSignal, IdempotencyKey } from '../http/request-parameters.js';
import { BearerGuard, CurrentUser } from '../identity/bearer.guard.js';
import { TicketGuard, TicketOffice, type Ticket } from '../identity/ticket.guard.js';
import { User } from '../identity/user.js';
import { RunEvents } from '../runs/run-events.js';
import { Answer, Ask, AskByBody, AskByUrl, toRunRequest } from './chat.dto.js';

const CHECKED = new ValidationPipe({ transform: true, whitelist: true, forbidNonWhitelisted: true });

/** Questions to the order desk: as a stream of the loop's events, or as one answer. */
@Controller('chat')
export class ChatController {
  constructor(
    private readonly loop: ToolLoopService<User>,
    private readonly tickets: TicketOffice,
    private readonly events: RunEvents,
  ) {}

  @Sse('', { method: RequestMethod.POST })
  @HttpCode(200)
  @UseGuards(BearerGuard)
  async chat(
    @Body(CHECKED) { durable = false, ...ask }: AskByBody,
    @CurrentUser() user: User,
    @IdempotencyKey() requestId?: string,
  ): Promise<Observable<MessageEvent>> {
    const request = toRunRequest(ask, user, requestId);
    if (durable && requestId !== undefined) return this.events.begin(request); // it may have been begun elsewhere
    return this.loop.stream({ ...request, durable }).pipe(toSse());
  }

  @Sse('stream')
  @UseGuards(TicketGuard)
  stream(@Query(CHECKED) ask: AskByUrl, @CurrentUser() user: User): Observable<MessageEvent> {
    return this.loop.stream(toRunRequest(ask, user)).pipe(toSse());
  }

  @Post('answer')
  @HttpCode(200)
  @UseGuards(BearerGuard)
  answer(
    @Body(CHECKED) ask: Ask,
    @CurrentUser() user: User,
    @ClientSignal() signal: AbortSignal,
    @IdempotencyKey() requestId?: string,
  ): Promise<LoopResult<Answer>> {
    return this.loop.run({ ...toRunRequest(ask, user, requestId), output: Answer, signal });
  }

  @Post('tickets')
  @UseGuards(BearerGuard)
  ticket(@CurrentUser() user: User): Ticket {
    return this.tickets.issue(user);
  }
}
