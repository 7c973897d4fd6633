import { Body, Get, HttpCode, Param, Post, Query } from '@nestjs/common';
import { DirectiveService } from '@toolloop/core/directives';
import type { DirectiveView } from '@toolloop/core/directives';
import { CallerController, CurrentCaller, NAMED_ONLY } from './caller.js';
import type { Caller } from './http-options.js';
import { ListPages } from './pages.js';
import type { Pages } from './pages.js';
import { DirectiveListing, Redrive, StopRun } from './requests.dto.js';

/**
 * Effects that were requested and take place later: a caller's own, and for operators of directives
 * those of all of their tenant.
 */
@CallerController('directives')
export class DirectivesController {
  constructor(private readonly directives: DirectiveService) {}

  @Get()
  list(
    @Query(NAMED_ONLY) listing: DirectiveListing,
    @CurrentCaller() caller: Caller,
    @ListPages() pages: Pages,
  ): Promise<readonly DirectiveView[]> {
    return pages.of(
      listing,
      (page) => this.directives.list(caller, page),
      ({ directiveId }) => ({ after: directiveId }),
    );
  }

  @Get(':directiveId')
  get(
    @Param('directiveId') directiveId: string,
    @CurrentCaller() caller: Caller,
  ): Promise<DirectiveView> {
    return this.directives.get(directiveId, caller);
  }

  @Post(':directiveId/cancel')
  @HttpCode(200)
  cancel(
    @Param('directiveId') directiveId: string,
    @Body(NAMED_ONLY) { reason }: StopRun,
    @CurrentCaller() caller: Caller,
  ): Promise<DirectiveView> {
    return this.directives.cancel(directiveId, caller, reason);
  }

  @Post(':directiveId/redrive')
  @HttpCode(200)
  redrive(
    @Param('directiveId') directiveId: string,
    @Body(NAMED_ONLY) finding: Redrive,
    @CurrentCaller() caller: Caller,
  ): Promise<DirectiveView> {
    return this.directives.redrive(directiveId, caller, finding);
  }
}
