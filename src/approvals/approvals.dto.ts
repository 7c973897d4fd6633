import type { ApprovalAnswer, ApprovalRequest, ApprovalView as KeptApproval } from '@toolloop/core';
import { IsIn, IsOptional, IsString, MaxLength } from 'class-validator';

/** A person's yes or no to a call. */
export class Verdict {
  @IsIn(['approve', 'deny'], { message: 'decision must be "approve" or "deny"' })
  decision!: 'approve' | 'deny';

  /** The model reads it. */
  @IsOptional()
  @IsString({ message: 'reason must be a text' })
  @MaxLength(1000, { message: 'reason must have at most 1000 characters' })
  reason?: string;
}

/** An approval as a client may see it: what is asked and, once somebody has decided, who said what. What it is bound to stays on the server. */
export interface ApprovalView extends ApprovalRequest {
  readonly answer?: Pick<ApprovalAnswer, 'decision' | 'reason' | 'decidedBy' | 'decidedAt'>;
}

export function toApprovalView({ request, answer }: KeptApproval): ApprovalView {
  if (!answer) return request;
  const { decision, reason, decidedBy, decidedAt } = answer;
  return { ...request, answer: { decision, ...(reason !== undefined && { reason }), decidedBy, decidedAt } };
}
