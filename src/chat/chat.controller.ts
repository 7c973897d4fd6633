import { Body, Controller, HttpCode, Post, Query, RequestMethod, Sse, UseGuards, type MessageEvent } from '@nestjs/common';
import { type LoopResult, ToolLoopService } from '@toolloop/core';
import { RunService } from '@toolloop/core/runs';
import { toSse } from '@toolloop/ui-stream';
import type { Observable } from 'rxjs';
import { ClientSignal, IdempotencyKey, STRICT } from '../http/request-parameters.js';
import { BearerGuard, CurrentUser } from '../identity/bearer.guard.js';
import { TicketGuard, TicketOffice, type Ticket } from '../identity/ticket.guard.js';
import { principalOf, User } from '../identity/user.js';
import { Answer, Ask, AskByBody, AskByUrl, toRunRequest } from './chat.dto.js';

/** Questions to the order desk: as a stream of the loop's events, or as one answer. */
@Controller('chat')
export class ChatController {
  constructor(
    private readonly loop: ToolLoopService<User>,
    private readonly tickets: TicketOffice,
    private readonly runs: RunService<User>,
  ) {}

  @Sse('', { method: RequestMethod.POST })
  @HttpCode(200)
  @UseGuards(BearerGuard)
  async chat(
    @Body(STRICT) { durable = false, structured = false, clientTools: declaredTools = [], ...ask }: AskByBody,
    @CurrentUser() user: User,
    @IdempotencyKey() requestId?: string,
  ): Promise<Observable<MessageEvent>> {
    const request = { ...toRunRequest(ask, user, requestId), declaredTools, ...(structured && { output: Answer }) };
    // the run may have been started by another process
    if (durable && requestId !== undefined) return this.runs.events(await this.runs.start(request), principalOf(user)).pipe(toSse());
    return this.loop.stream({ ...request, durable }).pipe(toSse());
  }

  @Sse('stream')
  @UseGuards(TicketGuard)
  stream(@Query(STRICT) ask: AskByUrl, @CurrentUser() user: User): Observable<MessageEvent> {
    return this.loop.stream(toRunRequest(ask, user)).pipe(toSse());
  }

  @Post('answer')
  @HttpCode(200)
  @UseGuards(BearerGuard)
  answer(
    @Body(STRICT) ask: Ask,
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
