import { BadRequestException, Body, Get, Param, Post, Req, Res } from '@nestjs/common';
import type { LoopRequest } from '@toolloop/core';
import type { JsonValue, LoopEvent } from '@toolloop/protocol';
import {
  agUiEncoder,
  type AssistantRequest,
  assistantTransportEncoder,
  dataStreamEncoder,
  type EventEncoder,
  readAgUiRequest,
  readAssistantRequest,
  readDataStreamRequest,
  readUiMessageRequest,
  uiMessageEncoder,
} from '@toolloop/ui-stream';
import { CallerController, CurrentCaller, IdempotencyKey, STRICT } from './caller.js';
import type { Caller, HttpRequest } from './http-options.js';
import { ProtocolAnswers } from './protocol-answers.js';
import { AskBody } from './requests.dto.js';
import { RunStreams, type StreamEnds } from './run-streams.js';
import { ServedLoop } from './served-loop.js';

/**
 * The routes for chat front ends of others. The chat's id is that of a conversation, of which only the newest turn is read; the answers to what a run asked come in the next
 * request, and the run that asked continues.
 */
@CallerController('ai')
export class AiController {
  constructor(
    private readonly served: ServedLoop,
    private readonly streams: RunStreams,
    private readonly answers: ProtocolAnswers,
  ) {}

  /** The UI message stream of AI SDK 7, for `useChat`. */
  @Post('chat')
  async chat(
    @Body() body: JsonValue,
    @CurrentCaller() caller: Caller,
    @Req() request: HttpRequest,
    @Res() response: StreamEnds['response'],
    @IdempotencyKey() requestId?: string,
  ): Promise<void> {
    const { runId, prompt, chatId, replies, shownCalls, tools: declaredTools } = reading(() => readUiMessageRequest(body));
    const terms = { isResumable: true, chatId };
    const events = async (): Promise<AsyncIterable<LoopEvent>> => {
      if (runId === undefined)
        return this.streams.ask(await this.requestOf({ prompt, chatId, requestId, declaredTools }, caller), caller, terms);
      await this.answers.give(runId, replies, caller);
      return this.streams.resume(runId, caller, terms);
    };
    await this.streams.send(events, uiMessageEncoder({ shownCalls }), { request, response }, caller);
  }

  /** The answer that is under way in a chat, from its beginning, for a page that was loaded again; 204 where there is none. */
  @Get('chat/:chatId/stream')
  async resumeChat(
    @Param('chatId') chatId: string,
    @CurrentCaller() caller: Caller,
    @Req() request: HttpRequest,
    @Res() response: StreamEnds['response'],
  ): Promise<void> {
    const events = (): AsyncIterable<LoopEvent> => this.streams.watchChat(chatId, caller);
    await this.streams.send(events, uiMessageEncoder(), { request, response }, caller);
  }

  /** AG-UI 1.0. */
  @Post('agui')
  async agUi(
    @Body() body: JsonValue,
    @CurrentCaller() caller: Caller,
    @Req() request: HttpRequest,
    @Res() response: StreamEnds['response'],
  ): Promise<void> {
    const { threadId, runId, shownCalls = [], tools, ...turn } = reading(() => readAgUiRequest(body));
    const events = (): Promise<AsyncIterable<LoopEvent>> => this.turn({ ...turn, chatId: threadId, declaredTools: tools }, caller);
    await this.streams.send(events, agUiEncoder({ threadId, runId, shownCalls }), { request, response }, caller);
  }

  /** The assistant transport of assistant-stream, for assistant-ui. */
  @Post('assistant')
  async assistant(
    @Body() body: JsonValue,
    @CurrentCaller() caller: Caller,
    @Req() request: HttpRequest,
    @Res() response: StreamEnds['response'],
  ): Promise<void> {
    const read = reading(() => readAssistantRequest(body));
    await this.sendTurn(read, assistantTransportEncoder(read), { request, response }, caller);
  }

  /** The data stream protocol of assistant-stream. */
  @Post('data-stream')
  async dataStream(
    @Body() body: JsonValue,
    @CurrentCaller() caller: Caller,
    @Req() request: HttpRequest,
    @Res() response: StreamEnds['response'],
  ): Promise<void> {
    const read = reading(() => readDataStreamRequest(body));
    await this.sendTurn(read, dataStreamEncoder(), { request, response }, caller);
  }

  private async sendTurn(
    { threadId: chatId, prompt, answers, tools: declaredTools }: AssistantRequest,
    encoder: EventEncoder,
    ends: StreamEnds,
    caller: Caller,
  ): Promise<void> {
    await this.streams.send(() => this.turn({ chatId, prompt, answers, declaredTools }, caller), encoder, ends, caller);
  }

  /** A turn of a chat: answers to what a run asked, at which that run continues, or a question. */
  private async turn({ answers, ...said }: Turn, caller: Caller): Promise<AsyncIterable<LoopEvent>> {
    if (answers.length > 0) return this.streams.resume(await this.answers.giveNamed(answers, caller), caller);
    return this.streams.ask(await this.requestOf(said, caller), caller);
  }

  private async requestOf({ prompt, chatId, requestId, declaredTools = [] }: Said, caller: Caller): Promise<LoopRequest> {
    const said = { message: prompt, ...(chatId !== undefined && { conversationId: chatId }) };
    const ask: unknown = await STRICT.transform(said, { type: 'body', metatype: AskBody });
    if (!(ask instanceof AskBody)) throw new BadRequestException('The message cannot be read.');
    const request = await this.served.requestOf(ask, caller, requestId);
    return { ...request, ...(declaredTools.length > 0 && { declaredTools }) };
  }
}

interface Said extends Pick<LoopRequest, 'declaredTools'> {
  readonly prompt?: string | undefined;
  readonly chatId?: string | undefined;
  readonly requestId?: string | undefined;
}

type Turn = Said & Pick<AssistantRequest, 'answers'>;

/**
 * Reads a body of a protocol, whose mistakes are the client's.
 *
 * @throws {BadRequestException} For a body that no client of it sends.
 */
export function reading<Read>(read: () => Read): Read {
  try {
    return read();
  } catch (error) {
    throw new BadRequestException(error instanceof TypeError ? error.message : 'The body cannot be read.');
  }
}
