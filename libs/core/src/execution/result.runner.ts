import { Injectable } from '@nestjs/common';
import type { Tool } from '../protocol/tool.js';
import type { ReadArguments } from './argument.reader.js';
import { CallFailure, failureOf } from './call.failure.js';
import { EffectGuard } from './effect.guard.js';
import type { CallProgress, ToolOutcome } from './execution.scope.js';
import { ResultDescriber } from './result.describer.js';
import { ToolInvoker } from './tool.invoker.js';
import { succeeded } from './tool.outcome.js';

/** Stages 6 to 9: the method, its result, and the journal's last word. */
@Injectable()
export class ResultRunner {
  constructor(
    private readonly invoker: ToolInvoker,
    private readonly describer: ResultDescriber,
    private readonly effects: EffectGuard,
  ) {}

  async run(tool: Tool, input: ReadArguments, progress: CallProgress): Promise<ToolOutcome> {
    try {
      const { live, result: shown } = await this.invoker.invoke(tool, input.built, progress);
      const result = this.describer.describe(tool, shown, progress);
      await this.effects.finish(tool, { status: 'succeeded', content: result.content, ui: result.ui }, progress);
      return succeeded(progress, live, result);
    } catch (error) {
      const failure = failureOf(error);
      // An unknown outcome stays open in the journal: nobody may perform the call again.
      if (failure.code !== 'unknown_outcome') await this.effects.finish(tool, { status: 'failed', failure }, progress);
      throw error instanceof CallFailure ? error : new CallFailure(failure, { cause: error });
    }
  }
}
