import { Injectable, Logger } from '@nestjs/common';
import { StorageUnavailableError } from '../protocol/errors.js';
import type { Tool } from '../protocol/tool.js';
import { discreet } from './call.credentials.js';
import { CallFailure, failureOf, refuseWhenAborted, unexplained } from './call.failure.js';
import { asCall } from './store-calls.js';
import { CallAudit } from './call.audit.js';
import { CallIntake, type AdmittedCall } from './call.intake.js';
import { CallLog } from './call.log.js';
import { CallPending } from './call.pending.js';
import { DirectiveRequests, directiveOf } from './directive.requests.js';
import { EffectGuard } from './effect.guard.js';
import type { CallProgress, CallRequest, ExecutionScope, ToolOutcome } from './execution.scope.js';
import { ResultRunner } from './result.runner.js';
import { failed, pending, replayed, shownRecord, unavailable } from './tool.outcome.js';

/**
 * The only way a tool is executed, whoever asks. The stages, in their order:
 *
 * 1. lookup in the run's toolset, and policy's denial
 * 2. size and JSON of the arguments
 * 3. reserved names, schema, DTO
 * 4. Nest's guards and pipes, then policy's word on the arguments, and approval
 * 5. for a tool that changes things, the journal, which asks a person about a call whose outcome is unknown; or a directive, which passes all stages again when it is performed
 * 6. a concurrency slot, interceptors, time budget, cancellation; this stage and the next are repeated where a run retries
 * 7. the method, inside AsyncLocalStorage
 * 8. the result: checked, projected, cut
 * 9. the record and its event
 */
@Injectable()
export class ToolRunner {
  private readonly logger = new Logger(ToolRunner.name);
  private readonly log = new CallLog();

  constructor(
    private readonly intake: CallIntake,
    private readonly effects: EffectGuard,
    private readonly results: ResultRunner,
    private readonly directives: DirectiveRequests,
    private readonly audit: CallAudit,
  ) {}

  /** Runs one call through every stage. Never throws: whatever happens, the call has exactly one outcome, or is pending. */
  exec(request: CallRequest, scope: ExecutionScope): Promise<ToolOutcome> {
    return asCall(scope.signal, () => this.execute(request, scope));
  }

  private async execute(request: CallRequest, scope: ExecutionScope): Promise<ToolOutcome> {
    const progress = this.intake.open(request, this.shielded(scope));
    const outcome = await this.attempt(progress)
      .catch((error: unknown) => this.toOutcome(progress, error))
      .catch(() => failed(progress, unexplained())); // thrown was something that cannot even be looked at
    if (outcome.isPending) return outcome;
    this.log.ended(progress, outcome.record);
    const recording = this.audit.ended(progress, outcome);
    if (recording) await recording;
    const shown = progress.scope.emit({ type: 'tool-result', step: request.step, record: shownRecord(outcome.record) });
    if (shown) await shown;
    return outcome;
  }

  private async attempt(progress: CallProgress): Promise<ToolOutcome> {
    const call = await this.intake.take(progress);
    refuseWhenAborted(progress.scope.signal);
    const directive = directiveOf(call.tool, progress);
    return directive ? this.directives.request(call.tool, directive, call.input, progress) : this.perform(call, progress);
  }

  private async perform(call: AdmittedCall, progress: CallProgress): Promise<ToolOutcome> {
    const { tool, input } = call;
    const performed = await this.effects.claim(tool, input, progress);
    if (performed?.status === 'reconsider') return this.perform(await this.intake.reconsider(call, progress), progress);
    if (performed?.status === 'committed') return this.results.recall(tool, performed.kept.result, progress);
    if (performed) return replayed(progress, performed);
    this.log.started(tool, progress);
    await announceStart(tool, progress);
    return this.results.run(tool, input, progress);
  }

  /** Events are for whoever watches: when they cannot be shown, that is logged and changes nothing about the call. */
  private shielded(scope: ExecutionScope): ExecutionScope {
    const report = (error: unknown): void => this.logger.error(`An event of run ${scope.run.runId} could not be shown.`, error);
    const emit: ExecutionScope['emit'] = (event) => {
      try {
        return scope.emit(event)?.catch(report);
      } catch (error) {
        report(error);
      }
    };
    return { ...scope, emit };
  }

  /** The outcome of a call that did not succeed: it waits, its store was unavailable, or it failed. */
  private toOutcome(progress: CallProgress, thrown: unknown): ToolOutcome {
    const pause = thrown instanceof CallPending ? thrown : undefined;
    const cause = pause ? pause.unavailable : StorageUnavailableError.in(thrown);
    if (cause) return unavailable(progress, cause, pause?.begun);
    if (pause) return pending(progress, pause.begun);
    // The calls before a deferred one may change what is wrong with it now.
    return progress.request.isHeld ? pending(progress, progress.request.begun) : this.toFailure(progress, thrown);
  }

  private toFailure(progress: CallProgress, thrown: unknown): ToolOutcome {
    const error = discreet(thrown, progress);
    const told = failureOf(error);
    const failure = progress.credentials?.failure(told) ?? told;
    if (failure.correlationId !== undefined) {
      const { request, scope } = progress;
      const reason = error instanceof CallFailure ? error.cause : error;
      this.logger.error(
        `${request.call.name} failed (run ${scope.run.runId}, call ${request.call.toolCallId}, reference ${failure.correlationId}).`,
        reason,
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
