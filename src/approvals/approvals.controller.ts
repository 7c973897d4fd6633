import { Body, Controller, Get, HttpCode, Param, Post, UseGuards } from '@nestjs/common';
import { type ApprovalRequest, PendingService } from '@toolloop/core';
import { NAMED_ONLY } from '../http/request-parameters.js';
import { BearerGuard, CurrentUser } from '../identity/bearer.guard.js';
import { principalOf, User } from '../identity/user.js';
import { toApprovalView, Verdict, type ApprovalView } from './approvals.dto.js';

/** The calls that wait for a person's yes or no: those of the user's own runs, and those that the user may decide. */
@Controller('approvals')
@UseGuards(BearerGuard)
export class ApprovalsController {
  constructor(private readonly approvals: PendingService<User>) {}

  @Get()
  list(@CurrentUser() user: User): Promise<readonly ApprovalRequest[]> {
    return this.approvals.list(principalOf(user));
  }

  @Get(':approvalId')
  async get(@Param('approvalId') approvalId: string, @CurrentUser() user: User): Promise<ApprovalView> {
    return toApprovalView(await this.approvals.get(approvalId, principalOf(user)));
  }

  @Post(':approvalId')
  @HttpCode(200)
  async decide(
    @Param('approvalId') approvalId: string,
    @Body(NAMED_ONLY) { decision, reason }: Verdict,
    @CurrentUser() user: User,
  ): Promise<ApprovalView> {
    return toApprovalView(await this.approvals.decide({ approvalId, decision, reason }, principalOf(user)));
  }
}
