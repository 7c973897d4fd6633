import { Body, Controller, Get, HttpCode, Param, Post, Query, Res, Sse, UseGuards, ValidationPipe } from '@nestjs/common';
import type { MessageEvent } from '@nestjs/common';
import { RunService, type RunReader, type RunView } from '@toolloop/durable';
import type { Response } from 'express';
import type { Observable } from 'rxjs';
import { Ask, toRunRequest } from '../chat/chat.dto.js';
import { IdempotencyKey, LastEventId } from '../http/request-parameters.js';
import { BearerGuard, CurrentUser } from '../identity/bearer.guard.js';
import { TicketGuard } from '../identity/ticket.guard.js';
import { User } from '../identity/user.js';
import { RunEvents } from './run-events.js';
import { EventsFrom, ForkFrom, RunListing, StopRun } from './runs.dto.js';

const CHECKED = new ValidationPipe({ transform: true, whitelist: true, forbidNonWhitelisted: true });
/** A ticket stands beside it in the address. */
const CHECKED_QUERY = new ValidationPipe({ transform: true, whitelist: true });

/** A user's durable runs. They go on in whichever process has room, and no connection has to be held for them. */
@Controller('runs')
export class RunsController {
  constructor(
    private readonly runs: RunService<User>,
    private readonly events: RunEvents,
  ) {}

  @Post()
  @HttpCode(202)
  @UseGuards(BearerGuard)
  async start(
    @Body(CHECKED) ask: Ask,
    @CurrentUser() user: User,
    @Res({ passthrough: true }) response: Response,
    @IdempotencyKey() requestId?: string,
  ): Promise<RunView> {
    return this.accepted(await this.runs.start(toRunRequest(ask, user, requestId)), user, response);
  }

  @Get()
  @UseGuards(BearerGuard)
  list(@Query(CHECKED) { status, after }: RunListing, @CurrentUser() user: User): Promise<readonly RunView[]> {
    return this.runs.list(readerOf(user), { ...(status && { status }), ...(after !== undefined && { after }) });
  }

  @Get(':runId')
  @UseGuards(BearerGuard)
  get(@Param('runId') runId: string, @CurrentUser() user: User): Promise<RunView> {
    return this.runs.get(runId, readerOf(user));
  }

  @Sse(':runId/events')
  @UseGuards(TicketGuard)
  async watch(
    @Param('runId') runId: string,
    @Query(CHECKED_QUERY) { after }: EventsFrom,
    @LastEventId() lastEventId: number | undefined,
    @CurrentUser() user: User,
  ): Promise<Observable<MessageEvent>> {
    if (lastEventId === undefined) return this.events.follow(runId, readerOf(user), after);
    return this.events.followAgain(runId, readerOf(user), lastEventId);
  }

  @Post(':runId/cancel')
  @HttpCode(202)
  @UseGuards(BearerGuard)
  async cancel(@Param('runId') runId: string, @Body(CHECKED) { reason }: StopRun, @CurrentUser() user: User): Promise<RunView> {
    await this.runs.cancel(runId, readerOf(user), reason);
    return this.runs.get(runId, readerOf(user));
  }

  @Post(':runId/fork')
  @HttpCode(202)
  @UseGuards(BearerGuard)
  async fork(
    @Param('runId') runId: string,
    @Body(CHECKED) { step }: ForkFrom,
    @CurrentUser() user: User,
    @Res({ passthrough: true }) response: Response,
    @IdempotencyKey() requestId?: string,
  ): Promise<RunView> {
    return this.accepted(await this.runs.fork(runId, step, readerOf(user), requestId), user, response);
  }

  private accepted(runId: string, user: User, response: Response): Promise<RunView> {
    response.location(`/runs/${runId}`);
    return this.runs.get(runId, readerOf(user));
  }
}

function readerOf(user: User): RunReader<User> {
  return { actor: user, tenant: user.tenantId };
}
