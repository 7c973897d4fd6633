import { PendingService } from '@toolloop/core';
import { CallerController, CurrentCaller } from './caller.js';
import type { Caller } from './http-options.js';
import { ListPages, type Pages } from './pages.js';
import { Route } from './route.decorator.js';
import type { Asks } from '@toolloop/protocol';

/** The questions that calls ask people. */
@CallerController()
export class QuestionsController {
  constructor(private readonly pending: PendingService) {}

  @Route('GET /questions')
  list(
    listing: Asks<'GET /questions'>,
    @CurrentCaller() caller: Caller,
    @ListPages() pages: Pages,
  ) {
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
  @Route('POST /questions/:questionId')
  answer(reply: Asks<'POST /questions/:questionId'>, @CurrentCaller() caller: Caller) {
    return this.pending.answer(reply, caller);
  }
}
