import { Injectable } from '@nestjs/common';
import type { JsonObject } from '../protocol/json.js';
import type { Tool } from '../protocol/tool.js';
import { ArgumentReader, type ReadArguments } from './argument.reader.js';
import type { ApprovalRecord } from '../protocol/approval.js';
import { canonicalDeclaration } from '../schema/canonical-json.js';
import { CallAudit } from './call.audit.js';
import { CallFailure } from './call.failure.js';
import { CallAdmission } from './call.admission.js';
import type { CallProgress } from './execution.scope.js';
import { PolicyGate } from './policy.gate.js';

/** What the approver put in the place of the model's arguments, through every check that those went through. */
@Injectable()
export class ApprovedEdit {
  constructor(
    private readonly reader: ArgumentReader,
    private readonly admission: CallAdmission,
    private readonly policy: PolicyGate,
    private readonly audit: CallAudit,
  ) {}

  async read(tool: Tool, args: JsonObject, progress: CallProgress, { terms }: ApprovalRecord): Promise<ReadArguments> {
    const call = { ...progress.request.call, arguments: JSON.stringify(args) };
    const edited = { ...progress, request: { ...progress.request, call } };
    const input = await this.admission.admit(tool, await this.reader.read(tool, edited), edited);
    const { kind, approval = [] } = this.policy.judge(tool, input.args, progress); // a yes does not let in what is denied
    const met = new Set(terms.map(canonicalDeclaration));
    if (kind === 'require_approval' && !approval.every((one) => met.has(canonicalDeclaration(one))))
      throw CallFailure.of('approval_denied', 'What the approver made of the call needs the approval of somebody else.');
    await this.audit.decided(tool, input, progress);
    return input;
  }
}
