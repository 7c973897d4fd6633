import {
  BadRequestException,
  Body,
  Get,
  HttpCode,
  Param,
  Post,
  Query,
  Req,
  Res,
} from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import type { LoopResult } from '@toolloop/core';
import { RehearsalService, RunService } from '@toolloop/core/runs';
import type {
  AnsweredRequest,
  RehearsalChoices,
  RehearsedRun,
  Run,
  Undoing,
} from '@toolloop/protocol';
import { sseEncoder } from '@toolloop/ui-stream';
import {
  CallerController,
  ClientSignal,
  CurrentCaller,
  IdempotencyKey,
  NAMED_ONLY,
  seenIn,
  STRICT,
} from './caller.js';
import type { Caller, HttpRequest } from './http-options.js';
import {
  AskBody,
  EventsFrom,
  ForkFrom,
  RehearsalBy,
  RehearsalOrder,
  ReplyBody,
  RunListing,
  StopRun,
} from './requests.dto.js';
import { ListPages, type Pages } from './pages.js';
import { RunStreams, type StreamEnds } from './run-streams.js';
import { ServedLoop } from './served-loop.js';

/**
 * A caller's runs: durable ones, which any process with room performs while no connection is held
 * open for them, and those that wait for a decision.
 */
@CallerController('runs')
export class RunsController {
  constructor(
    private readonly runs: RunService,
    private readonly rehearsals: RehearsalService,
    private readonly served: ServedLoop,
    private readonly streams: RunStreams,
    private readonly adapters: HttpAdapterHost,
  ) {}

  @Post()
  @HttpCode(202)
  async start(
    @Body(STRICT) ask: AskBody,
    @CurrentCaller() caller: Caller,
    @Res({ passthrough: true }) response: unknown,
    @IdempotencyKey() requestId?: string,
  ): Promise<Run> {
    const request = await this.served.requestOf(ask, caller, requestId);
    const runId = await this.runs.start(request, this.served.options.loop);
    return this.accepted(`runs/${runId}`, { runId, caller, response });
  }

  @Get()
  list(
    @Query(STRICT) listing: RunListing,
    @CurrentCaller() caller: Caller,
    @ListPages() pages: Pages,
  ): Promise<readonly Run[]> {
    return pages.of(
      listing,
      (page) => this.streams.list(caller, page),
      ({ runId }) => ({ after: runId }),
    );
  }

  @Get(':runId')
  async get(@Param('runId') runId: string, @CurrentCaller() caller: Caller): Promise<Run> {
    return this.streams.find(runId, caller) ?? this.runs.get(runId, caller);
  }

  /**
   * Shows the events after a sequence, until the run has ended. An `EventSource` connects again
   * after the last event too, unless a 204 tells it that there is no more.
   */
  @Get(':runId/events')
  async watch(
    @Param('runId') runId: string,
    @Query(NAMED_ONLY) { after }: EventsFrom,
    @CurrentCaller() caller: Caller,
    @Req() request: HttpRequest,
    @Res() response: StreamEnds['response'],
  ): Promise<void> {
    const { sequence: seen, runId: named = runId } = seenIn(request) ?? {};
    if (named !== runId)
      throw new BadRequestException('Last-Event-ID names an event of another run.');
    const events = (): ReturnType<RunStreams['watch']> =>
      this.streams.watch(runId, caller, { after: seen ?? after, isAgain: seen !== undefined });
    await this.streams.send(events, sseEncoder(), { request, response }, caller);
  }

  @Post(':runId/resume')
  async resume(
    @Param('runId') runId: string,
    @CurrentCaller() caller: Caller,
    @Req() request: HttpRequest,
    @Res() response: StreamEnds['response'],
  ): Promise<void> {
    const events = (): ReturnType<RunStreams['resume']> =>
      this.streams.resume(runId, caller, { isResumable: true });
    await this.streams.send(events, sseEncoder(), { request, response }, caller);
  }

  /**
   * Answers what the run asked, as one of the people who may. A durable run continues by itself
   * then, any other once its actor resumes it.
   */
  @Post(':runId/answer')
  @HttpCode(200)
  answer(
    @Param('runId') runId: string,
    @Body(STRICT) reply: ReplyBody,
    @CurrentCaller() caller: Caller,
  ): Promise<AnsweredRequest> {
    return this.runs.answer(runId, reply, caller);
  }

  /** Resumes a run of `POST /chat/answer`, and returns its result. */
  @Post(':runId/resume/answer')
  @HttpCode(200)
  async resumeToAnswer(
    @Param('runId') runId: string,
    @CurrentCaller() caller: Caller,
    @ClientSignal() signal: AbortSignal,
  ): Promise<LoopResult> {
    const { output } = this.served.options;
    const request = { ...(await this.served.termsOf(caller)), signal, ...(output && { output }) };
    const run = await this.streams.ofStored(
      { runId, caller, done: 'resumed' },
      this.served.loop.resume(runId, request),
    );
    return run.result;
  }

  @Post(':runId/cancel')
  @HttpCode(202)
  async cancel(
    @Param('runId') runId: string,
    @Body(STRICT) { reason }: StopRun,
    @CurrentCaller() caller: Caller,
  ): Promise<Run> {
    await this.streams.cancel(runId, caller, reason);
    return this.get(runId, caller);
  }

  /** Undoes what the run did, as far as that can be undone, once it has ended. */
  @Post(':runId/undo')
  @HttpCode(200)
  undo(
    @Param('runId') runId: string,
    @Body(STRICT) { reason }: StopRun,
    @CurrentCaller() caller: Caller,
  ): Promise<Undoing> {
    return this.streams.ofStored(
      { runId, caller, done: 'undone' },
      this.runs.undo(runId, caller, reason),
    );
  }

  /** Rehearses the run with another model, another policy or both. */
  @Post(':runId/rehearse')
  @HttpCode(200)
  rehearse(
    @Param('runId') runId: string,
    @Body(STRICT) order: RehearsalOrder,
    @CurrentCaller() caller: Caller,
  ): Promise<RehearsedRun> {
    return this.streams.ofStored(
      { runId, caller, done: 'rehearsed' },
      this.rehearsals.rehearse(runId, order, caller),
    );
  }

  @Get(':runId/rehearsal')
  rehearsal(
    @Param('runId') runId: string,
    @Query(STRICT) by: RehearsalBy,
    @CurrentCaller() caller: Caller,
  ): Promise<RehearsedRun> {
    return this.streams.ofStored(
      { runId, caller, done: 'rehearsed' },
      this.rehearsals.compare(runId, by, caller),
    );
  }

  @Post(':runId/fork')
  @HttpCode(202)
  async fork(
    @Param('runId') runId: string,
    @Body(STRICT) { step }: ForkFrom,
    @CurrentCaller() caller: Caller,
    @Res({ passthrough: true }) response: unknown,
    @IdempotencyKey() requestId?: string,
  ): Promise<Run> {
    const forked = await this.streams.ofStored(
      { runId, caller, done: 'forked' },
      this.runs.fork(runId, step, caller, requestId),
    );
    return this.accepted(`../${forked}`, { runId: forked, caller, response });
  }

  /** The address is relative to that of the request, so that it holds behind any prefix. */
  private accepted(address: string, { runId, caller, response }: AcceptedRun): Promise<Run> {
    this.adapters.httpAdapter.setHeader(response, 'location', address);
    return this.runs.get(runId, caller);
  }
}

/** The models and policies with which operators rehearse runs. */
@CallerController('rehearsals')
export class RehearsalsController {
  constructor(private readonly rehearsals: RehearsalService) {}

  @Get()
  choices(@CurrentCaller() caller: Caller): Promise<RehearsalChoices> {
    return this.rehearsals.choices(caller);
  }
}

interface AcceptedRun {
  readonly runId: string;
  readonly caller: Caller;
  readonly response: unknown;
}
