import { Body, Controller, Get, HttpCode, Param, Post, Query, UseGuards, ValidationPipe } from '@nestjs/common';
import { DirectiveService, type DirectiveOperator, type DirectiveView } from '@toolloop/core';
import { BearerGuard, CurrentUser } from '../identity/bearer.guard.js';
import { User } from '../identity/user.js';
import { Cancellation, DirectiveListing, Redrive } from './directives.dto.js';

const CHECKED = new ValidationPipe({ transform: true, whitelist: true });

/** What was asked for and happens later: a user's own, and for managers that of all their colleagues. */
@Controller('directives')
@UseGuards(BearerGuard)
export class DirectivesController {
  constructor(private readonly directives: DirectiveService<User>) {}

  @Get()
  list(@Query(CHECKED) { status, subject, after }: DirectiveListing, @CurrentUser() user: User): Promise<readonly DirectiveView[]> {
    const which = { ...(status && { status }), ...(subject !== undefined && { subject }), ...(after !== undefined && { after }) };
    return this.directives.list(operatorOf(user), which);
  }

  @Get(':directiveId')
  get(@Param('directiveId') directiveId: string, @CurrentUser() user: User): Promise<DirectiveView> {
    return this.directives.get(directiveId, operatorOf(user));
  }

  @Post(':directiveId/cancel')
  @HttpCode(200)
  cancel(
    @Param('directiveId') directiveId: string,
    @Body(CHECKED) { reason }: Cancellation,
    @CurrentUser() user: User,
  ): Promise<DirectiveView> {
    return this.directives.cancel(directiveId, operatorOf(user), reason);
  }

  @Post(':directiveId/redrive')
  @HttpCode(200)
  redrive(
    @Param('directiveId') directiveId: string,
    @Body(CHECKED) { tookPlace }: Redrive,
    @CurrentUser() user: User,
  ): Promise<DirectiveView> {
    return this.directives.redrive(directiveId, operatorOf(user), tookPlace === undefined ? {} : { tookPlace });
  }
}

function operatorOf(user: User): DirectiveOperator<User> {
  return { actor: user, tenant: user.tenantId };
}
