import { Delete, Get, HttpCode, NotFoundException, Param, Query } from '@nestjs/common';
import { ConversationService } from '@toolloop/core';
import type { ConversationPage, ConversationSummary } from '@toolloop/protocol';
import { CallerController, CurrentCaller, NAMED_ONLY, STRICT } from './caller.js';
import type { Caller } from './http-options.js';
import { ListPages } from './pages.js';
import type { Pages } from './pages.js';
import { ConversationFrom, Page } from './requests.dto.js';

/** The conversations that a caller has had. */
@CallerController('conversations')
export class ConversationsController {
  constructor(private readonly conversations: ConversationService) {}

  @Get()
  list(
    @Query(STRICT) listing: Page,
    @CurrentCaller() caller: Caller,
    @ListPages() pages: Pages,
  ): Promise<readonly ConversationSummary[]> {
    return pages.of(
      listing,
      (page) => this.conversations.list(caller, page),
      ({ conversationId }) => ({ after: conversationId }),
    );
  }

  @Get(':conversationId')
  async read(
    @Param('conversationId') conversationId: string,
    @CurrentCaller() caller: Caller,
    @Query(NAMED_ONLY) { from }: ConversationFrom,
  ): Promise<ConversationPage> {
    const part = await this.conversations.read(
      conversationId,
      caller,
      from === undefined ? {} : { from: Number(from) },
    );
    if (part) return part;
    throw unknownConversation();
  }

  @Delete(':conversationId')
  @HttpCode(204)
  async delete(
    @Param('conversationId') conversationId: string,
    @CurrentCaller() caller: Caller,
  ): Promise<void> {
    if (!(await this.conversations.delete(conversationId, caller))) throw unknownConversation();
  }
}

function unknownConversation(): NotFoundException {
  return new NotFoundException({ code: 'not_found', message: 'There is no such conversation.' });
}
