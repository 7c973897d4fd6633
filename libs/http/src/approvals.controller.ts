import { BadRequestException } from '@nestjs/common';
import { PendingService } from '@toolloop/core';
import { groupsOf } from '@toolloop/core/internal';
import type { PendingViewOf } from '@toolloop/core/loop';
import { EndorsementService } from '@toolloop/core/runs';
import type { Approval, ApprovalDecision, Asks } from '@toolloop/protocol';
import { CallerController, CurrentCaller } from './caller.js';
import type { Caller } from './http-options.js';
import { ListPages, type Pages } from './pages.js';
import { Route } from './route.decorator.js';

/**
 * The calls that wait for a person's yes or no: those of the caller's own runs, and those that the
 * caller may decide.
 */
@CallerController()
export class ApprovalsController {
  constructor(
    private readonly pending: PendingService,
    private readonly endorsements: EndorsementService,
  ) {}

  @Route('GET /approvals')
  list(
    listing: Asks<'GET /approvals'>,
    @CurrentCaller() caller: Caller,
    @ListPages() pages: Pages,
  ) {
    return pages.of(
      listing,
      (page) => this.pending.list(caller, page),
      ({ approvalId }) => ({ after: approvalId }),
    );
  }

  /**
   * Lists the same calls as groups, of each of which one decision can be taken. A page is one of
   * calls: a group whose calls stand on two pages is on both, with the same name.
   */
  @Route('GET /approvals/groups')
  async groups(
    listing: Asks<'GET /approvals/groups'>,
    @CurrentCaller() caller: Caller,
    @ListPages() pages: Pages,
  ) {
    return groupsOf(await this.list(listing, caller, pages));
  }

  @Route('GET /approvals/:approvalId')
  async get({ approvalId }: Asks<'GET /approvals/:approvalId'>, @CurrentCaller() caller: Caller) {
    return toApproval(await this.pending.get(approvalId, caller));
  }

  /**
   * Takes a yes or a no, about this call or with `also` about others of its group. Anything that is
   * no part of a decision is ignored: the call itself stays on the server. With `always` an
   * operator trusts a value for good, which is refused before anything is decided where the person
   * may not.
   */
  @Route('POST /approvals/:approvalId')
  async decide(
    { approvalId, decision, reason, amend, also = [], always }: Asks<'POST /approvals/:approvalId'>,
    @CurrentCaller() caller: Caller,
  ) {
    const said = { decision, ...(reason !== undefined && { reason }) };
    if (also.length > 0) return this.together([approvalId, ...also], said, caller, amend ?? always);
    if (always) await this.endorsements.assertAlways(approvalId, always, caller, decision);
    const decided = await this.pending.decide({ approvalId, ...said }, caller, amend);
    if (always) await this.endorsements.always(approvalId, always, caller);
    return toApproval(decided);
  }

  private async together(
    ids: readonly string[],
    said: Omit<ApprovalDecision, 'approvalId'>,
    caller: Caller,
    more: object | undefined,
  ): Promise<Approval> {
    if (more)
      throw new BadRequestException(
        'A decision about several calls changes none of them, and trusts nothing.',
      );
    const [first] = await this.pending.decideTogether(ids, said, caller);
    if (!first) throw new BadRequestException('Nothing was decided.');
    return toApproval(first);
  }
}

/**
 * An approval as a client may see it: the question and, once it is decided, the answer. The call
 * that it is bound to stays on the server.
 */
function toApproval({ request, answer }: PendingViewOf<'approval'>): Approval {
  if (!answer) return request;
  const { decision, reason, decidedBy, decidedAt, endorse } = answer;
  return {
    ...request,
    answer: {
      decision,
      ...(reason !== undefined && { reason }),
      decidedBy,
      decidedAt,
      ...(endorse && { endorse }),
    },
  };
}
