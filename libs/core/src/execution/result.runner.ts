import { Injectable, Logger } from '@nestjs/common';
import { StorageUnavailableError } from '../protocol/errors.js';
import type { JournalOutcome } from '../protocol/call-journal.js';
import type { ToolFailure } from '../protocol/tool-error.js';
import type { Tool } from '../protocol/tool.js';
import type { ReadArguments } from './argument.reader.js';
import { CallAttempts } from './call.attempts.js';
import { answerLost, CallFailure, causeOf, failureOf } from './call.failure.js';
import { CallPending } from './call.pending.js';
import { EffectGuard } from './effect.guard.js';
import type { CallProgress, ToolOutcome } from './execution.scope.js';
import { RedactionError } from './redaction.error.js';
import { left } from './repeat.gate.js';
import { ResultDescriber, type DescribedResult } from './result.describer.js';
import { hadEffect } from './sub-run.method.js';
import { ToolInvoker, type InvokedResult } from './tool.invoker.js';
import { succeeded } from './tool.outcome.js';

/** Stages 6 to 9: the method, its result, and the journal's last word. */
@Injectable()
export class ResultRunner {
  private readonly logger = new Logger(ResultRunner.name);
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
    return this.concluded(tool, progress, () => Promise.resolve({ live: kept, result: kept, attachments: [], method: 'answered' }));
  }

  private async concluded(tool: Tool, progress: CallProgress, invoke: () => Promise<InvokedResult>): Promise<ToolOutcome> {
    try {
      return await this.shown(tool, await invoke(), progress);
    } catch (error) {
      if (error instanceof CallPending || isLeftInFlight(error, progress)) throw error;
      throw await this.failed(tool, progress.hasTakenOver ? stillUnknown(error) : error, progress);
    }
  }

  /** Whatever fails from here on says nothing about the effect. */
  private async shown(tool: Tool, invoked: InvokedResult, progress: CallProgress): Promise<ToolOutcome> {
    try {
      const result = this.describer.describe(tool, invoked, progress);
      await this.effects.succeed(tool, toOutcome(result), progress);
      return succeeded(progress, invoked.live, result);
    } catch (error) {
      const isOfStorage = progress.scope.performing === undefined && StorageUnavailableError.in(error) !== undefined;
      if (tool.spec.effect === 'read_only' || isOfStorage) throw error;
      if (!(error instanceof CallFailure))
        this.logger.error(`The result of ${tool.spec.declaredId} could not be shown (run ${progress.scope.run.runId}).`, error);
      if (invoked.method === 'not_called') throw new CallFailure(UNSHOWN, { cause: causeOf(error), method: 'not_called' });
      throw hadEffect(tool, progress) ? answerLost(error) : error;
    }
  }

  private async failed(tool: Tool, error: unknown, progress: CallProgress): Promise<CallFailure> {
    const { scope } = progress;
    const failure = scope.performing?.read(error, tool, scope.signal) ?? failureOf(error);
    const cause = causeOf(error);
    const method = error instanceof CallFailure ? error.method : undefined;
    if (cause instanceof RedactionError) await scope.emit(cause.warning(tool, progress));
    await this.effects.fail(tool, { failure, method }, progress);
    return error instanceof CallFailure && error.failure === failure ? error : new CallFailure(failure, { cause: cause ?? error, method });
  }

  private invoke(tool: Tool, input: ReadArguments, progress: CallProgress): Promise<InvokedResult> {
    if (!this.attempts.apply(tool, progress)) return this.invoker.invoke(tool, input.built, progress);
    return this.attempts.run(tool, input, progress, (built) => this.invoker.invoke(tool, built, progress));
  }
}

/** An interceptor's answer in the place of the method's. */
const UNSHOWN: ToolFailure = {
  code: 'execution_failed',
  safeMessage: 'The tool was not called: an interceptor answered in its place, and that answer cannot be shown.',
};

/** Of a call that was taken over, an attempt that did not call the method tells nothing about the attempt before it. */
function stillUnknown(error: unknown): unknown {
  if (!(error instanceof CallFailure) || error.method !== 'not_called') return error;
  return new CallFailure(left().failure, { cause: error.cause, method: 'not_called' });
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
