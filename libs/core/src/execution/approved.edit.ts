import { Injectable } from '@nestjs/common';
import type { JsonObject } from '../protocol/json.js';
import type { Tool } from '../protocol/tool.js';
import { ArgumentReader, type ReadArguments } from './argument.reader.js';
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
  ) {}

  async read(tool: Tool, args: JsonObject, progress: CallProgress): Promise<ReadArguments> {
    const call = { ...progress.request.call, arguments: JSON.stringify(args) };
    const edited = { ...progress, request: { ...progress.request, call } };
    const input = await this.admission.admit(tool, await this.reader.read(tool, edited), edited);
    this.policy.judge(tool, input.args, progress); // a yes does not let in what is denied
    return input;
  }
}
