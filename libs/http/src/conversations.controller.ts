import { NotFoundException } from '@nestjs/common';
import { ConversationService } from '@toolloop/core';
import { CallerController, CurrentCaller } from './caller.js';
import type { Caller } from './http-options.js';
import { ListPages, type Pages } from './pages.js';
import { Route } from './route.decorator.js';
import type { Asks } from '@toolloop/protocol';

/** The conversations that a caller has had. */
@CallerController()
export class ConversationsController {
  constructor(private readonly conversations: ConversationService) {}

  @Route('GET /conversations')
  list(
    listing: Asks<'GET /conversations'>,
    @CurrentCaller() caller: Caller,
    @ListPages() pages: Pages,
  ) {
    return pages.of(
      listing,
      (page) => this.conversations.list(caller, page),
      ({ conversationId }) => ({ after: conversationId }),
    );
  }

  @Route('GET /conversations/:conversationId')
  async read(
    { conversationId, from }: Asks<'GET /conversations/:conversationId'>,
    @CurrentCaller() caller: Caller,
  ) {
    const part = await this.conversations.read(
      conversationId,
      caller,
      from === undefined ? {} : { from: Number(from) },
    );
    if (part) return part;
    throw unknownConversation();
  }

  @Route('DELETE /conversations/:conversationId')
  async delete(
    { conversationId }: Asks<'DELETE /conversations/:conversationId'>,
    @CurrentCaller() caller: Caller,
  ) {
    if (!(await this.conversations.delete(conversationId, caller))) throw unknownConversation();
  }
}

function unknownConversation(): NotFoundException {
  return new NotFoundException({ code: 'not_found', message: 'There is no such conversation.' });
}
