import {
  type ApprovalTerms,
  type Decision,
  type RehearsalChange,
  type RehearsedCall,
  StorageUnavailableError,
} from '@toolloop/protocol';
import type { CallContextFactory } from '../../call/call-context.js';
import { CallFailure, notBegun } from '../../call/call-failure.js';
import { limitsOf } from '../../call/call-limits.js';
import { advance, type AuthorisedCall, type ExecutionScope } from '../../call/call.js';
import type { InvokedResult, ToolOutcome } from '../../call/outcome.js';
import { answeredFor } from '../../call/outcomes.js';
import type { CallPerformer } from '../../call/perform.js';
import { readArguments } from '../../call/read-arguments.js';
import type { ToolResolution } from '../../call/resolve-tool.js';
import { shownArguments } from '../../call/shown-arguments.js';
import type { CallTransactions } from '../../contracts/call-journal.js';
import type { ExecutionOptions } from '../../contracts/execution-options.js';
import type { Tool } from '../../contracts/tool.js';
import { toJsonObject } from '../../schema/canonical-json.js';
import type { SchemaValidators } from '../../schema/validators.js';
import { asked, type CallPreview } from '../approvals/call-preview.js';
import { hashShownForm } from '../approvals/shown-form.js';
import { KeyedMutex } from '../inbox/keyed-mutex.js';
import { changedField, type Fingerprint, fingerprintOf } from './fingerprint.js';
import type { KeptCall, RunRehearsal } from './run-rehearsal.js';

/**
 * The stage of a rehearsal in the place of an effect: a call is made and rolled back, or shown and
 * not made.
 */
export class CallRehearsal {
  /**
   * Each makes the writes before it again, so two at once would only wait for each other's locks.
   */
  private readonly turns = new KeyedMutex();

  constructor(private readonly parts: RehearsalParts) {}

  /** @throws As {@link CallPerformer.perform} does, but of no effect: nothing is kept. */
  async rehearse(call: AuthorisedCall, rehearsal: RunRehearsal): Promise<ToolOutcome> {
    const { signal } = call.scope;
    if (signal.aborted) throw notBegun(signal);
    switch (this.partOf(call)) {
      case 'preview':
        return this.previewed(call, rehearsal);
      case 'read':
        return this.read(call, rehearsal);
      case 'write':
        return this.written(call, rehearsal);
    }
  }

  /**
   * Tells whether a call is made: it must stay within the application, and change nothing but in a
   * transaction.
   */
  private partOf({ tool, decision }: AuthorisedCall): 'read' | 'write' | 'preview' {
    const { effect, labels } = tool.spec;
    if (labels.egress || happensElsewhere(tool)) return 'preview';
    if (effect === 'read_only') return decision?.kind === 'allow' ? 'read' : 'preview';
    const isRolledBack = effect === 'state_change' && tool.rehearse === 'transaction';
    return isRolledBack && this.parts.transactions ? 'write' : 'preview';
  }

  /**
   * Answers a call that is not made. Only what the tool's own preview tells of it can be a
   * stranger's words.
   */
  private async previewed(call: AuthorisedCall, rehearsal: RunRehearsal): Promise<ToolOutcome> {
    const preview = await this.parts.preview.of(call);
    advance(call, {
      rehearsal: 'previewed',
      ...(!preview && { labels: { returns: 'trusted', reads: 'public' } }),
    });
    const isRead = call.tool.spec.effect === 'read_only';
    if (!isRead)
      rehearsal.add(keptCall(call, { as: 'previewed', ...(preview && { preview }) }), call.tool);
    const note = isRead ? READ_LEFT_OUT : CHANGE_LEFT_OUT;
    return answeredFor(call, {}, toJsonObject({ status: 'previewed', note, preview }));
  }

  private async read(call: AuthorisedCall, rehearsal: RunRehearsal): Promise<ToolOutcome> {
    const { tool } = call;
    const outcome = await this.parts.performer.perform(advance(call, { rehearsal: 'rehearsed' }));
    const isBuiltIn = tool.origin.source === BUILT_IN;
    if (!isBuiltIn)
      rehearsal.add(keptCall(call, { as: 'rehearsed' }, resultOf(tool, outcome.live)), tool);
    return outcome;
  }

  private async written(call: AuthorisedCall, rehearsal: RunRehearsal): Promise<ToolOutcome> {
    const { performer, preview: previews } = this.parts;
    const { tool, scope } = call;
    const preview = await previews.of(call);
    const before = await this.rowsBefore(call);
    advance(call, {
      rehearsal: 'rehearsed',
      rolledBack: (work) => this.inTransaction(scope, rehearsal, work),
    });
    const outcome = await performer.perform(call).catch(toRolledBack);
    const { result } = outcome.record;
    const told = {
      as: 'rehearsed',
      ...(preview && { preview }),
      ...(result !== undefined && { result }),
    } as const;
    rehearsal.add(keptCall(call, told, before), tool);
    return outcome;
  }

  private async rowsBefore(call: AuthorisedCall): Promise<Fingerprint | undefined> {
    const { rowsBefore } = call.tool;
    return (
      rowsBefore && fingerprintOf(toJsonObject(await asked(call, this.parts.contexts, rowsBefore)))
    );
  }

  /** Runs code of the application behind the writes that the run has rehearsed, if any. */
  behindWrites<Result>(
    scope: ExecutionScope,
    rehearsal: RunRehearsal,
    work: () => Promise<Result>,
  ): Promise<Result> {
    return rehearsal.writes.length > 0 ? this.inTransaction(scope, rehearsal, work) : work();
  }

  private inTransaction<Result>(
    scope: ExecutionScope,
    rehearsal: RunRehearsal,
    work: () => Promise<Result>,
  ): Promise<Result> {
    const { transactions } = this.parts;
    if (!transactions)
      throw new Error('The application has no database in which a call can be rehearsed.');
    return this.turns.run(scope.run.runId, () =>
      transactions.rehearse(async () => {
        for (const write of rehearsal.writes) await this.again(write, scope, rehearsal);
        return work();
      }, scope.signal),
    );
  }

  /**
   * Makes a call again that was let in before, within the transaction of another. Nothing is told
   * of it.
   */
  private async again(
    kept: KeptCall,
    scope: ExecutionScope,
    rehearsal: RunRehearsal,
  ): Promise<InvokedResult> {
    return this.parts.performer.again(await this.callOf(kept, scope, rehearsal));
  }

  private async callOf(
    kept: KeptCall,
    scope: ExecutionScope,
    rehearsal: RunRehearsal,
  ): Promise<AuthorisedCall> {
    const { shown, index } = kept;
    const tool = rehearsal.toolOf(kept) ?? scope.toolset.findCallable(shown.tool);
    if (!tool)
      throw CallFailure.of(
        'tool_gone',
        `The tool "${shown.tool}", which was rehearsed before, is no longer available.`,
      );
    const { validators, resolution, rules } = this.parts;
    const made = { toolCallId: shown.toolCallId, name: shown.tool, arguments: kept.arguments };
    const call = {
      request: { call: made, step: shown.step, index, outside: kept.outside ?? [] },
      scope: { ...scope, emit: () => undefined, rehearsal },
      run: scope.plugins.view,
      hooks: scope.plugins.hooksFor(tool),
      startedAt: new Date(),
      options: rules.optionsFor(tool, scope.options),
      limits: limitsOf(tool, scope, undefined),
      // the call for which it is made may have the only place
      tool: { ...tool, concurrency: undefined },
    };
    const found = tool.rehydration
      ? advance(call, { tool: await resolution.fresh(call, tool.rehydration) })
      : call;
    const input = await readArguments(validators, found, kept.arguments);
    return advance(found, { input, sent: input });
  }

  /**
   * Makes all calls of a rehearsal again, in their order, and rolls them back; returns the first
   * that is not as it was. Where one differs they are made twice: behind a write, a field that
   * differs each time, such as an id of a sequence, was made by the write and has not changed.
   *
   * @throws {StorageUnavailableError} Where the database does not answer for now.
   * @throws {Interruption} Of the run.
   */
  async changeIn(
    rehearsal: RunRehearsal,
    scope: ExecutionScope,
  ): Promise<RehearsalChange | undefined> {
    try {
      const now = await this.madeAgain(rehearsal, scope);
      return (
        firstChange(rehearsal, now) &&
        firstChange(rehearsal, now, await this.madeAgain(rehearsal, scope))
      );
    } catch (error) {
      if (error instanceof ImpossibleCall) return error.change;
      throw error;
    }
  }

  private async madeAgain(rehearsal: RunRehearsal, scope: ExecutionScope): Promise<Fingerprints> {
    const { transactions } = this.parts;
    const make = async (): Promise<Fingerprints> => {
      const found = new Map<KeptCall, Fingerprint>();
      for (const kept of rehearsal.calls) {
        const fingerprint =
          kept.shown.as === 'rehearsed'
            ? await this.fingerprintOf(kept, scope, rehearsal)
            : undefined;
        if (fingerprint) found.set(kept, fingerprint);
      }
      return found;
    };
    return transactions
      ? this.turns.run(scope.run.runId, () => transactions.rehearse(make, scope.signal))
      : make();
  }

  /** Rejects out of the transaction, which a failed statement has spoilt. */
  private async fingerprintOf(
    kept: KeptCall,
    scope: ExecutionScope,
    rehearsal: RunRehearsal,
  ): Promise<Fingerprint | undefined> {
    const { toolCallId, declaredId, effect } = kept.shown;
    try {
      const call = await this.callOf(kept, scope, rehearsal);
      const rows = await this.rowsBefore(call);
      const { live } = await this.parts.performer.again(call);
      return effect === 'read_only' ? resultOf(call.tool, live) : rows;
    } catch (error) {
      if (StorageUnavailableError.in(error) || scope.signal.aborted) throw error;
      throw new ImpossibleCall({ toolCallId, declaredId }, { cause: error });
    }
  }
}

/** The services of {@link CallRehearsal}. */
export interface RehearsalParts {
  readonly performer: CallPerformer;
  readonly preview: CallPreview;
  readonly contexts: CallContextFactory;
  readonly resolution: ToolResolution;
  readonly validators: SchemaValidators;
  readonly rules: { optionsFor(tool: Tool, run: ExecutionScope['options']): ExecutionOptions };
  /**
   * Absent where there is no database that tools share with the journal: then every change is
   * previewed.
   */
  readonly transactions: CallTransactions | undefined;
}

type Fingerprints = ReadonlyMap<KeptCall, Fingerprint>;

/** Finds the first call that differs now. `again` is what was found a moment later. */
function firstChange(
  { calls }: RunRehearsal,
  now: Fingerprints,
  again?: Fingerprints,
): RehearsalChange | undefined {
  let isBehindWrite = false;
  for (const kept of calls) {
    const { toolCallId, declaredId, effect } = kept.shown;
    const [before, found] = [kept.before, now.get(kept)];
    const field =
      before && found && changedField(before, found, isBehindWrite ? again?.get(kept) : undefined);
    if (field !== undefined) return { toolCallId, declaredId, field };
    isBehindWrite ||= effect !== 'read_only';
  }
  return undefined;
}

/** A rehearsed call that cannot be made any more. */
class ImpossibleCall extends Error {
  constructor(
    readonly change: RehearsalChange,
    options: { readonly cause?: unknown } = {},
  ) {
    super('A call cannot be made as it was rehearsed.', options);
  }
}

const CHANGE_LEFT_OUT =
  'This is a rehearsal: the call was not made, so there is no result. It is made once the rehearsal is approved. Continue as if it had succeeded.';
const READ_LEFT_OUT =
  'This is a rehearsal: the call was not made, and it will not be. Continue without its result.';

/** The source of the tools that Toolloop itself offers, which read what the run has. */
const BUILT_IN = 'toolloop';

/**
 * Tells whether someone else makes a call, or is asked before: a source, a client, a model, or a
 * person.
 */
function happensElsewhere({ origin, client, subRun, directive, questions }: Tool): boolean {
  return [!origin.trusted, client, subRun, directive, questions].some(Boolean);
}

function resultOf({ output }: Tool, live: unknown): Fingerprint {
  return fingerprintOf(output.project(live, 'model'));
}

/**
 * A call that was broken off, or whose answer is lost, had no effect: its transaction was rolled
 * back.
 */
function toRolledBack(error: unknown): never {
  const isUncertain =
    error instanceof CallFailure &&
    (error.failure.code === 'unknown_outcome' || error.failure.code === 'invalid_output');
  if (!isUncertain) throw error;
  const safeMessage = 'The call could not be rehearsed to its end, and nothing of it was kept.';
  throw new CallFailure({ code: 'execution_failed', safeMessage }, { cause: error.cause ?? error });
}

function keptCall(
  { tool, input, request, decision }: AuthorisedCall,
  told: Pick<RehearsedCall, 'as' | 'preview' | 'result'>,
  before?: Fingerprint,
): KeptCall {
  const { spec, entity } = tool;
  const isAsked = decision?.kind === 'require_approval';
  return {
    shown: {
      toolCallId: request.call.toolCallId,
      step: request.step,
      tool: spec.id,
      declaredId: spec.declaredId,
      ...(entity && { instanceId: entity.instanceId }),
      effect: spec.effect,
      args: shownArguments(input.args, tool.input.hidden),
      ...(isAsked && { reason: decision.reason }),
      ...told,
    },
    arguments: input.canonical,
    ...(input.outside && { outside: input.outside }),
    index: request.index,
    terms: isAsked ? termsOf(decision) : [],
    form: hashShownForm(tool),
    ...(before && { before }),
  };
}

/** An approval without terms is that of the actor of the run. */
function termsOf({ approval = [] }: Decision): readonly ApprovalTerms[] {
  return approval.length > 0 ? approval : [{}];
}
