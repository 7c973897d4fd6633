import { Injectable } from '@nestjs/common';
import type { Tool } from '../protocol/tool.js';
import { ApprovalGate } from './approval.gate.js';
import type { ReadArguments } from './argument.reader.js';
import { CallAdmission } from './call.admission.js';
import { CallAudit } from './call.audit.js';
import { CallFailure } from './call.failure.js';
import { CallPending } from './call.pending.js';
import { CallReader } from './call.reader.js';
import { DirectiveRequests } from './directive.requests.js';
import type { CallProgress, CallRequest, ExecutionScope } from './execution.scope.js';

/** A call that may be made. */
export interface AdmittedCall {
  readonly tool: Tool;
  readonly input: ReadArguments;
  /** The same, before an approver changed it. */
  readonly sent: ReadArguments;
}

/** Stages 1 to 4: everything between what the model wrote and what may be done. */
@Injectable()
export class CallIntake {
  constructor(
    private readonly reader: CallReader,
    private readonly admission: CallAdmission,
    private readonly approvals: ApprovalGate,
    private readonly audit: CallAudit,
    private readonly directives: DirectiveRequests,
  ) {}

  /** A call of which nothing is known yet. */
  open(request: CallRequest, scope: ExecutionScope): CallProgress {
    return this.reader.open(request, scope);
  }

  /** Throws whatever keeps the call from being made, and `CallPending` where that is not decided yet. */
  async take(progress: CallProgress): Promise<AdmittedCall> {
    const { tool, input: sent } = await this.reader.read(progress);
    if (progress.request.refusal) throw new CallFailure(progress.request.refusal);
    const admitting = this.admission.admit(tool, sent, progress);
    const admitted = admitting instanceof Promise ? await admitting : admitting;
    progress.args = admitted.args;
    if (progress.request.begun) return this.goOn(tool, admitted, progress);
    if (tool.allowReserved) await this.audit.optedOut(tool.allowReserved, { tool, input: admitted }, progress);
    if (tool.directive) progress.standing = await this.directives.find(tool, admitted, progress);
    const authorising = this.approvals.authorise(tool, admitted, progress);
    const input = authorising instanceof Promise ? await authorising : authorising;
    progress.args = input.args;
    return { tool: progress.tool ?? tool, input, sent: admitted }; // an entity's may have been found anew, after a wait
  }

  /** The last stage once more, of a call about which a person was asked after it had been let in. */
  async reconsider({ tool, sent }: AdmittedCall, progress: CallProgress): Promise<AdmittedCall> {
    const input = await this.approvals.authoriseAgain({ tool, input: sent, progress });
    progress.args = input.args;
    return { tool: progress.tool ?? tool, input, sent };
  }

  /** A sub-run that waited was let in when it began; what it does now is decided call by call. That the tool is still permitted was asked before. */
  private async goOn(tool: Tool, input: ReadArguments, progress: CallProgress): Promise<AdmittedCall> {
    if (progress.request.isHeld) throw new CallPending(undefined, progress.request.begun);
    await this.audit.decided(tool, input, progress);
    progress.args = progress.request.begun?.args ?? input.args;
    return { tool, input, sent: input };
  }
}
