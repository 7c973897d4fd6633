import type { ApprovalRequest, PendingViewOf } from '@toolloop/core';
import type { PendingAnswer } from '@toolloop/core/stores';
import { IsIn, IsOptional, IsString, MaxLength } from 'class-validator';

/** A person's yes or no to a call. A client can say nothing else about it. */
export class Verdict {
  @IsIn(['approve', 'deny'], { message: 'decision must be "approve" or "deny"' })
  decision!: 'approve' | 'deny';

  /** The model reads it. */
  @IsOptional()
  @IsString({ message: 'reason must be a text' })
  @MaxLength(1000, { message: 'reason must have at most 1000 characters' })
  reason?: string;
}

/** An approval as a client may see it: the question and, once it is decided, the answer. The call that it is bound to stays on the server. */
export interface ApprovalView extends ApprovalRequest {
  readonly answer?: Pick<PendingAnswer, 'decision' | 'reason' | 'decidedBy' | 'decidedAt'>;
}

export function toApprovalView({ request, answer }: PendingViewOf<'approval'>): ApprovalView {
  if (!answer) return request;
  const { decision, reason, decidedBy, decidedAt } = answer;
  return { ...request, answer: { decision, reason, decidedBy, decidedAt } };
}
