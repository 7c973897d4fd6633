import { BadRequestException, Req, Res } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { RehearsalService, RunService } from '@toolloop/core/runs';
import type { Asks, Run } from '@toolloop/protocol';
import { sseEncoder } from '@toolloop/ui-stream';
import { CallerController, ClientSignal, CurrentCaller, IdempotencyKey, seenIn } from './caller.js';
import type { Caller, HttpRequest } from './http-options.js';
import { ListPages, type Pages } from './pages.js';
import { RunStreams, type StreamEnds } from './run-streams.js';
import { ServedLoop } from './served-loop.js';
import { Route } from './route.decorator.js';

/**
 * A caller's runs: durable ones, which any process with room performs while no connection is held
 * open for them, and those that wait for a decision.
 */
@CallerController()
export class RunsController {
  constructor(
    private readonly runs: RunService,
    private readonly rehearsals: RehearsalService,
    private readonly served: ServedLoop,
    private readonly streams: RunStreams,
    private readonly adapters: HttpAdapterHost,
  ) {}

  @Route('POST /runs')
  async start(
    ask: Asks<'POST /runs'>,
    @CurrentCaller() caller: Caller,
    @Res({ passthrough: true }) response: unknown,
    @IdempotencyKey() requestId?: string,
  ) {
    const request = await this.served.requestOf(ask, caller, requestId);
    const runId = await this.runs.start(request, this.served.options.loop);
    return this.accepted(`runs/${runId}`, { runId, caller, response });
  }

  @Route('GET /runs')
  list(listing: Asks<'GET /runs'>, @CurrentCaller() caller: Caller, @ListPages() pages: Pages) {
    return pages.of(
      listing,
      (page) => this.streams.list(caller, page),
      ({ runId }) => ({ after: runId }),
    );
  }

  @Route('GET /runs/:runId')
  async get({ runId }: Asks<'GET /runs/:runId'>, @CurrentCaller() caller: Caller) {
    return this.streams.find(runId, caller) ?? this.runs.get(runId, caller);
  }

  /**
   * Shows the events after a sequence, until the run has ended. An `EventSource` connects again
   * after the last event too, unless a 204 tells it that there is no more.
   */
  @Route('GET /runs/:runId/events')
  async watch(
    { runId, after = 0 }: Asks<'GET /runs/:runId/events'>,
    @CurrentCaller() caller: Caller,
    @Req() request: HttpRequest,
    @Res() response: StreamEnds['response'],
  ) {
    const { sequence: seen, runId: named = runId } = seenIn(request) ?? {};
    if (named !== runId)
      throw new BadRequestException('Last-Event-ID names an event of another run.');
    const events = (): ReturnType<RunStreams['watch']> =>
      this.streams.watch(runId, caller, { after: seen ?? after, isAgain: seen !== undefined });
    await this.streams.send(events, sseEncoder(), { request, response }, caller);
  }

  @Route('POST /runs/:runId/resume')
  async resume(
    { runId }: Asks<'POST /runs/:runId/resume'>,
    @CurrentCaller() caller: Caller,
    @Req() request: HttpRequest,
    @Res() response: StreamEnds['response'],
  ) {
    const events = (): ReturnType<RunStreams['resume']> =>
      this.streams.resume(runId, caller, { isResumable: true });
    await this.streams.send(events, sseEncoder(), { request, response }, caller);
  }

  /**
   * Answers what the run asked, as one of the people who may. A durable run continues by itself
   * then, any other once its actor resumes it.
   */
  @Route('POST /runs/:runId/answer')
  answer({ runId, ...reply }: Asks<'POST /runs/:runId/answer'>, @CurrentCaller() caller: Caller) {
    return this.runs.answer(runId, reply, caller);
  }

  /** Resumes a run of `POST /chat/answer`, and returns its result. */
  @Route('POST /runs/:runId/resume/answer')
  async resumeToAnswer(
    { runId }: Asks<'POST /runs/:runId/resume/answer'>,
    @CurrentCaller() caller: Caller,
    @ClientSignal() signal: AbortSignal,
  ) {
    const { output } = this.served.options;
    const request = { ...(await this.served.termsOf(caller)), signal, ...(output && { output }) };
    const run = await this.streams.ofStored(
      { runId, caller, done: 'resumed' },
      this.served.loop.resume(runId, request),
    );
    return run.result;
  }

  @Route('POST /runs/:runId/cancel')
  async cancel(
    { runId, reason }: Asks<'POST /runs/:runId/cancel'>,
    @CurrentCaller() caller: Caller,
  ) {
    await this.streams.cancel(runId, caller, reason);
    return this.get({ runId }, caller);
  }

  /** Undoes what the run did, as far as that can be undone, once it has ended. */
  @Route('POST /runs/:runId/undo')
  undo({ runId, reason }: Asks<'POST /runs/:runId/undo'>, @CurrentCaller() caller: Caller) {
    return this.streams.ofStored(
      { runId, caller, done: 'undone' },
      this.runs.undo(runId, caller, reason),
    );
  }

  /** Rehearses the run with another model, another policy or both. */
  @Route('POST /runs/:runId/rehearse')
  rehearse(
    { runId, ...order }: Asks<'POST /runs/:runId/rehearse'>,
    @CurrentCaller() caller: Caller,
  ) {
    return this.streams.ofStored(
      { runId, caller, done: 'rehearsed' },
      this.rehearsals.rehearse(runId, order, caller),
    );
  }

  @Route('GET /runs/:runId/rehearsal')
  rehearsal({ runId, ...by }: Asks<'GET /runs/:runId/rehearsal'>, @CurrentCaller() caller: Caller) {
    return this.streams.ofStored(
      { runId, caller, done: 'rehearsed' },
      this.rehearsals.compare(runId, by, caller),
    );
  }

  @Route('POST /runs/:runId/fork')
  async fork(
    { runId, step }: Asks<'POST /runs/:runId/fork'>,
    @CurrentCaller() caller: Caller,
    @Res({ passthrough: true }) response: unknown,
    @IdempotencyKey() requestId?: string,
  ) {
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
@CallerController()
export class RehearsalsController {
  constructor(private readonly rehearsals: RehearsalService) {}

  @Route('GET /rehearsals')
  choices(@CurrentCaller() caller: Caller) {
    return this.rehearsals.choices(caller);
  }
}

interface AcceptedRun {
  readonly runId: string;
  readonly caller: Caller;
  readonly response: unknown;
}
