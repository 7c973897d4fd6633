import { Body, Get, HttpCode, Post, Query, Req, Res } from '@nestjs/common';
import type { LoopRequest, LoopResult } from '@toolloop/core';
import { sseEncoder } from '@toolloop/ui-stream';
import { assertNotForged } from './access-middleware.js';
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
import { AskBody, AskToStream } from './requests.dto.js';
import { RunStreams, type StreamEnds } from './run-streams.js';
import { ServedLoop } from './served-loop.js';

/** Questions to the loop: as a stream of its events, or as one answer. */
@CallerController('chat')
export class ChatController {
  constructor(
    private readonly served: ServedLoop,
    private readonly streams: RunStreams,
  ) {}

  @Post()
  async chat(
    @Body(STRICT)
    { durable = false, structured = false, clientTools: declaredTools = [], ...ask }: AskToStream,
    @CurrentCaller() caller: Caller,
    @Req() request: HttpRequest,
    @Res() response: StreamEnds['response'],
    @IdempotencyKey() requestId?: string,
  ): Promise<void> {
    const asked = async (): Promise<LoopRequest> => ({
      ...(await this.served.requestOf(ask, caller, requestId)),
      ...(declaredTools.length > 0 && { declaredTools }),
      ...(structured && this.form),
      ...(durable && { durable }),
    });
    const events = async () => this.streams.ask(await asked(), caller, { isResumable: true });
    await this.streams.send(events, sseEncoder(), { request, response }, caller);
  }

  /**
   * The same for an `EventSource`, which connects again after a stream that ended well, and would
   * have its question answered again, tools and all. It then names the last event it saw: the
   * stream continues there, and a 204 tells it that there is no more.
   */
  @Get('stream')
  async stream(
    @Query(NAMED_ONLY) ask: AskBody,
    @CurrentCaller() caller: Caller,
    @Req() request: HttpRequest,
    @Res() response: StreamEnds['response'],
  ): Promise<void> {
    assertNotForged(request, this.served.options); // an image of another page's would ask here
    const seen = seenIn(request);
    const events = async () =>
      seen === undefined
        ? this.streams.ask(await this.served.requestOf(ask, caller), caller, { isResumable: true })
        : this.streams.watchSeen(seen, caller);
    await this.streams.send(events, sseEncoder({ namesRun: true }), { request, response }, caller);
  }

  @Post('answer')
  @HttpCode(200)
  async answer(
    @Body(STRICT) ask: AskBody,
    @CurrentCaller() caller: Caller,
    @ClientSignal() signal: AbortSignal,
    @IdempotencyKey() requestId?: string,
  ): Promise<LoopResult> {
    return this.served.loop.run({
      ...(await this.served.requestOf(ask, caller, requestId)),
      ...this.form,
      signal,
    });
  }

  private get form(): Pick<LoopRequest, 'output'> {
    const { output } = this.served.options;
    return output ? { output } : {};
  }
}
