import { BadRequestException, Body, Injectable, Req, Res } from '@nestjs/common';
import type { LoopRequest } from '@toolloop/core';
import {
  type Ask,
  type Asks,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  type LoopEvent,
} from '@toolloop/protocol';
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
  type UiMessageRequest,
} from '@toolloop/ui-stream';
import { CallerController, CurrentCaller, IdempotencyKey } from './caller.js';
import type { Caller, HttpRequest } from './http-options.js';
import type { ChatState } from './open-runs.js';
import { ProtocolAnswers } from './protocol-answers.js';
import { readRequest } from './read-request.js';
import { RunStreams, type StreamEnds } from './run-streams.js';
import { ServedLoop } from './served-loop.js';
import { Route } from './route.decorator.js';

/**
 * The turns of chats of other front ends. The chat's id is that of a conversation, of which only
 * the newest turn is read; the answers to what a run asked come in the next request, and the run
 * that asked continues.
 */
@Injectable()
export class ChatTurns {
  constructor(
    private readonly served: ServedLoop,
    private readonly streams: RunStreams,
    private readonly answers: ProtocolAnswers,
  ) {}

  /** Answers a turn in the words of its protocol. */
  answer(turn: Turn, encoder: EventEncoder, caller: Caller, ends: StreamEnds): Promise<void> {
    return this.streams.send(() => this.eventsOf(turn, caller), encoder, ends, caller);
  }

  /**
   * Sends the answer that is under way in a chat once more, from its beginning; 204 where there is
   * none.
   */
  again(
    chatId: string | undefined,
    encoder: EventEncoder,
    caller: Caller,
    ends: StreamEnds,
  ): Promise<void> {
    return this.streams.send(() => this.streams.watchChat(chatId, caller), encoder, ends, caller);
  }

  /**
   * The state that is kept of the client of a chat in which an answer is under way, with the id of
   * its run; 204 where there is none.
   */
  stateOf(chatId: string | undefined, caller: Caller): ReturnType<RunStreams['stateOf']> {
    return this.streams.stateOf(chatId, caller);
  }

  /** The run that continues with the answers of the turn, or the run of its question. */
  private async eventsOf(
    { runId, replies = [], answers = [], ...said }: Turn,
    caller: Caller,
  ): Promise<AsyncIterable<LoopEvent>> {
    const {
      chatId,
      chatState: state,
      isResumable = extrasIn(said.body)['resumable'] === true,
    } = said;
    const terms = { isResumable, state, ...(chatId !== undefined && { chatId }) };
    if (runId !== undefined) {
      await this.answers.give(runId, replies, caller);
      return this.streams.resume(runId, caller, terms);
    }
    if (answers.length > 0)
      return this.streams.resume(await this.answers.giveNamed(answers, caller), caller, terms);
    return this.streams.ask(await this.requestOf(said, caller), caller, terms);
  }

  private async requestOf(turn: Said, caller: Caller): Promise<LoopRequest> {
    const { body, chatId, requestId, messageId, cut, tools = [] } = turn;
    const options = optionsIn(body);
    // a rehearsal leaves a conversation as it is
    const isCut = cut !== undefined && chatId !== undefined && options['rehearse'] !== true;
    const place = { ...(messageId !== undefined && { messageId }), ...(isCut && { cut }) };
    const said = {
      message: readPrompt(turn),
      ...(chatId !== undefined && { conversationId: chatId }),
      ...place,
      ...options,
    };
    const ask = readRequest('POST /chat/answer', { body: said });
    const request = await this.served.requestOf(ask, caller, requestId);
    return { ...request, ...(tools.length > 0 && { declaredTools: tools }) };
  }
}

/** The UI message stream of AI SDK 7, for `useChat`. */
@CallerController()
export class UiMessageController {
  constructor(private readonly turns: ChatTurns) {}

  @Route('POST /ai/chat')
  chat(
    @Body() body: JsonValue,
    @CurrentCaller() caller: Caller,
    @Req() request: HttpRequest,
    @Res() response: StreamEnds['response'],
    @IdempotencyKey() requestId?: string,
  ) {
    const { shownCalls, ...turn } = reading(() => readUiMessageRequest(body));
    const encoder = uiMessageEncoder({ shownCalls });
    return this.turns.answer({ ...turn, body, requestId, isResumable: true }, encoder, caller, {
      request,
      response,
    });
  }

  /** For a page that was loaded again. */
  @Route('GET /ai/chat/:chatId/stream')
  resume(
    { chatId }: Asks<'GET /ai/chat/:chatId/stream'>,
    @CurrentCaller() caller: Caller,
    @Req() request: HttpRequest,
    @Res() response: StreamEnds['response'],
  ) {
    return this.turns.again(chatId, uiMessageEncoder(), caller, { request, response });
  }
}

/** AG-UI 1.0. */
@CallerController()
export class AgUiController {
  constructor(private readonly turns: ChatTurns) {}

  @Route('POST /ai/agui')
  run(
    @Body() body: JsonValue,
    @CurrentCaller() caller: Caller,
    @Req() request: HttpRequest,
    @Res() response: StreamEnds['response'],
  ) {
    const {
      threadId,
      runId,
      shownCalls = [],
      answers,
      prompt,
      messageId,
      cut,
      tools,
    } = reading(() => readAgUiRequest(body));
    const encoder = agUiEncoder({ threadId, runId, shownCalls, given: answers });
    return this.turns.answer(
      { body, chatId: threadId, answers, prompt, messageId, cut, tools },
      encoder,
      caller,
      { request, response },
    );
  }

  /**
   * For an agent that has lost its stream: the messages that it has of the answer give way to those
   * of this one.
   */
  @Route('POST /ai/agui/connect')
  connect(
    @Body() body: JsonValue,
    @CurrentCaller() caller: Caller,
    @Req() request: HttpRequest,
    @Res() response: StreamEnds['response'],
  ) {
    const { threadId, runId, messages } = reading(() => readAgUiRequest(body));
    return this.turns.again(
      threadId,
      agUiEncoder({ threadId, runId, repeatsAfter: messages }),
      caller,
      { request, response },
    );
  }
}

/** The assistant transport of assistant-stream, for assistant-ui. */
@CallerController()
export class AssistantController {
  constructor(private readonly turns: ChatTurns) {}

  @Route('POST /ai/assistant')
  command(
    @Body() body: JsonValue,
    @CurrentCaller() caller: Caller,
    @Req() request: HttpRequest,
    @Res() response: StreamEnds['response'],
  ) {
    const {
      threadId: chatId,
      messages,
      state,
      ...turn
    } = reading(() => readAssistantRequest(body));
    const encoder = assistantTransportEncoder({ messages });
    return this.turns.answer(
      { ...turn, body, chatId, chatState: { ...state, messages }, asksIn: 'commands' },
      encoder,
      caller,
      { request, response },
    );
  }

  /**
   * The `resumeStateApi` of the runtime, for a page that was loaded again and has no state of its
   * own.
   */
  @Route('POST /ai/assistant/resume-state')
  state(@Body() body: JsonValue, @CurrentCaller() caller: Caller) {
    const threadId = isJsonObject(body) ? body['threadId'] : undefined;
    return this.turns.stateOf(typeof threadId === 'string' ? threadId : undefined, caller);
  }

  /** The `resumeApi` of the runtime. */
  @Route('POST /ai/assistant/resume')
  resume(
    @Body() body: JsonValue,
    @CurrentCaller() caller: Caller,
    @Req() request: HttpRequest,
    @Res() response: StreamEnds['response'],
  ) {
    const { threadId, state, messages: own } = reading(() => readAssistantRequest(body));
    const { messages } = state ? { messages: own } : this.turns.stateOf(threadId, caller).state;
    return this.turns.again(
      threadId,
      assistantTransportEncoder({ messages, isRepeated: true }),
      caller,
      { request, response },
    );
  }
}

/** The data stream protocol of assistant-stream. */
@CallerController()
export class DataStreamController {
  constructor(private readonly turns: ChatTurns) {}

  @Route('POST /ai/data-stream')
  chat(
    @Body() body: JsonValue,
    @CurrentCaller() caller: Caller,
    @Req() request: HttpRequest,
    @Res() response: StreamEnds['response'],
  ) {
    const { threadId: chatId, ...turn } = reading(() => readDataStreamRequest(body));
    const encoder = dataStreamEncoder({ given: turn.answers });
    return this.turns.answer({ ...turn, body, chatId, isResumable: false }, encoder, caller, {
      request,
      response,
    });
  }
}

interface Said extends Partial<Pick<AssistantRequest, 'tools'>> {
  /** The member of the body that has the question. @default 'messages' */
  readonly asksIn?: 'commands' | 'messages';
  readonly messageId?: string | undefined;
  readonly cut?: UiMessageRequest['cut'];
  readonly body: JsonValue;
  readonly prompt?: string | undefined;
  readonly chatId?: string | undefined;
  readonly requestId?: string | undefined;
}

/**
 * A turn of a chat: replies to a run that it names, answers to what any run of the caller's asked,
 * or a question.
 */
interface Turn
  extends
    Said,
    Partial<Pick<AssistantRequest, 'answers'>>,
    Partial<Pick<UiMessageRequest, 'runId' | 'replies'>> {
  /** @default what the body says in `resumable` */
  readonly isResumable?: boolean;
  /** The state of the client behind which the answer stands, for one that loses it. */
  readonly chatState?: ChatState;
}

/** @throws {BadRequestException} For a turn that asks nothing, with the member that should. */
function readPrompt({ prompt = '', asksIn = 'messages' }: Said): string {
  if (prompt.trim() !== '') return prompt;
  throw new BadRequestException(
    `${asksIn} must end with a message of the user that has a text, or with an answer to what a run asked`,
  );
}

const OPTIONS: ReadonlySet<string> = new Set<keyof Ask>(['rehearse', 'whenBusy', 'cut']);

/**
 * Finds the options of a question that the protocols do not know. They are checked like those of
 * `POST /chat`.
 */
function optionsIn(body: JsonValue): JsonObject {
  return Object.fromEntries(Object.entries(extrasIn(body)).filter(([name]) => OPTIONS.has(name)));
}

/** The members of a body beside those of its protocol, with what AG-UI forwards. */
function extrasIn(body: JsonValue): JsonObject {
  const { forwardedProps, ...own } = isJsonObject(body) ? body : {};
  return { ...own, ...(isJsonObject(forwardedProps) && forwardedProps) };
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
    throw new BadRequestException(
      error instanceof TypeError ? error.message : 'The body cannot be read.',
    );
  }
}
