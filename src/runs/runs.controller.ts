import { Body, Controller, Get, HttpCode, Param, Post, Query, RequestMethod, Res, Sse, UseGuards, type MessageEvent } from '@nestjs/common';
import { type LoopResult, type PendingView, ToolLoopService } from '@toolloop/core';
import { RunService, type RunUndoing, type RunView } from '@toolloop/core/runs';
import { toSse } from '@toolloop/ui-stream';
import type { Response } from 'express';
import type { Observable } from 'rxjs';
import { Answer, Ask, toRunRequest } from '../chat/chat.dto.js';
import { ClientSignal, IdempotencyKey, LastEventId, NAMED_ONLY, STRICT } from '../http/request-parameters.js';
import { BearerGuard, CurrentUser } from '../identity/bearer.guard.js';
import { TicketGuard } from '../identity/ticket.guard.js';
import { principalOf, User } from '../identity/user.js';
import { termsFor } from '../policy.js';
import { RunEvents } from './run-events.js';
import { EventsFrom, ForkFrom, Reply, RunListing, StopRun } from './runs.dto.js';

/** A user's runs: durable ones, which any process with room performs while no connection is held open for them, and those that wait for a decision. */
@Controller('runs')
export class RunsController {
  constructor(
    private readonly runs: RunService<User>,
    private readonly loop: ToolLoopService<User>,
    private readonly events: RunEvents,
  ) {}

  @Post()
  @HttpCode(202)
  @UseGuards(BearerGuard)
  async start(
    @Body(STRICT) ask: Ask,
    @CurrentUser() user: User,
    @Res({ passthrough: true }) response: Response,
    @IdempotencyKey() requestId?: string,
  ): Promise<RunView> {
    return this.accepted(await this.runs.start(toRunRequest(ask, user, requestId)), user, response);
  }

  @Get()
  @UseGuards(BearerGuard)
  list(@Query(STRICT) listing: RunListing, @CurrentUser() user: User): Promise<readonly RunView[]> {
    return this.runs.list(principalOf(user), listing);
  }

  @Get(':runId')
  @UseGuards(BearerGuard)
  get(@Param('runId') runId: string, @CurrentUser() user: User): Promise<RunView> {
    return this.runs.get(runId, principalOf(user));
  }

  @Sse(':runId/events')
  @UseGuards(TicketGuard)
  async watch(
    @Param('runId') runId: string,
    @Query(NAMED_ONLY) { after }: EventsFrom,
    @LastEventId() lastEventId: number | undefined,
    @CurrentUser() user: User,
  ): Promise<Observable<MessageEvent>> {
    if (lastEventId === undefined) return this.events.follow(runId, principalOf(user), after);
    return this.events.followAgain(runId, principalOf(user), lastEventId);
  }

  @Sse(':runId/resume', { method: RequestMethod.POST })
  @HttpCode(200)
  @UseGuards(BearerGuard)
  async resume(@Param('runId') runId: string, @CurrentUser() user: User): Promise<Observable<MessageEvent>> {
    return (await this.runs.resume(runId, termsFor(user))).pipe(toSse());
  }

  /** Answers what the run asked, as one of the people who may. A durable run continues by itself then, any other once its user resumes it. */
  @Post(':runId/answer')
  @HttpCode(200)
  @UseGuards(BearerGuard)
  answer(@Param('runId') runId: string, @Body(STRICT) reply: Reply, @CurrentUser() user: User): Promise<PendingView> {
    return this.runs.answer(runId, reply, principalOf(user));
  }

  /** Resumes a run of `POST /chat/answer`, and returns its result. */
  @Post(':runId/resume/answer')
  @HttpCode(200)
  @UseGuards(BearerGuard)
  async resumeToAnswer(
    @Param('runId') runId: string,
    @CurrentUser() user: User,
    @ClientSignal() signal: AbortSignal,
  ): Promise<LoopResult<Answer>> {
    const run = await this.loop.resume(runId, { ...termsFor(user), output: Answer, signal });
    return run.result;
  }

  @Post(':runId/cancel')
  @HttpCode(202)
  @UseGuards(BearerGuard)
  async cancel(@Param('runId') runId: string, @Body(STRICT) { reason }: StopRun, @CurrentUser() user: User): Promise<RunView> {
    await this.runs.cancel(runId, principalOf(user), reason);
    return this.runs.get(runId, principalOf(user));
  }

  /** Undoes what the run did, as far as that can be undone, once it has ended. */
  @Post(':runId/undo')
  @HttpCode(200)
  @UseGuards(BearerGuard)
  undo(@Param('runId') runId: string, @Body(STRICT) { reason }: StopRun, @CurrentUser() user: User): Promise<RunUndoing> {
    return this.runs.undo(runId, principalOf(user), reason);
  }

  @Post(':runId/fork')
  @HttpCode(202)
  @UseGuards(BearerGuard)
  async fork(
    @Param('runId') runId: string,
    @Body(STRICT) { step }: ForkFrom,
    @CurrentUser() user: User,
    @Res({ passthrough: true }) response: Response,
    @IdempotencyKey() requestId?: string,
  ): Promise<RunView> {
    return this.accepted(await this.runs.fork(runId, step, principalOf(user), requestId), user, response);
  }

  private accepted(runId: string, user: User, response: Response): Promise<RunView> {
    response.location(`/runs/${runId}`);
    return this.runs.get(runId, principalOf(user));
  }
}
