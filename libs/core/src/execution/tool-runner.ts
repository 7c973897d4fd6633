import { Injectable, Logger } from '@nestjs/common';
import { StorageUnavailableError } from '@toolloop/protocol';
import { DEFAULT_EXECUTION, type ExecutionOptions, givenOptions, type ToolExecutionOptions } from '../contracts/tool-call.js';
import type { Tool } from '../contracts/tool.js';
import { ApprovalGate } from './approvals.js';
import { CallAudit, CallLog } from './call-audit.js';
import { CallFailure, failureOf, refuseWhenAborted, unexplained } from './call-failure.js';
import { CallPending, type CallProgress, type CallRequest, type ExecutionScope, meantCall, type ToolOutcome } from './call.js';
import { discreet } from './credentials.js';
import { directiveOf, DirectiveRequests } from './directive-requests.js';
import { EffectGuard } from './effect-guard.js';
import { CallAdmission } from './nest-admission.js';
import { failed, pending, replayed, shownArguments, shownRecord, unavailable } from './outcome.js';
import { ResultRunner } from './perform.js';
import { PolicyGate } from './policy-gate.js';
import { ArgumentReader, type ReadArguments } from './read-arguments.js';
import { CallLookup, MissingInstance } from './resolve-tool.js';
import { asCall } from './store-calls.js';

/** Which execution options hold for a call: the defaults, then the application's, the tool's (its provider's included) and the run's. */
export class ExecutionRules {
  private readonly base: ExecutionOptions;
  private readonly ofTools = new WeakMap<ToolExecutionOptions, ExecutionOptions>();

  constructor(application?: Partial<ExecutionOptions>) {
    this.base = { ...DEFAULT_EXECUTION, ...givenOptions(application) };
  }

  /** Without a tool: what holds for a name that names none, or none that may be known. */
  optionsFor(tool: Pick<Tool, 'execution'> | undefined, run: Partial<ExecutionOptions> | undefined): ExecutionOptions {
    const own = tool?.execution;
    const options = own ? this.ofTool(own) : this.base;
    if (!run || own?.selfManaged) return options;
    return { ...options, ...givenOptions(run) };
  }

  /** Merged once; all instances of an entity share what their class declares. */
  private ofTool(own: ToolExecutionOptions): ExecutionOptions {
    const known = this.ofTools.get(own);
    if (known) return known;
    const options = { ...this.base, ...givenOptions(own), ...(own.selfManaged && SELF_MANAGED) };
    this.ofTools.set(own, options);
    return options;
  }
}

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

/** A call that may be made. */
export interface AdmittedCall {
  readonly tool: Tool;
  readonly input: ReadArguments;
  /** The same, before an approver changed it. */
  readonly sent: ReadArguments;
}

/** What a tool that manages itself is spared. */
const SELF_MANAGED: Partial<ExecutionOptions> = {
  validation: false,
  logging: false,
  metadata: 'none',
  resultFormat: 'value',
  availableOperations: false,
};
