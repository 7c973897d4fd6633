import { Body, Controller, Get, HttpCode, Param, Post, Query, UseGuards } from '@nestjs/common';
import { DirectiveService, type DirectiveView } from '@toolloop/core/directives';
import { NAMED_ONLY } from '../http/request-parameters.js';
import { BearerGuard, CurrentUser } from '../identity/bearer.guard.js';
import { principalOf, User } from '../identity/user.js';
import { Cancellation, DirectiveListing, Redrive } from './directives.dto.js';

/** Effects that were requested and take place later: a user's own, and for managers those of all their colleagues. */
@Controller('directives')
@UseGuards(BearerGuard)
export class DirectivesController {
  constructor(private readonly directives: DirectiveService<User>) {}

  @Get()
  list(@Query(NAMED_ONLY) listing: DirectiveListing, @CurrentUser() user: User): Promise<readonly DirectiveView[]> {
    return this.directives.list(principalOf(user), listing);
  }

  @Get(':directiveId')
  get(@Param('directiveId') directiveId: string, @CurrentUser() user: User): Promise<DirectiveView> {
    return this.directives.get(directiveId, principalOf(user));
  }

  @Post(':directiveId/cancel')
  @HttpCode(200)
  cancel(
    @Param('directiveId') directiveId: string,
    @Body(NAMED_ONLY) { reason }: Cancellation,
    @CurrentUser() user: User,
  ): Promise<DirectiveView> {
    return this.directives.cancel(directiveId, principalOf(user), reason);
  }

  @Post(':directiveId/redrive')
  @HttpCode(200)
  redrive(
    @Param('directiveId') directiveId: string,
    @Body(NAMED_ONLY) finding: Redrive,
    @CurrentUser() user: User,
  ): Promise<DirectiveView> {
    return this.directives.redrive(directiveId, principalOf(user), finding);
  }
}
