import { DirectiveService } from '@toolloop/core/directives';
import { CallerController, CurrentCaller } from './caller.js';
import type { Caller } from './http-options.js';
import { ListPages, type Pages } from './pages.js';
import { Route } from './route.decorator.js';
import type { Asks } from '@toolloop/protocol';

/**
 * Effects that were requested and take place later: a caller's own, and for operators of directives
 * those of all of their tenant.
 */
@CallerController()
export class DirectivesController {
  constructor(private readonly directives: DirectiveService) {}

  @Route('GET /directives')
  list(
    listing: Asks<'GET /directives'>,
    @CurrentCaller() caller: Caller,
    @ListPages() pages: Pages,
  ) {
    return pages.of(
      listing,
      (page) => this.directives.list(caller, page),
      ({ directiveId }) => ({ after: directiveId }),
    );
  }

  @Route('GET /directives/:directiveId')
  get({ directiveId }: Asks<'GET /directives/:directiveId'>, @CurrentCaller() caller: Caller) {
    return this.directives.get(directiveId, caller);
  }

  @Route('POST /directives/:directiveId/cancel')
  cancel(
    { directiveId, reason }: Asks<'POST /directives/:directiveId/cancel'>,
    @CurrentCaller() caller: Caller,
  ) {
    return this.directives.cancel(directiveId, caller, reason);
  }

  @Route('POST /directives/:directiveId/redrive')
  redrive(
    { directiveId, ...finding }: Asks<'POST /directives/:directiveId/redrive'>,
    @CurrentCaller() caller: Caller,
  ) {
    return this.directives.redrive(directiveId, caller, finding);
  }
}
