import { Injectable } from '@nestjs/common';
import { isExpired } from '../approval/approval.service.js';
import type { ApprovalAnswer, ApprovalRecord } from '../protocol/approval.js';
import { AskedApprovals, nobodyFor, type ApprovalQuestion, type AskedCall } from './asked.approvals.js';
import { CallFailure } from './call.failure.js';
import type { CallProgress } from './execution.scope.js';
import { PolicyGate } from './policy.gate.js';

const REASON =
  'It is unknown whether this call took place: it was begun before, and its outcome was not stored. Approve to make it again; deny to leave it.';
/** What asks, in the place of a rule of a policy. */
const ASKS = 'unknown_outcome';

/** A person's word on a call of which nobody knows whether it took place: a yes makes it again, once; anything else leaves it. */
@Injectable()
export class RepeatGate {
  constructor(
    private readonly asked: AskedApprovals,
    private readonly policy: PolicyGate,
  ) {}

  /**
   * `repeat` where a person said yes, and `reconsider` where one answered while the run waited: what let the call in may have changed meanwhile.
   * Throws `unknown_outcome`, and `CallPending` where the run waits for an answer.
   */
  async authorise(call: AskedCall): Promise<'repeat' | 'reconsider'> {
    const { progress } = call;
    if (nobodyFor(progress.scope) !== undefined) throw left();
    const { record, answer } = await this.question(call);
    if (answer) {
      await this.use(record, answer, progress);
      return 'repeat';
    }
    if (isExpired(record)) throw left('Nobody decided in time whether to make it again.');
    this.policy.refund(progress); // it is counted when it is made
    if (!(await this.asked.answered(record, progress))) throw left('Nobody decided in time whether to make it again.');
    return 'reconsider';
  }

  /** A yes that is used up was for the attempt before: of the one that followed nobody knows either. */
  private async question(call: AskedCall): Promise<{ readonly record: ApprovalRecord; readonly answer: ApprovalAnswer | undefined }> {
    const { scope, request } = call.progress;
    const question = questionOf(call.progress);
    const known = await this.asked.find(scope.approvals.repeatOf(request.call.toolCallId), call, question);
    if (known && !known.isUsed) return { record: known, answer: known.answer };
    const record = await this.asked.ask(call, question);
    scope.approvals.askRepeat(request.call.toolCallId, record.request.approvalId);
    return { record, answer: undefined };
  }

  private async use(record: ApprovalRecord, answer: ApprovalAnswer, progress: CallProgress): Promise<void> {
    await this.asked.tell(record, answer, progress);
    if (answer.decision === 'deny') throw left(denialText(answer));
    const refusal = await this.asked.use(record);
    if (refusal !== undefined) throw left(`${refusal}, so it was not made again.`);
  }
}

/** Whom policy wants asked about such a call decides on its repetition as well; what they decide is for this one call as it was begun. */
function questionOf({ decision }: CallProgress): ApprovalQuestion {
  const { policyVersion = '', approval = [] } = decision ?? {};
  return { reason: REASON, rule: ASKS, policyVersion, terms: approval, mayEdit: false, mayRemember: false };
}

/** Of a call that was begun before. */
export function left(why?: string): CallFailure {
  const told = 'This call was begun before and it is unknown whether its effect took place. Do not repeat it; check first.';
  return CallFailure.of('unknown_outcome', why === undefined ? told : `${told} ${why}`);
}

function denialText({ reason }: ApprovalAnswer): string {
  return `A person decided not to make it again.${reason === undefined ? '' : ` They said: ${reason}`}`;
}
