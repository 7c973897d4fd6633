import { Injectable } from '@nestjs/common';
import type { Tool } from '../protocol/tool.js';
import { ArgumentReader, type ReadArguments } from './argument.reader.js';
import { CallLookup } from './call.lookup.js';
import { ExecutionRules } from './execution.rules.js';
import type { CallProgress, CallRequest, ExecutionScope } from './execution.scope.js';
import { PolicyGate } from './policy.gate.js';
import { shownArguments } from './tool.outcome.js';

/** Stages 1 to 3: which tool is meant, and with which arguments. */
@Injectable()
export class CallReader {
  constructor(
    private readonly lookup: CallLookup,
    private readonly policy: PolicyGate,
    private readonly argumentReader: ArgumentReader,
    private readonly rules: ExecutionRules,
  ) {}

  /** A call of which nothing is known yet. */
  open(request: CallRequest, scope: ExecutionScope): CallProgress {
    const subRun = request.begun?.record;
    return { request, scope, startedAt: new Date(), options: this.rules.optionsFor(undefined, scope.options), ...(subRun && { subRun }) };
  }

  /** The call is announced with its arguments as soon as they are known, and without them where they never are. */
  async read(progress: CallProgress): Promise<{ readonly tool: Tool; readonly input: ReadArguments }> {
    const { request, scope } = progress;
    const announcement = { type: 'tool-call', step: request.step, toolCallId: request.call.toolCallId, tool: request.call.name } as const;
    try {
      const found = this.lookup.resolve(progress);
      const listed = found instanceof Promise ? await found : found;
      progress.tool = listed;
      const admission = this.policy.admit(listed, progress);
      const tool = admission instanceof Promise ? await admission : admission;
      progress.options = this.rules.optionsFor(tool, scope.options);
      const input = await this.argumentReader.read(tool, progress);
      progress.args = input.args;
      const shown = scope.emit({ ...announcement, args: shownArguments(input.args, tool.input.hidden) });
      if (shown) await shown;
      return { tool, input };
    } catch (error) {
      await scope.emit(announcement);
      throw error;
    }
  }
}
