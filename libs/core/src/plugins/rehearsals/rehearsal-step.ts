import {
  NO_USAGE,
  type RehearsalChange,
  type RehearsalReport,
  type ReportedCall,
  type ToolInvocationRecord,
} from '@toolloop/protocol';
import { Toolset } from '../../catalog/toolset.js';
import { isUsable, type PendingAnswer, type PendingOf } from '../../contracts/pending.js';
import type { Tool } from '../../contracts/tool.js';
import { unaskableReason } from '../approvals/approval-question.js';
import { CallFailure } from '../../call/call-failure.js';
import { Interruption } from '../../contracts/interruption.js';
import { CallPending, type ToolOutcome } from '../../call/outcome.js';
import { type ExecutionScope, type PlacedCall } from '../../call/call.js';
import { hashShownForm } from '../approvals/shown-form.js';
import type { ToolRunner } from '../../call/tool-runner.js';
import type { KeptCall, RunRehearsal } from './run-rehearsal.js';
import { RunApprovals } from '../approvals/run-approvals.js';
import { SpendingLedger } from '../usage/spending.js';
import { sha256 } from '../../schema/canonical-json.js';
import type { LiveRun } from '../../run/live-run.js';
import { type FailedRun, finishFor, isUnavailable } from '../../run/run-fault.js';
import { type LoopState, type PendingStep, type StepAnswer } from '../../loop/loop-state.js';
import type { DirectiveUpdates } from '../directives/directive-updates.js';
import type { StructuredAnswers } from '../structured-output/structured-answer.js';

/**
 * The end of a rehearsal: people are asked about the list of its changes, and once they have
 * approved it each is made, as any call is.
 */
export class RehearsalStep {
  constructor(
    private readonly runner: ToolRunner,
    private readonly updates: DirectiveUpdates,
    private readonly answers: StructuredAnswers,
  ) {}

  /** Returns the end of the run, or the state in which it waits. Never rejects. */
  async conclude(state: LoopState, ending: EndingRehearsal): Promise<LoopState> {
    const { live, rehearsal, failed } = ending;
    const calls = rehearsal.changes;
    const isAsked = state.pending ? isOfNoModel(state.pending) : state.finish?.reason === 'stop';
    const scope = live.scope(state.toolset, () => state.messages, state.toolset);
    if (
      !isAsked ||
      calls.length === 0 ||
      unaskableReason({ ...scope, rehearsal: undefined }) !== undefined
    )
      return unasked(
        state,
        calls.map(({ shown }) => shown),
        isAsked,
      );
    const pending = state.pending ?? {
      answer: NO_ANSWER,
      offered: state.toolset,
      outcomes: [],
      isPlanned: true,
    };
    try {
      return await this.decided({ ...state, pending, finish: undefined }, pending, {
        ...ending,
        scope,
      });
    } catch (error) {
      const finish = finishFor(error, 'internal', failed);
      const { pending: _pending, ...over } = state;
      return isUnavailable({ finish }) ? { ...state, pending, finish } : { ...over, finish };
    }
  }

  private async decided(
    state: LoopState,
    pending: PendingStep,
    { scope, ...ending }: EndingRehearsal & { readonly scope: ExecutionScope },
  ): Promise<LoopState> {
    const { rehearsals } = this.runner;
    const { live, rehearsal } = ending;
    const asker = { scope, request: { step: state.step + 1 } };
    const asked = await rehearsals.ask({ ...asker, calls: rehearsal.changes });
    const { id: rehearsalId } = asked;
    const record = await rehearsals.decided(asked, asker).catch((error: unknown) => {
      if (error instanceof CallPending) return undefined;
      throw error;
    });
    if (!record)
      return {
        ...state,
        finish: WAITING,
        rehearsal: reportOf(rehearsal, [], { rehearsalId, status: 'waiting' }),
      };
    const { answer, usedAt } = record;
    const wasBegun = usedAt !== undefined;
    if (answer && !wasBegun) await rehearsals.tell(record, answer, asker);
    const refusal =
      refusalIn(answer) ?? (wasBegun ? undefined : await this.useUp(record, state, pending, live));
    if (refusal)
      return this.over(state, reportOf(rehearsal, [], { rehearsalId, status: refusal }), live);
    const isCompared = pending.outcomes.length > 0;
    const change = isCompared || wasBegun ? undefined : toolChangeIn(rehearsal, state);
    const performance = {
      ...ending,
      record,
      wasBegun,
      outcomes: [],
      isCompared,
      ...(change && { change }),
    };
    return this.performed(state, pending, performance);
  }

  /**
   * Uses the approval, once the run is kept as one that performs: another process must not ask the
   * model again.
   */
  private async useUp(
    record: Asked,
    state: LoopState,
    pending: PendingStep,
    live: LiveRun,
  ): Promise<'expired' | undefined> {
    await live.recorder?.answered(state, pending);
    return (await this.runner.rehearsals.use(record)) === undefined ? undefined : 'expired';
  }

  /** Makes the calls one after the other, until one of them does not take place. */
  private async performed(
    state: LoopState,
    pending: PendingStep,
    performance: Performance,
  ): Promise<LoopState> {
    const { rehearsal, live, outcomes, wasBegun } = performance;
    const spending = spendingOf(live);
    const done = pending.outcomes.filter(({ isPending }) => !isPending);
    for (const [index, kept] of performance.change ? [] : rehearsal.changes.entries()) {
      const known = done.find((outcome) => outcome.record.index === index);
      const outcome = known ?? (await this.made(kept, index, state, performance, spending));
      outcomes.push(outcome);
      if (outcome.isPending) return this.waiting(state, pending, outcome, performance);
      if (!known) await live.recorder?.called(outcome, true);
      if (!tookPlace(outcome.record)) break;
      performance.isCompared ||= wasBegun; // it may have been made before
    }
    return this.ended(state, performance);
  }

  private ended(
    state: LoopState,
    { rehearsal, outcomes, record, change, live }: Performance,
  ): Promise<LoopState> {
    const records = [...state.records, ...outcomes.map((outcome) => outcome.record)];
    const isWhole =
      outcomes.length === rehearsal.changes.length &&
      outcomes.every((outcome) => tookPlace(outcome.record));
    const status = change ? 'changed' : isWhole ? 'performed' : 'incomplete';
    const report = reportOf(rehearsal, change ? [] : outcomes, {
      rehearsalId: record.id,
      status,
      ...(change && { change }),
    });
    return this.over({ ...state, records }, report, live);
  }

  private made(
    kept: KeptCall,
    index: number,
    state: LoopState,
    performance: Performance,
    spending: SpendingLedger,
  ): Promise<ToolOutcome> {
    const { live, record, rehearsal, wasBegun } = performance;
    const { step } = record.request;
    const placed: PlacedCall = {
      call: {
        toolCallId: `performed_${step}_${index}`,
        name: kept.shown.tool,
        arguments: kept.arguments,
      },
      step,
      index,
      approvedAs: sha256(kept.arguments),
      outside: kept.outside ?? [],
      ...(wasBegun && { mayHaveRun: true }),
    };
    const tool = state.toolset.findCallable(kept.shown.tool);
    const { rehearsal: _rehearsal, ...scope } = live.scope(
      Toolset.of(tool ? [tool] : []),
      () => readBefore(kept, state),
      state.toolset,
    );
    const { id: approvalId, rule, binding, admitted } = record;
    const approvals = new RunApprovals(live.approvals.mode, live.approvals.save(), {
      approvalId,
      rule,
      policyVersion: binding.policyVersion,
      terms: admitted.length > 0 ? admitted : [{}],
      ...(kept.form !== undefined && { form: kept.form }),
    });
    const beforeEffect = async (): Promise<void> => {
      // since the performance began, days may have passed
      if (tool && isOtherTool(kept, tool)) throw new CallFailure(CHANGED, { method: 'not_called' });
      if (performance.isCompared) return;
      const change = await this.runner.rehearsal.changeIn(rehearsal, {
        ...scope,
        toolset: state.toolset,
      });
      performance.isCompared = true;
      if (!change) return;
      performance.change = change;
      throw new CallFailure(CHANGED, { method: 'not_called' });
    };
    const performing = { ...scope, approvals, spending, beforeEffect };
    return this.runner.exec(
      placed,
      tool?.directive ? this.updates.following(performing) : performing,
    );
  }

  private waiting(
    state: LoopState,
    pending: PendingStep,
    outcome: ToolOutcome,
    performance: Performance,
  ): LoopState {
    const { rehearsal, outcomes, failed, record } = performance;
    const { unavailable, waitingFor = 'rehearsal' } = outcome;
    const finish = unavailable
      ? finishFor(unavailable, 'internal', failed)
      : ({ reason: 'waiting', waitingFor } as const);
    const report = reportOf(rehearsal, outcomes, { rehearsalId: record.id, status: 'waiting' });
    return { ...state, pending: { ...pending, outcomes }, finish, rehearsal: report };
  }

  /** The end of the run, with the structured answer that it gave before it waited. */
  private async over(
    state: LoopState,
    rehearsal: RehearsalReport,
    live: LiveRun,
  ): Promise<LoopState> {
    const { pending: _pending, ...ended } = state;
    const { answer } = live.plan;
    const reading =
      answer && !state.output
        ? await this.answers.read(answer, state.text, live.hiddenTexts)
        : undefined;
    const output = reading && 'output' in reading ? { output: reading } : {};
    const interrupted =
      live.signal.aborted && rehearsal.status !== 'performed'
        ? Interruption.from(live.signal)
        : undefined;
    if (interrupted) throw interrupted;
    const finish = {
      ...END[rehearsal.status === 'incomplete' ? 'incomplete' : 'whole'],
      ...detailOf(rehearsal),
    };
    return { ...ended, ...output, rehearsal, finish };
  }
}

/** A rehearsal whose model has come to its end. */
export interface EndingRehearsal {
  readonly live: LiveRun;
  readonly rehearsal: RunRehearsal;
  readonly failed: FailedRun;
}

type Asked = PendingOf<'rehearsal'>;

/** The calls of an approved rehearsal, as far as they were made. */
interface Performance extends EndingRehearsal {
  readonly record: Asked;
  /** True where a process that is gone may have made some of them. */
  readonly wasBegun: boolean;
  readonly outcomes: ToolOutcome[];
  /**
   * Set once everything that was rehearsed has been compared with the data, which is done before
   * the first effect alone.
   */
  isCompared: boolean;
  change?: RehearsalChange;
}

/** Tells whether a step is the performance of a rehearsal: its calls are no model's. */
export function isOfNoModel({ answer }: Pick<PendingStep, 'answer'>): boolean {
  return answer.toolCalls.length === 0;
}

const NO_ANSWER: StepAnswer = {
  text: '',
  reasoning: '',
  toolCalls: [],
  finishReason: 'stop',
  usage: NO_USAGE,
};
const WAITING = { reason: 'waiting', waitingFor: 'rehearsal' } as const;
const END = { whole: { reason: 'stop' }, incomplete: { reason: 'tool_error' } } as const;
const CHANGED = {
  code: 'aborted',
  safeMessage: 'What was rehearsed has changed since, so the call was not made. Rehearse again.',
} as const;

/**
 * The end of a rehearsal about which no one is asked. One that ended otherwise than with the
 * model's last words says why already.
 */
function unasked(state: LoopState, calls: RehearsalReport['calls'], isWhole: boolean): LoopState {
  const rehearsal = { status: 'unasked', calls } as const;
  const { finish } = state;
  return {
    ...state,
    rehearsal,
    ...(finish && isWhole && calls.length > 0 && { finish: { ...finish, ...detailOf(rehearsal) } }),
  };
}

function refusalIn(
  answer: PendingAnswer | undefined,
): 'denied' | 'withdrawn' | 'expired' | undefined {
  if (!answer) return 'expired';
  if (isUsable(answer)) return undefined;
  return answer.decision === 'withdraw' ? 'withdrawn' : 'denied';
}

/** A result that cannot be shown is that of a call which took place. */
function tookPlace({ status, error }: ToolInvocationRecord): boolean {
  return status === 'succeeded' || error?.code === 'invalid_output';
}

/** Finds the first call whose tool is gone, or another than the one that was rehearsed. */
function toolChangeIn(
  { changes }: RunRehearsal,
  { toolset }: LoopState,
): RehearsalChange | undefined {
  const changed = changes.find(({ shown, form }) => {
    const tool = toolset.findCallable(shown.tool);
    return tool === undefined || form !== hashShownForm(tool);
  });
  return (
    changed && {
      toolCallId: changed.shown.toolCallId,
      declaredId: changed.shown.declaredId,
      isTool: true,
    }
  );
}

/** Tells if a tool is another than the one that was rehearsed. What the client made stands. */
function isOtherTool({ form }: KeptCall, tool: Tool): boolean {
  return tool.client === undefined && form !== hashShownForm(tool);
}

/** The messages that the model had read when it made a call. */
function readBefore({ shown }: KeptCall, { messages }: LoopState): LoopState['messages'] {
  const at = messages.findIndex(
    (message) =>
      message.role === 'assistant' &&
      message.toolCalls?.some(({ toolCallId }) => toolCallId === shown.toolCallId),
  );
  return at === -1 ? messages : messages.slice(0, at + 1);
}

/** The calls of the rehearsal were counted as if they had been made, and are counted anew. */
function spendingOf({ spending: { tokens, usd, hasUnknownCost } }: LiveRun): SpendingLedger {
  return Object.assign(new SpendingLedger(), { tokens, usd, hasUnknownCost });
}

type Told = Pick<RehearsalReport, 'rehearsalId' | 'status' | 'change'>;

function reportOf(
  { changes }: RunRehearsal,
  outcomes: readonly ToolOutcome[],
  told: Told,
): RehearsalReport {
  const isApproved = outcomes.length > 0 || told.status === 'changed';
  const calls = changes.map(({ shown }, index): ReportedCall =>
    isApproved ? { ...shown, outcome: reportOutcome(outcomes[index]) } : shown,
  );
  return { ...told, calls };
}

function reportOutcome(outcome: ToolOutcome | undefined): NonNullable<ReportedCall['outcome']> {
  if (!outcome) return 'not_made';
  if (outcome.isPending) return 'waiting';
  if (tookPlace(outcome.record)) return 'performed';
  return outcome.record.error?.code === 'unknown_outcome' ? 'unknown' : 'failed';
}

/**
 * The reasons why nothing was performed, which the model, whose last words are those of the run,
 * did not know.
 */
const NOT_PERFORMED: Readonly<Partial<Record<RehearsalReport['status'], string>>> = {
  denied: 'the rehearsal was not approved',
  withdrawn: 'the rehearsal was withdrawn',
  expired: 'the rehearsal has expired',
  unasked: 'the rehearsal was only shown, since no one could be asked',
};

function detailOf({
  status,
  calls,
  change,
}: Pick<RehearsalReport, 'status' | 'calls' | 'change'>): { readonly detail?: string } {
  const why = change ? `${placeOf(change)} since the rehearsal` : NOT_PERFORMED[status];
  if (why !== undefined) return { detail: `Nothing was performed: ${why}.` };
  if (status !== 'incomplete') return {};
  const performed = calls.filter(({ outcome }) => outcome === 'performed').length;
  const failed = calls[performed];
  return {
    detail: `${performed} of ${calls.length} calls took place; ${failed?.declaredId} did not, and those behind it were not made.`,
  };
}

function placeOf({ declaredId, toolCallId, field, isTool }: RehearsalChange): string {
  if (isTool) return `the tool ${declaredId} of the call ${toolCallId} has changed`;
  const what =
    field === undefined
      ? 'can no longer be made'
      : `has another ${field === '' ? 'result' : field}`;
  return `the call ${toolCallId} of ${declaredId} ${what}`;
}
