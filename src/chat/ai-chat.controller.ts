import { BadRequestException, Body, Controller, Header, HttpCode, RequestMethod, Sse, UseGuards, type MessageEvent } from '@nestjs/common';
import { type JsonValue, PendingService, type PendingView, ToolLoopService } from '@toolloop/core';
import { RunService } from '@toolloop/core/runs';
import type { PendingReply } from '@toolloop/protocol';
import { readUiMessageRequest, toUiMessageStream, type UiMessageRequest } from '@toolloop/ui-stream';
import type { Observable } from 'rxjs';
import { IdempotencyKey, STRICT } from '../http/request-parameters.js';
import { BearerGuard, CurrentUser } from '../identity/bearer.guard.js';
import { principalOf, type User } from '../identity/user.js';
import { termsFor } from '../policy.js';
import { Ask, toRunRequest } from './chat.dto.js';

/** The desk for `useChat` of the AI SDK: the chat's id is that of a conversation, and the answers to what a run asked come inside of its messages. */
@Controller('ai')
@UseGuards(BearerGuard)
export class AiChatController {
  constructor(
    private readonly loop: ToolLoopService<User>,
    private readonly runs: RunService<User>,
    private readonly pending: PendingService<User>,
  ) {}

  @Sse('chat', { method: RequestMethod.POST })
  @HttpCode(200)
  @Header('x-vercel-ai-ui-message-stream', 'v1')
  async chat(@Body() body: JsonValue, @CurrentUser() user: User, @IdempotencyKey() requestId?: string): Promise<Observable<MessageEvent>> {
    const { runId, prompt: message, chatId: conversationId, replies, shownCalls } = read(body);
    if (runId === undefined) {
      const ask: unknown = await STRICT.transform({ message, conversationId }, { type: 'body', metatype: Ask });
      if (!(ask instanceof Ask)) throw new BadRequestException('The message cannot be read.');
      return this.loop.stream(toRunRequest(ask, user, requestId)).pipe(toUiMessageStream());
    }
    await this.answer(runId, replies, user);
    return (await this.runs.resume(runId, termsFor(user))).pipe(toUiMessageStream({ shownCalls }));
  }

  /** Gives the answers to what the run still asks. The client repeats the earlier ones in every request. */
  private async answer(runId: string, replies: readonly PendingReply[], user: User): Promise<void> {
    const asked = await this.pending.inbox(principalOf(user), { runId });
    for (const reply of replies) {
      if (asked.some((view) => isAbout(reply, view))) await this.runs.answer(runId, reply, principalOf(user));
    }
  }
}

function isAbout(reply: PendingReply, { kind, request }: PendingView): boolean {
  if (kind === 'approval') return 'approvalId' in reply && reply.approvalId === request.approvalId;
  return kind === 'client' && 'toolCallId' in reply && reply.toolCallId === request.toolCallId;
}

function read(body: JsonValue): UiMessageRequest {
  try {
    return readUiMessageRequest(body);
  } catch (error) {
    throw new BadRequestException(error instanceof TypeError ? error.message : 'The body cannot be read.');
  }
}
