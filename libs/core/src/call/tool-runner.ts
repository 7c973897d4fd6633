import { Injectable, type OnModuleInit } from '@nestjs/common';
import { StorageUnavailableError, visible } from '@toolloop/protocol';
import { ToolCatalog } from '../catalog/tool-catalog.js';
import { Logger } from '../findings/logger.js';
import { AskedApprovals } from '../plugins/approvals/asked-approvals.js';
import { CallPreview } from '../plugins/approvals/call-preview.js';
import { ClientCalls } from '../plugins/client-tools/client-calls.js';
import { discreet } from '../plugins/connections/discreet.js';
import { changeOf } from '../plugins/conversations/standing-calls.js';
import { AskedBeforehand } from '../plugins/questions/asked-beforehand.js';
import { AskedQuestions } from '../plugins/questions/asked-questions.js';
import { AskedRehearsals } from '../plugins/rehearsals/asked-rehearsals.js';
import { CallRehearsal } from '../plugins/rehearsals/call-rehearsal.js';
import { asFromOutside } from '../plugins/values/hide-values.js';
import type { RunValues } from '../plugins/values/value-references.js';
import { WrittenStores } from '../plugins/written/written-stores.js';
import { SchemaValidators } from '../schema/validators.js';
import { ToolExplorer } from '../tools/discovery/tool-explorer.js';
import { Authorisation } from './authorise.js';
import { BoundedStores } from './bounded-stores.js';
import { CallContextFactory } from './call-context.js';
import { CallFailure, failureOf, notBegun, unexplained } from './call-failure.js';
import { logEnd } from './call-log.js';
import {
  advance,
  type AuthorisedCall,
  type Call,
  type ExecutionScope,
  type PlacedCall,
  type ReadCall,
} from './call.js';
import { EffectGuard, isGuarded } from './effect-guard.js';
import type { EmitEvent } from './emit-event.js';
import { ExecutionRules } from './execution-rules.js';
import { ToolInvoker } from './invoke.js';
import { CallPending, CallWaitsElsewhere, Effects, type ToolOutcome } from './outcome.js';
import { answeredFor, failed, madeBefore, pending, replayed, unavailable } from './outcomes.js';
import { CallPerformer } from './perform.js';
import { assertLetIn } from './before-effect.js';
import { changedByPlugins, type ResultHook, resultHookOf } from './changed-by-plugins.js';
import { readArguments } from './read-arguments.js';
import { ToolResolution } from './resolve-tool.js';
import { ResultDescriber, shownResult } from './result-describer.js';
import { shownArguments } from './shown-arguments.js';
import { asCall } from './store-calls.js';

/**
 * The only way a tool is executed: the loop, sub-runs and directives call it. The stages, in their
 * order:
 *
 * 1. lookup in the run's toolset, and policy's denial
 * 2. size and JSON of the arguments
 * 3. reserved names, schema, DTO
 * 4. what a tool that changes things asks a person beforehand; Nest's guards and pipes, then
 *    policy's decision on the arguments, and approval
 * 5. for a tool that changes things, the journal, which asks a person about a call whose outcome is
 *    unknown; or a request for an effect that happens later, which passes all stages again when it
 *    is performed
 * 6. a concurrency slot, interceptors, time budget, cancellation; this stage and the next are
 *    repeated where a run retries
 * 7. the method, inside AsyncLocalStorage
 * 8. the result: checked, projected, cut
 * 9. the record and its event
 *
 * In a rehearsal, stage 5 is left out: what a call changes is rolled back, or it is not made.
 */
@Injectable()
export class ToolRunner implements OnModuleInit {
  private readonly logger = new Logger(ToolRunner.name);
  private readonly resolution: ToolResolution;
  private readonly authorisation: Authorisation;
  private readonly guard: EffectGuard;
  private readonly written: WrittenStores;
  private readonly clients: ClientCalls;
  private readonly questions: AskedQuestions;
  private readonly beforehand: AskedBeforehand;
  private readonly invoker: ToolInvoker;
  private readonly performer: CallPerformer;
  readonly rehearsal: CallRehearsal;
  readonly rehearsals: AskedRehearsals;

  constructor(
    catalog: ToolCatalog,
    private readonly validators: SchemaValidators,
    explorer: ToolExplorer,
    stores: BoundedStores,
    contexts: CallContextFactory,
    effects: Effects,
    private readonly rules: ExecutionRules,
  ) {
    this.clients = new ClientCalls(stores);
    const preview = new CallPreview(contexts);
    const approvals = new AskedApprovals(stores, preview);
    this.resolution = new ToolResolution(catalog, stores.tenants);
    this.authorisation = new Authorisation({
      resolution: this.resolution,
      validators,
      contexts,
      approvals,
      effects,
    });
    this.guard = new EffectGuard(stores, approvals);
    this.written = new WrittenStores(stores.accounts);
    this.rehearsals = new AskedRehearsals(stores);
    this.questions = new AskedQuestions(stores);
    this.beforehand = new AskedBeforehand({
      questions: this.questions,
      contexts,
      validators,
      resolution: this.resolution,
    });
    this.invoker = new ToolInvoker(explorer, contexts, this.questions);
    this.performer = new CallPerformer(this.invoker, new ResultDescriber(validators), this.guard);
    const { transactions } = stores;
    const { performer, resolution } = this;
    this.rehearsal = new CallRehearsal({
      performer,
      preview,
      contexts,
      resolution,
      validators,
      rules,
      transactions,
    });
  }

  onModuleInit(): void {
    this.invoker.prepare();
  }

  /**
   * Runs one call through every stage. Never throws: whatever happens, the call has exactly one
   * outcome, or is pending.
   */
  exec(request: PlacedCall, scope: ExecutionScope): Promise<ToolOutcome> {
    const call = this.open(request, scope);
    const make = (): Promise<ToolOutcome> => asCall(scope.signal, () => this.recorded(call));
    return call.hooks.aroundCall ? call.hooks.aroundCall(call, make) : make();
  }

  /** Resolve, read, decide, perform, describe. Never rejects. */
  private async execute(call: Call): Promise<ToolOutcome> {
    const { rehearsal, standing, signal } = call.scope;
    try {
      const read = await this.read(call);
      const made = standing?.same(read);
      if (made) return madeBefore(read, made);
      if (rehearsal)
        return await this.rehearsal.rehearse(await this.authorisation.authorise(read), rehearsal);
      const complete = read.tool.questions ? await this.beforehand.complete(read) : read;
      const letIn = await this.authorisation.authorise(complete);
      await assertLetIn(letIn);
      const authorised = letIn.tool.client ? await this.answered(letIn) : letIn;
      if (signal.aborted) throw notBegun(signal);
      const { requested, tool } = authorised;
      if (requested) return await requested.keep(authorised);
      const { writes } = tool.spec.labels;
      if (writes !== undefined) await this.written.noteWrite(authorised, writes);
      return await this.perform(authorised);
    } catch (error) {
      return this.endedBy(call, error);
    }
  }

  private perform(call: AuthorisedCall): Promise<ToolOutcome> {
    return isGuarded(call.tool) ? this.performOnce(call) : this.performAnswered(call);
  }

  /**
   * A call that the client makes is let in anew where its result came while the run waited: what
   * let it in may have changed meanwhile.
   */
  private async answered(call: AuthorisedCall): Promise<AuthorisedCall> {
    const { client } = call.tool;
    if (!client || (await this.clients.answer(call, client))) return call;
    return this.answered(await this.authorisation.authoriseAgain(call));
  }

  private open(request: PlacedCall, scope: ExecutionScope): Call {
    const options = this.rules.optionsFor(undefined, scope.options);
    const subRun = request.checkpoint?.record;
    const call: Call = {
      request,
      scope: this.shielded(scope),
      run: scope.plugins.view,
      hooks: scope.plugins.hooksFor(undefined),
      startedAt: new Date(),
      options,
      ...(subRun && { subRun }),
    };
    const { rehearsal } = scope;
    return rehearsal
      ? advance(call, {
          rolledBack: (work) => this.rehearsal.behindWrites(call.scope, rehearsal, work),
        })
      : call;
  }

  /**
   * The call is announced with its arguments as soon as they are known, and without them where they
   * never are.
   */
  private async read(call: Call): Promise<ReadCall> {
    const { scope } = call;
    let read: ReadCall;
    try {
      const resolved = await this.resolution.resolve(call);
      const { tool, request } = advance(resolved, {
        options: this.rules.optionsFor(resolved.tool, scope.options),
        hooks: scope.plugins.hooksFor(resolved.tool),
      });
      const input = await readArguments(this.validators, resolved, request.call.arguments);
      if (tool.surface) throw this.resolution.missingInstance(resolved, input.args);
      read = advance(resolved, { input });
    } catch (error) {
      await scope.emit(announcementOf(call));
      throw error;
    }
    const { presentation, input } = read.tool;
    const args = shownArguments(read.input.args, input.hidden);
    await scope.emit({ ...announcementOf(call), args, ...(presentation && { presentation }) });
    return read;
  }

  /** Performs a call without a key, and again with the answer to each question that it asks. */
  private async performAnswered(call: AuthorisedCall): Promise<ToolOutcome> {
    try {
      return await this.performer.perform(call);
    } catch (error) {
      return this.performAnswered(await this.afterQuestion(call, error));
    }
  }

  /**
   * A call that asked a person is let in anew once there is an answer, and its method called again
   * from its top; one whose run is suspended does so when it is resumed.
   */
  private async afterQuestion(call: AuthorisedCall, error: unknown): Promise<AuthorisedCall> {
    const asked = error instanceof CallPending ? error.asked : undefined;
    if (!asked) throw error;
    const { scope, charge, request } = call;
    scope.approvals.letIn(request.call.toolCallId);
    if (charge) scope.spending.takeBack(charge); // it is counted when it is called again
    await this.questions.answered(asked, call);
    return this.authorisation.authoriseAgain(call);
  }

  private async performOnce(call: AuthorisedCall): Promise<ToolOutcome> {
    const performed = await this.guard.claim(call);
    if (performed?.status === 'reconsider')
      return this.performOnce(await this.authorisation.authoriseAgain(call));
    if (performed?.status === 'committed')
      return this.performer.recall(call, performed.kept.result);
    return performed ? replayed(call, performed) : this.performer.perform(call);
  }

  private async recorded(call: Call): Promise<ToolOutcome> {
    const labelled = await this.label(call, await this.execute(call));
    const change = resultHookOf(call);
    const performed = change ? await this.asRead(call, labelled, change) : labelled;
    const { values } = call.scope;
    const outcome = withChange(call, values ? withHidden(performed, values) : performed);
    if (!waits(call, outcome)) await call.hooks.concluded?.(call, outcome);
    if (outcome.isPending) return outcome;
    const shown = shownResult(outcome);
    logEnd(call, shown.record);
    await call.scope.emit({ type: 'tool-result', step: call.request.step, ...shown });
    return outcome;
  }

  /** The outcome as the plugins have it read. If one of them fails, nothing of it may be read. */
  private async asRead(call: Call, outcome: ToolOutcome, change: ResultHook): Promise<ToolOutcome> {
    try {
      return await changedByPlugins(call, outcome, change);
    } catch (error) {
      return this.endedBy(call, error);
    }
  }

  private endedBy(call: Call, error: unknown): ToolOutcome {
    try {
      return this.toOutcome(call, error);
    } catch {
      return failed(call, unexplained()); // thrown was something that cannot even be looked at
    }
  }

  /**
   * Labels what is from a store into which someone outside has written. Asked for once the result
   * is there: what was written into the store before it was read was noted before that. Never
   * rejects.
   */
  private async label(call: Call, outcome: ToolOutcome): Promise<ToolOutcome> {
    const store = call.tool?.spec.labels.from;
    if (store === undefined || outcome.isPending) return outcome;
    try {
      const isOfOutside = await this.written.isOfOutside(call.scope.run.tenant, store);
      return isOfOutside ? asFromOutside(call, outcome) : outcome;
    } catch (error) {
      return this.endedBy(call, error);
    }
  }

  /** Events that cannot be shown are logged, and change nothing about the call. */
  private shielded(scope: ExecutionScope): ExecutionScope {
    const report = (error: unknown): void =>
      this.logger.error(`An event of run ${scope.run.runId} could not be shown.`, error);
    const emit: EmitEvent = (event) => {
      // a transaction waits for no reader
      if (scope.rehearsal && event.type === 'tool-progress') return;
      try {
        return scope.emit(event)?.catch(report);
      } catch (error) {
        report(error);
      }
    };
    return { ...scope, emit };
  }

  /**
   * The outcome of a call that did not succeed: it waits, its store was unavailable, or it failed.
   */
  private toOutcome(call: Call, thrown: unknown): ToolOutcome {
    const { request } = call;
    if (thrown instanceof CallWaitsElsewhere) return waitsElsewhere(call, thrown);
    const pause = thrown instanceof CallPending ? thrown : undefined;
    const cause = pause ? pause.unavailable : StorageUnavailableError.in(thrown);
    if (cause) return unavailable(call, cause, pause?.checkpoint);
    if (pause) return pending(call, pause);
    // The calls before a deferred one may change what is wrong with it now.
    return request.isDeferred ? pending(call, request) : this.toFailure(call, thrown);
  }

  private toFailure(call: Call, thrown: unknown): ToolOutcome {
    const { request, scope, credentials } = call;
    const error = discreet(thrown, call);
    const told = failureOf(error);
    const failure = credentials?.failure(told) ?? told;
    if (failure.correlationId !== undefined) {
      const reason = error instanceof CallFailure ? error.cause : error;
      this.logger.error(
        `${visible(request.call.name)} failed (run ${scope.run.runId}, call ${request.call.toolCallId}, reference ${failure.correlationId}).`,
        reason,
      );
    }
    return failed(call, failure);
  }
}

/**
 * The answer is Toolloop's own, so it tells nothing from outside, whatever its tool would have
 * returned.
 */
function waitsElsewhere(
  call: Call,
  { record: { id, expiresAt } }: CallWaitsElsewhere,
): ToolOutcome {
  const outcome = answeredFor(call, { pendingId: id }, { status: 'waiting', id, expiresAt });
  return { ...outcome, labels: { returns: 'trusted', reads: 'public' } };
}

const announcementOf = ({ request: { step, call } }: Call) =>
  ({ type: 'tool-call', step, toolCallId: call.toolCallId, tool: call.name }) as const;

/** Returns whether a call is to have another outcome than this one. */
function waits(
  { request }: Call,
  { isPending, waitingFor, checkpoint = request.checkpoint }: ToolOutcome,
): boolean {
  return isPending === true && (checkpoint !== undefined || waitingFor !== undefined);
}

function withChange(call: Call, outcome: ToolOutcome): ToolOutcome {
  const change = changeOf(call, outcome);
  return change ? { ...outcome, change } : outcome;
}

/** With the values that its content names, so that they are kept with it. */
function withHidden(outcome: ToolOutcome, values: RunValues): ToolOutcome {
  const { content } = outcome;
  const hidden = typeof content === 'string' ? values.namedIn(content) : [];
  return hidden.length > 0 ? { ...outcome, hidden } : outcome;
}
