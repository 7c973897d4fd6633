import type { ApprovalAnswer, ApprovalRequest, ApprovalView as KeptApproval } from '@toolloop/core';

/** An approval as a client may see it: what is asked and, once somebody has decided, who said what. What it is bound to stays on the server. */
export interface ApprovalView extends ApprovalRequest {
  readonly answer?: Pick<ApprovalAnswer, 'decision' | 'reason' | 'decidedBy' | 'decidedAt'>;
}

export function toApprovalView({ request, answer }: KeptApproval): ApprovalView {
  if (!answer) return request;
  const { decision, reason, decidedBy, decidedAt } = answer;
  return { ...request, answer: { decision, ...(reason !== undefined && { reason }), decidedBy, decidedAt } };
}
