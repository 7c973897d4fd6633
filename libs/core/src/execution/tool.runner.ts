import { Injectable, Logger } from '@nestjs/common';
import type { Tool } from '../protocol/tool.js';
import { ArgumentReader, type ReadArguments } from './argument.reader.js';
import { CallFailure, failureOf } from './call.failure.js';
import { CallLookup } from './call.lookup.js';
import { EffectGuard } from './effect.guard.js';
import type { CallProgress, CallRequest, ExecutionScope, ToolOutcome } from './execution.scope.js';
import { Interruption } from './interruption.js';
import { PolicyGate } from './policy.gate.js';
import { ResultRunner } from './result.runner.js';
import { failed, replayed, shownArguments } from './tool.outcome.js';

/** The only way a tool is executed, whoever asks. */
@Injectable()
export class ToolRunner {
  private readonly logger = new Logger(ToolRunner.name);

  constructor(
    private readonly lookup: CallLookup,
    private readonly reader: ArgumentReader,
    private readonly policy: PolicyGate,
    private readonly effects: EffectGuard,
    private readonly results: ResultRunner,
  ) {}

  /** Runs one call through every stage. Never throws: whatever happens, the call has exactly one outcome. */
  async exec(request: CallRequest, scope: ExecutionScope): Promise<ToolOutcome> {
    const progress: CallProgress = { request, scope, startedAt: new Date() };
    const outcome = await this.attempt(progress).catch((error: unknown) => this.toFailure(progress, error));
    await scope.emit({ type: 'tool-result', step: request.step, record: outcome.record });
    return outcome;
  }

  private async attempt(progress: CallProgress): Promise<ToolOutcome> {
    const { tool, input } = await this.read(progress);
    if (progress.request.refusal) throw new CallFailure(progress.request.refusal);
    this.policy.authorise(tool, progress);
    refuseWhenAborted(progress.scope.signal);
    const performed = await this.effects.claim(tool, input.canonical, progress);
    if (performed) return replayed(progress, performed);
    await announceStart(tool, progress);
    return this.results.run(tool, input, progress);
  }

  /** Stages 1 to 3; the call is announced with its arguments as soon as they are known, and without them where they never are. */
  private async read(progress: CallProgress): Promise<{ readonly tool: Tool; readonly input: ReadArguments }> {
    const { request, scope } = progress;
    const announcement = { type: 'tool-call', step: request.step, toolCallId: request.call.toolCallId, tool: request.call.name } as const;
    try {
      const tool = this.lookup.resolve(progress);
      progress.tool = tool;
      const input = await this.reader.read(tool, request.call, scope.limits);
      progress.args = input.args;
      await scope.emit({ ...announcement, args: shownArguments(input.args, tool.input.hidden) });
      return { tool, input };
    } catch (error) {
      await scope.emit(announcement);
      throw error;
    }
  }

  private toFailure(progress: CallProgress, error: unknown): ToolOutcome {
    const failure = failureOf(error);
    if (failure.correlationId !== undefined) {
      const { request, scope } = progress;
      const cause = error instanceof CallFailure ? error.cause : error;
      this.logger.error(
        `${request.call.name} failed (run ${scope.run.runId}, call ${request.call.toolCallId}, reference ${failure.correlationId}).`,
        cause,
      );
    }
    return failed(progress, failure);
  }
}

async function announceStart(tool: Tool, { request, scope, decision }: CallProgress): Promise<void> {
  if (!decision) return;
  await scope.emit({
    type: 'tool-start',
    step: request.step,
    toolCallId: request.call.toolCallId,
    tool: tool.spec.id,
    effect: tool.spec.effect,
    decision,
  });
}

function refuseWhenAborted(signal: AbortSignal): void {
  if (!signal.aborted) return;
  const { kind, message } = Interruption.from(signal);
  throw CallFailure.of(kind === 'timeout' ? 'timeout' : 'aborted', message);
}
