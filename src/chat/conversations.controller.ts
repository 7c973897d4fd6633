import { Controller, Delete, Get, HttpCode, NotFoundException, Param, Query, UseGuards } from '@nestjs/common';
import { ConversationService } from '@toolloop/core';
import type { ConversationPart } from '@toolloop/core/runs';
import type { ConversationSummary } from '@toolloop/core/stores';
import { Matches, ValidateIf } from 'class-validator';
import { NAMED_ONLY } from '../http/request-parameters.js';
import { BearerGuard, CurrentUser } from '../identity/bearer.guard.js';
import { principalOf, User } from '../identity/user.js';

/** The place in a conversation from which to read it. */
export class ConversationFrom {
  /** The number of its first message. */
  @ValidateIf((_query, from) => from !== undefined)
  @Matches(/^\d{1,9}$/, { message: 'from must be the number of a message' })
  from?: string;
}

/** The conversations that a user has had with the desk. */
@Controller('conversations')
@UseGuards(BearerGuard)
export class ConversationsController {
  constructor(private readonly conversations: ConversationService<User>) {}

  @Get()
  list(@CurrentUser() user: User, @Query('after') after?: string): Promise<readonly ConversationSummary[]> {
    return this.conversations.list(principalOf(user), after === undefined ? {} : { after });
  }

  @Get(':conversationId')
  async read(
    @Param('conversationId') conversationId: string,
    @CurrentUser() user: User,
    @Query(NAMED_ONLY) { from }: ConversationFrom,
  ): Promise<ConversationPart> {
    const part = await this.conversations.read(conversationId, principalOf(user), from === undefined ? {} : { from: Number(from) });
    if (part) return part;
    throw unknown();
  }

  @Delete(':conversationId')
  @HttpCode(204)
  async delete(@Param('conversationId') conversationId: string, @CurrentUser() user: User): Promise<void> {
    if (!(await this.conversations.delete(conversationId, principalOf(user)))) throw unknown();
  }
}

function unknown(): NotFoundException {
  return new NotFoundException({ code: 'not_found', message: 'There is no such conversation.' });
}
