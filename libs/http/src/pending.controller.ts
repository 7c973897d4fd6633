import { Get, Query } from '@nestjs/common';
import { PendingService } from '@toolloop/core';
import type { InboxEntry } from '@toolloop/core/loop';
import { CallerController, CurrentCaller, STRICT } from './caller.js';
import type { Caller } from './http-options.js';
import { ListPages } from './pages.js';
import type { Pages } from './pages.js';
import { PendingListing } from './requests.dto.js';

/**
 * Everything that waits for the caller, of every kind: approvals, questions, calls that a client is
 * to make, rehearsals. It is answered by `POST /runs/:id/answer`.
 */
@CallerController('pending')
export class PendingController {
  constructor(private readonly pending: PendingService) {}

  @Get()
  list(
    @Query(STRICT) listing: PendingListing,
    @CurrentCaller() caller: Caller,
    @ListPages() pages: Pages,
  ): Promise<readonly InboxEntry[]> {
    return pages.of(
      listing,
      (page) => this.pending.inbox(caller, page),
      ({ id }) => ({ after: id }),
    );
  }
}
