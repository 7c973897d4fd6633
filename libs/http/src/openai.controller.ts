import {
  type ArgumentsHost,
  BadRequestException,
  Body,
  Catch,
  Controller,
  type ExceptionFilter,
  Injectable,
  NotFoundException,
  Req,
  Res,
  UseFilters,
  UseGuards,
} from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import type { LoopRequest, Message } from '@toolloop/core';
import type { AnswerOf, Asks, JsonObject, JsonValue, LoopEvent } from '@toolloop/protocol';
import {
  chatCompletionsEncoder,
  type ChatCompletionsRequest,
  contentText,
  readChatCompletionsRequest,
  toChatCompletion,
} from '@toolloop/ui-stream';
import { CallerGuard, CurrentCaller, IdempotencyKey, JsonBodies, leavingSignal } from './caller.js';
import { assertAnswered, toHttpError } from './exception-filter.js';
import type { Caller, HttpRequest } from './http-options.js';
import { reading } from './protocols.controller.js';
import { ProtocolAnswers } from './protocol-answers.js';
import { RunStreams, type StreamEnds } from './run-streams.js';
import { ServedLoop } from './served-loop.js';
import { Route } from './route.decorator.js';

/** Answers errors in the form of OpenAI's API, which its clients read. */
@Catch()
@Injectable()
class OpenAiErrors implements ExceptionFilter {
  constructor(private readonly adapters: HttpAdapterHost) {}

  catch(error: unknown, host: ArgumentsHost): void {
    const { status, body, retryAfter } = toHttpError(error);
    const response: unknown = host.switchToHttp().getResponse();
    const { httpAdapter } = this.adapters;
    if (httpAdapter.isHeadersSent(response)) return;
    if (retryAfter !== undefined)
      httpAdapter.setHeader(response, 'retry-after', String(retryAfter));
    // its clients repeat by themselves what failed on the server, unless they are told not to
    else if (status >= 500) httpAdapter.setHeader(response, 'x-should-retry', 'false');
    const type = status < 500 ? 'invalid_request_error' : 'server_error';
    httpAdapter.reply(
      response,
      { error: { message: body.message, type, code: body.code, param: null } },
      status,
    );
  }
}

/**
 * The loop as a model of OpenAI's chat completions: its own tools run on the server, and the client
 * sees those that it is to make.
 */
@Controller()
@UseGuards(CallerGuard, JsonBodies)
@UseFilters(OpenAiErrors)
export class OpenAiController {
  private readonly startedAt = seconds();

  constructor(
    private readonly served: ServedLoop,
    private readonly streams: RunStreams,
    private readonly answers: ProtocolAnswers,
    private readonly adapters: HttpAdapterHost,
  ) {}

  @Route('GET /v1/models')
  models(): AnswerOf<'GET /v1/models'> {
    return { object: 'list', data: [this.listed] };
  }

  @Route('GET /v1/models/:model')
  model({ model }: Asks<'GET /v1/models/:model'>) {
    this.assertModel(model);
    return this.listed;
  }

  @Route('POST /v1/chat/completions')
  async complete(
    @Body() body: JsonValue,
    @CurrentCaller() caller: Caller,
    @Req() request: HttpRequest,
    @Res() response: StreamEnds['response'],
    @IdempotencyKey() requestId?: string,
  ) {
    const asked = reading(() => readChatCompletionsRequest(body));
    const { model, includeUsage, isStreamed } = asked;
    this.assertModel(model);
    const options = { model, created: seconds(), includeUsage };
    const events = (): Promise<AsyncIterable<LoopEvent>> => this.eventsOf(asked, caller, requestId);
    if (isStreamed)
      return this.streams.send(
        events,
        chatCompletionsEncoder(options),
        { request, response },
        caller,
      );
    const all = await this.streams.collect(events, leavingSignal(response));
    assertAnswered(all.at(-1));
    this.adapters.httpAdapter.reply(response, toChatCompletion(all, options), 200);
  }

  private async eventsOf(
    { answers, messages, tools }: ChatCompletionsRequest,
    caller: Caller,
    requestId?: string,
  ): Promise<AsyncIterable<LoopEvent>> {
    if (answers.length > 0)
      return this.streams.resume(await this.answers.giveNamed(answers, caller), caller);
    const said = messages.flatMap(messageOf);
    if (said.every(({ role }) => role !== 'user')) throw new BadRequestException(SAYS_NOTHING);
    const request: LoopRequest = {
      ...(await this.served.termsOf(caller)),
      messages: said,
      ...(tools.length > 0 && { declaredTools: tools }),
      ...(requestId !== undefined && { requestId }),
    };
    return this.streams.ask(request, caller);
  }

  /** @throws {NotFoundException} For another model than that of the loop. */
  private assertModel(model: string): void {
    if (model === this.name) return;
    const message = `There is no model ${JSON.stringify(model)}. There is ${JSON.stringify(this.name)}.`;
    throw new NotFoundException({ code: 'model_not_found', message });
  }

  private get listed(): AnswerOf<'GET /v1/models/:model'> {
    return { id: this.name, object: 'model', created: this.startedAt, owned_by: 'toolloop' };
  }

  private get name(): string {
    return this.served.options.loop ?? 'toolloop';
  }
}

/**
 * A message that the client remembers. The calls of earlier answers and their results are left out:
 * the server has made them, and the client cannot vouch for them.
 */
function messageOf({ role, content }: JsonObject): Message[] {
  const text = contentText(content);
  if (text === '') return [];
  if (role === 'assistant') return [{ role: 'assistant', content: text }];
  if (role === 'system' || role === 'developer') return [{ role: 'system', content: text }];
  return role === 'user' ? [{ role: 'user', content: text }] : [];
}

const SAYS_NOTHING = {
  code: 'invalid_messages',
  message: '"messages" must have a message of the user with a text.',
} as const;

function seconds(): number {
  return Math.floor(Date.now() / 1000);
}
