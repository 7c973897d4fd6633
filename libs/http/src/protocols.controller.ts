import { BadRequestException, Body, Get, Injectable, Param, Post, Req, Res } from '@nestjs/common';
import type { LoopRequest } from '@toolloop/core';
import { type Ask, isJsonObject, type JsonObject, type JsonValue, type LoopEvent } from '@toolloop/protocol';
import {
  agUiEncoder,
  type AssistantRequest,
  assistantTransportEncoder,
  dataStreamEncoder,
  readAgUiRequest,
  readAssistantRequest,
  readDataStreamRequest,
  readUiMessageRequest,
  uiMessageEncoder,
  type UiMessageRequest,
} from '@toolloop/ui-stream';
import { CallerController, CurrentCaller, IdempotencyKey, STRICT } from './caller.js';
import type { Caller, HttpRequest } from './http-options.js';
import { ProtocolAnswers } from './protocol-answers.js';
import { AskBody } from './requests.dto.js';
import { RunStreams, type StreamEnds } from './run-streams.js';
import { ServedLoop } from './served-loop.js';

/**
 * The turns of chats of other front ends. The chat's id is that of a conversation, of which only the newest turn is read; the answers to what a run asked come in the next request,
 * and the run that asked continues.
 */
@Injectable()
export class ChatTurns {
  constructor(
    private readonly served: ServedLoop,
    private readonly streams: RunStreams,
    private readonly answers: ProtocolAnswers,
  ) {}

  /** A turn of a chat: answers to what a run asked, at which that run continues, or a question. */
  async next({ answers, ...said }: Turn, caller: Caller): Promise<AsyncIterable<LoopEvent>> {
    if (answers.length > 0) return this.streams.resume(await this.answers.giveNamed(answers, caller), caller);
    return this.streams.ask(await this.requestOf(said, caller), caller);
  }

  /** Gives the replies of an AI SDK client to the run that it continues, or asks its question. */
  async continue({ runId, replies, ...said }: Continuation, caller: Caller): Promise<AsyncIterable<LoopEvent>> {
    const terms = { isResumable: true, ...(said.chatId !== undefined && { chatId: said.chatId }) };
    if (runId === undefined) return this.streams.ask(await this.requestOf(said, caller), caller, terms);
    await this.answers.give(runId, replies, caller);
    return this.streams.resume(runId, caller, terms);
  }

  private async requestOf({ body, prompt, chatId, requestId, declaredTools = [] }: Said, caller: Caller): Promise<LoopRequest> {
    const said = { ...optionsIn(body), message: prompt, ...(chatId !== undefined && { conversationId: chatId }) };
    const ask: unknown = await STRICT.transform(said, { type: 'body', metatype: AskBody });
    if (!(ask instanceof AskBody)) throw new BadRequestException('The message cannot be read.');
    const request = await this.served.requestOf(ask, caller, requestId);
    return { ...request, ...(declaredTools.length > 0 && { declaredTools }) };
  }
}

/** The UI message stream of AI SDK 7, for `useChat`. */
@CallerController('ai/chat')
export class UiMessageController {
  constructor(
    private readonly turns: ChatTurns,
    private readonly streams: RunStreams,
  ) {}

  @Post()
  async chat(
    @Body() body: JsonValue,
    @CurrentCaller() caller: Caller,
    @Req() request: HttpRequest,
    @Res() response: StreamEnds['response'],
    @IdempotencyKey() requestId?: string,
  ): Promise<void> {
    const { shownCalls, tools: declaredTools, ...turn } = reading(() => readUiMessageRequest(body));
    const events = (): Promise<AsyncIterable<LoopEvent>> => this.turns.continue({ ...turn, body, requestId, declaredTools }, caller);
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
}

/** AG-UI 1.0. */
@CallerController('ai/agui')
export class AgUiController {
  constructor(
    private readonly turns: ChatTurns,
    private readonly streams: RunStreams,
  ) {}

  @Post()
  async run(
    @Body() body: JsonValue,
    @CurrentCaller() caller: Caller,
    @Req() request: HttpRequest,
    @Res() response: StreamEnds['response'],
  ): Promise<void> {
    const { threadId, runId, shownCalls = [], tools, ...turn } = reading(() => readAgUiRequest(body));
    const events = (): Promise<AsyncIterable<LoopEvent>> =>
      this.turns.next({ ...turn, body, chatId: threadId, declaredTools: tools }, caller);
    await this.streams.send(events, agUiEncoder({ threadId, runId, shownCalls, given: turn.answers }), { request, response }, caller);
  }
}

/** The assistant transport of assistant-stream, for assistant-ui. */
@CallerController('ai/assistant')
export class AssistantController {
  constructor(
    private readonly turns: ChatTurns,
    private readonly streams: RunStreams,
  ) {}

  @Post()
  async command(
    @Body() body: JsonValue,
    @CurrentCaller() caller: Caller,
    @Req() request: HttpRequest,
    @Res() response: StreamEnds['response'],
  ): Promise<void> {
    const { threadId: chatId, messages, tools: declaredTools, ...turn } = reading(() => readAssistantRequest(body));
    const events = (): Promise<AsyncIterable<LoopEvent>> => this.turns.next({ ...turn, body, chatId, declaredTools }, caller);
    await this.streams.send(events, assistantTransportEncoder({ messages }), { request, response }, caller);
  }
}

/** The data stream protocol of assistant-stream. */
@CallerController('ai/data-stream')
export class DataStreamController {
  constructor(
    private readonly turns: ChatTurns,
    private readonly streams: RunStreams,
  ) {}

  @Post()
  async chat(
    @Body() body: JsonValue,
    @CurrentCaller() caller: Caller,
    @Req() request: HttpRequest,
    @Res() response: StreamEnds['response'],
  ): Promise<void> {
    const { threadId: chatId, tools: declaredTools, ...turn } = reading(() => readDataStreamRequest(body));
    const events = (): Promise<AsyncIterable<LoopEvent>> => this.turns.next({ ...turn, body, chatId, declaredTools }, caller);
    await this.streams.send(events, dataStreamEncoder({ given: turn.answers }), { request, response }, caller);
  }
}

interface Said extends Pick<LoopRequest, 'declaredTools'> {
  readonly body: JsonValue;
  readonly prompt?: string | undefined;
  readonly chatId?: string | undefined;
  readonly requestId?: string | undefined;
}

type Turn = Said & Pick<AssistantRequest, 'answers'>;

type Continuation = Said & Pick<UiMessageRequest, 'runId' | 'replies'>;

const OPTIONS: ReadonlySet<string> = new Set<keyof Ask>(['rehearse', 'whenBusy']);

/** Finds the options of a question that the protocols do not know, beside what they do, or in what AG-UI forwards. They are checked like those of `POST /chat`. */
function optionsIn(body: JsonValue): JsonObject {
  const { forwardedProps, ...own } = isJsonObject(body) ? body : {};
  const given = { ...own, ...(isJsonObject(forwardedProps) && forwardedProps) };
  return Object.fromEntries(Object.entries(given).filter(([name]) => OPTIONS.has(name)));
}

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
