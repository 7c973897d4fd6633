import { Req, Res } from '@nestjs/common';
import type { LoopRequest } from '@toolloop/core';
import { sseEncoder } from '@toolloop/ui-stream';
import { assertNotForged } from './access-middleware.js';
import { CallerController, ClientSignal, CurrentCaller, IdempotencyKey, seenIn } from './caller.js';
import type { Caller, HttpRequest } from './http-options.js';
import { RunStreams, type StreamEnds } from './run-streams.js';
import { ServedLoop } from './served-loop.js';
import { Route } from './route.decorator.js';
import type { Asks } from '@toolloop/protocol';

/** Questions to the loop: as a stream of its events, or as one answer. */
@CallerController()
export class ChatController {
  constructor(
    private readonly served: ServedLoop,
    private readonly streams: RunStreams,
  ) {}

  @Route('POST /chat')
  async chat(
    asked: Asks<'POST /chat'>,
    @CurrentCaller() caller: Caller,
    @Req() request: HttpRequest,
    @Res() response: StreamEnds['response'],
    @IdempotencyKey() requestId?: string,
  ) {
    const { durable = false, structured = false, clientTools: declaredTools = [], ...ask } = asked;
    const toRequest = async (): Promise<LoopRequest> => ({
      ...(await this.served.requestOf(ask, caller, requestId)),
      ...(declaredTools.length > 0 && { declaredTools }),
      ...(structured && this.form),
      ...(durable && { durable }),
    });
    const events = async () => this.streams.ask(await toRequest(), caller, { isResumable: true });
    await this.streams.send(events, sseEncoder(), { request, response }, caller);
  }

  /**
   * The same for an `EventSource`, which connects again after a stream that ended well, and would
   * have its question answered again, tools and all. It then names the last event it saw: the
   * stream continues there, and a 204 tells it that there is no more.
   */
  @Route('GET /chat/stream')
  async stream(
    ask: Asks<'GET /chat/stream'>,
    @CurrentCaller() caller: Caller,
    @Req() request: HttpRequest,
    @Res() response: StreamEnds['response'],
  ) {
    assertNotForged(request, this.served.options); // an image of another page's would ask here
    const seen = seenIn(request);
    const events = async () =>
      seen === undefined
        ? this.streams.ask(await this.served.requestOf(ask, caller), caller, { isResumable: true })
        : this.streams.watchSeen(seen, caller);
    await this.streams.send(events, sseEncoder({ namesRun: true }), { request, response }, caller);
  }

  @Route('POST /chat/answer')
  async answer(
    ask: Asks<'POST /chat/answer'>,
    @CurrentCaller() caller: Caller,
    @ClientSignal() signal: AbortSignal,
    @IdempotencyKey() requestId?: string,
  ) {
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
