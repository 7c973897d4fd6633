import { Injectable } from '@nestjs/common';
import type { Tool } from '../protocol/tool.js';
import { ArgumentReader, type ReadArguments } from './argument.reader.js';
import { CallLookup } from './call.lookup.js';
import { ExecutionRules } from './execution.rules.js';
import type { CallProgress, CallRequest, ExecutionScope } from './execution.scope.js';
import { meantCall } from './meant-call.js';
import { MissingInstance } from './missing.instance.js';
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
    private readonly missing: MissingInstance,
  ) {}

  /** A call of which nothing is known yet, but which tool it means where it is made over a surface. */
  open(request: CallRequest, scope: ExecutionScope): CallProgress {
    const subRun = request.begun?.record;
    const begun = { startedAt: new Date(), scope, options: this.rules.optionsFor(undefined, scope.options), ...(subRun && { subRun }) };
    const { toolset, limits } = scope;
    const { name: calledAs } = request.call;
    const surface = toolset.find(calledAs)?.surface;
    const routed = surface && meantCall(request.call, toolset, limits.argumentBytes);
    if (!routed) return { ...begun, request };
    return { ...begun, request: { ...request, call: routed.call }, routed: { tool: routed.tool, surface, calledAs } };
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
      if (tool.surface) throw this.missing.failureOf(tool, input.args, progress);
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
