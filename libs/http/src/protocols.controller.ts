import { BadRequestException, Body, Get, Param, Post, Req, Res } from '@nestjs/common';
import { PendingService, type PendingView } from '@toolloop/core';
import { RunService } from '@toolloop/core/runs';
import type { JsonValue, LoopEvent, PendingReply } from '@toolloop/protocol';
import { readUiMessageRequest, uiMessageEncoder } from '@toolloop/ui-stream';
import { CallerController, CurrentCaller, IdempotencyKey, STRICT } from './caller.js';
import type { Caller, HttpRequest } from './http-options.js';
import { AskBody } from './requests.dto.js';
import { RunStreams, type StreamEnds } from './run-streams.js';
import { ServedLoop } from './served-loop.js';

/** The routes for clients of the AI SDK: the chat's id is that of a conversation, and the answers to what a run asked come inside of its messages. */
@CallerController('ai/chat')
export class AiChatController {
  constructor(
    private readonly served: ServedLoop,
    private readonly streams: RunStreams,
    private readonly runs: RunService,
    private readonly pending: PendingService,
  ) {}

  @Post()
  async chat(
    @Body() body: JsonValue,
    @CurrentCaller() caller: Caller,
    @Req() request: HttpRequest,
    @Res() response: StreamEnds['response'],
    @IdempotencyKey() requestId?: string,
  ): Promise<void> {
    const { runId, prompt: message, chatId, replies, shownCalls } = reading(() => readUiMessageRequest(body));
    const terms = { isResumable: true, chatId };
    const events = async (): Promise<AsyncIterable<LoopEvent>> => {
      if (runId === undefined) {
        const ask = await askOf({ message, conversationId: chatId });
        return this.streams.ask(await this.served.requestOf(ask, caller, requestId), caller, terms);
      }
      await this.answer(runId, replies, caller);
      return this.streams.resume(runId, caller, terms);
    };
    await this.streams.send(events, uiMessageEncoder({ shownCalls }), { request, response }, caller);
  }

  /** The answer that is under way in a chat, from its beginning, for a page that was loaded again; 204 where there is none. */
  @Get(':chatId/stream')
  async resume(
    @Param('chatId') chatId: string,
    @CurrentCaller() caller: Caller,
    @Req() request: HttpRequest,
    @Res() response: StreamEnds['response'],
  ): Promise<void> {
    const events = (): AsyncIterable<LoopEvent> => this.streams.watchChat(chatId, caller);
    await this.streams.send(events, uiMessageEncoder(), { request, response }, caller);
  }

  /** Gives the answers to what the run still asks. The client repeats the earlier ones in every request. */
  private async answer(runId: string, replies: readonly PendingReply[], caller: Caller): Promise<void> {
    const asked = await this.pending.inbox(caller, { runId });
    for (const reply of replies) {
      if (asked.some((view) => isAbout(reply, view))) await this.runs.answer(runId, reply, caller);
    }
  }
}

function isAbout(reply: PendingReply, { kind, request }: PendingView): boolean {
  if (kind === 'approval') return 'approvalId' in reply && reply.approvalId === request.approvalId;
  return kind === 'client' && 'toolCallId' in reply && reply.toolCallId === request.toolCallId;
}

/** Reads a body of a protocol, whose mistakes are the client's. */
function reading<Read>(read: () => Read): Read {
  try {
    return read();
  } catch (error) {
    throw new BadRequestException(error instanceof TypeError ? error.message : 'The body cannot be read.');
  }
}

async function askOf(said: { readonly message?: string | undefined; readonly conversationId?: string }): Promise<AskBody> {
  const ask: unknown = await STRICT.transform(said, { type: 'body', metatype: AskBody });
  if (ask instanceof AskBody) return ask;
  throw new BadRequestException('The message cannot be read.');
}
