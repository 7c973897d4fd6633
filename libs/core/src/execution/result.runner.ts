import { Injectable } from '@nestjs/common';
import { StorageUnavailableError } from '../protocol/errors.js';
import type { JournalOutcome } from '../protocol/call-journal.js';
import type { Tool } from '../protocol/tool.js';
import type { ReadArguments } from './argument.reader.js';
import { CallAttempts } from './call.attempts.js';
import { CallFailure, failureOf } from './call.failure.js';
import { CallPending } from './call.pending.js';
import { EffectGuard } from './effect.guard.js';
import type { CallProgress, ToolOutcome } from './execution.scope.js';
import { RedactionError } from './redaction.error.js';
import { ResultDescriber, type DescribedResult } from './result.describer.js';
import { ToolInvoker, type InvokedResult } from './tool.invoker.js';
import { succeeded } from './tool.outcome.js';

/** Stages 6 to 9: the method, its result, and the journal's last word. */
@Injectable()
export class ResultRunner {
  private readonly attempts = new CallAttempts();

  constructor(
    private readonly invoker: ToolInvoker,
    private readonly describer: ResultDescriber,
    private readonly effects: EffectGuard,
  ) {}

  run(tool: Tool, input: ReadArguments, progress: CallProgress): Promise<ToolOutcome> {
    return this.concluded(tool, progress, () => this.invoke(tool, input, progress));
  }

  /** Of a call that was done and never said so: what its transaction returned stands for what its method would have. */
  recall(tool: Tool, kept: unknown, progress: CallProgress): Promise<ToolOutcome> {
    return this.concluded(tool, progress, () => Promise.resolve({ live: kept, result: kept, attachments: [] }));
  }

  private async concluded(tool: Tool, progress: CallProgress, invoke: () => Promise<InvokedResult>): Promise<ToolOutcome> {
    try {
      const invoked = await invoke();
      const result = this.describer.describe(tool, invoked, progress);
      await this.effects.succeed(tool, toOutcome(result), progress);
      return succeeded(progress, invoked.live, result);
    } catch (error) {
      if (error instanceof CallPending || isLeftInFlight(error, progress)) throw error;
      const failure = progress.scope.performing?.read(error, tool) ?? failureOf(error);
      const cause = error instanceof CallFailure ? error.cause : undefined;
      if (cause instanceof RedactionError) await progress.scope.emit(cause.warning(tool, progress));
      await this.effects.fail(tool, failure, progress);
      throw error instanceof CallFailure && error.failure === failure ? error : new CallFailure(failure, { cause: cause ?? error });
    }
  }

  private invoke(tool: Tool, input: ReadArguments, progress: CallProgress): Promise<InvokedResult> {
    if (!this.attempts.apply(tool, progress)) return this.invoker.invoke(tool, input.built, progress);
    return this.attempts.run(tool, input, progress, (built) => this.invoker.invoke(tool, built, progress));
  }
}

/** A store failed under a call that a run makes: its run ends or is handed over, and nothing is said of the call. A directive says it itself. */
function isLeftInFlight(error: unknown, progress: CallProgress): boolean {
  if (progress.scope.performing || !StorageUnavailableError.in(error)) return false;
  progress.isInFlight = true;
  return true;
}

function toOutcome({ lasting: content, ui, attachments }: DescribedResult): JournalOutcome {
  return { status: 'succeeded', content, ui, ...(attachments && { attachments }) };
}
