import { PendingService } from '@toolloop/core';
import { CallerController, CurrentCaller } from './caller.js';
import type { Caller } from './http-options.js';
import { ListPages, type Pages } from './pages.js';
import { Route } from './route.decorator.js';
import type { Asks } from '@toolloop/protocol';

/**
 * Everything that waits for the caller, of every kind: approvals, questions, calls that a client is
 * to make, rehearsals. It is answered by `POST /runs/:id/answer`.
 */
@CallerController()
export class PendingController {
  constructor(private readonly pending: PendingService) {}

  @Route('GET /pending')
  list(listing: Asks<'GET /pending'>, @CurrentCaller() caller: Caller, @ListPages() pages: Pages) {
    return pages.of(
      listing,
      (page) => this.pending.inbox(caller, page),
      ({ id }) => ({ after: id }),
    );
  }
}
