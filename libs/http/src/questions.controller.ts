import { Body, Get, HttpCode, Param, Post, Query } from '@nestjs/common';
import { PendingService } from '@toolloop/core';
import type { AnsweredRequest, QuestionRequest } from '@toolloop/protocol';
import { CallerController, CurrentCaller, STRICT } from './caller.js';
import type { Caller } from './http-options.js';
import { ListPages } from './pages.js';
import type { Pages } from './pages.js';
import { QuestionListing, QuestionReply } from './requests.dto.js';

/** The questions that calls ask people. */
@CallerController('questions')
export class QuestionsController {
  constructor(private readonly pending: PendingService) {}

  @Get()
  list(
    @Query(STRICT) listing: QuestionListing,
    @CurrentCaller() caller: Caller,
    @ListPages() pages: Pages,
  ): Promise<readonly QuestionRequest[]> {
    return pages.of(
      listing,
      async ({ runId, limit, after }) => {
        const asked = await this.pending.inbox(caller, { kind: 'question', runId, limit, after });
        return asked.flatMap((view) => (view.kind === 'question' ? [view.request] : []));
      },
      ({ questionId }) => ({ after: questionId }),
    );
  }

  /** Takes an answer, which must have the form that was asked for, or that there is none. */
  @Post(':questionId')
  @HttpCode(200)
  answer(
    @Param('questionId') questionId: string,
    @Body(STRICT) { answer, decision, reason }: QuestionReply,
    @CurrentCaller() caller: Caller,
  ): Promise<AnsweredRequest> {
    return this.pending.answer({ questionId, answer, decision, reason }, caller);
  }
}
