import { Body, Controller, Get, HttpCode, Param, Post, UseGuards, ValidationPipe } from '@nestjs/common';
import { ApprovalService, type ApprovalRequest, type Approver } from '@toolloop/core';
import { BearerGuard, CurrentUser } from '../identity/bearer.guard.js';
import { User } from '../identity/user.js';
import { toApprovalView, Verdict, type ApprovalView } from './approvals.dto.js';

/** Drops what it does not know: a client can say nothing else about a call, whatever it sends along. */
const VERDICT_ONLY = new ValidationPipe({ transform: true, whitelist: true });

/** The calls that wait for a person's yes or no: those that the user made through a model, and those that are theirs to decide. */
@Controller('approvals')
@UseGuards(BearerGuard)
export class ApprovalsController {
  constructor(private readonly approvals: ApprovalService<User>) {}

  @Get()
  list(@CurrentUser() user: User): Promise<readonly ApprovalRequest[]> {
    return this.approvals.list(approverOf(user));
  }

  @Get(':approvalId')
  async get(@Param('approvalId') approvalId: string, @CurrentUser() user: User): Promise<ApprovalView> {
    return toApprovalView(await this.approvals.get(approvalId, approverOf(user)));
  }

  @Post(':approvalId')
  @HttpCode(200)
  async decide(
    @Param('approvalId') approvalId: string,
    @Body(VERDICT_ONLY) { decision, reason }: Verdict,
    @CurrentUser() user: User,
  ): Promise<ApprovalView> {
    const said = { approvalId, decision, ...(reason !== undefined && { reason }) };
    return toApprovalView(await this.approvals.decide(said, approverOf(user)));
  }
}

function approverOf(user: User): Approver<User> {
  return { actor: user, tenant: user.tenantId };
}
