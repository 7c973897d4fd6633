import {
  type FinishReason,
  type JsonObject,
  type LoopResult,
  RunError,
  StorageUnavailableError,
  type SubRunRecord,
  type ToolFailure,
} from '@toolloop/protocol';
import { BoundedStores } from '../../call/bounded-stores.js';
import { unexplained } from '../../call/call-failure.js';
import type { Toolset } from '../../catalog/toolset.js';
import { Logger } from '../../findings/logger.js';
import { ToolLoop } from '../../loop/tool-loop.js';
import { FinishedRun } from '../../run/finished-run.js';
import { LoopRun, type RunParts } from '../../run/loop-run.js';
import type { EnclosingRun, SubRunsWithin } from '../../run/run-plan.js';
import { tellUnknown, unknownOutcomes } from '../../run/unknown-outcomes.js';
import { fromSavedSubRun } from '../../run/saved-run-reader.js';
import {
  forgetPagesOf,
  keptBytesOf,
  type ProcessState,
  type ResumedRun,
} from '../../run/saved-run.js';
import { toJsonObject } from '../../schema/canonical-json.js';
import type { Plugins } from '../../plugin/plugins.js';
import { ConversationCuts } from '../conversations/conversation-cuts.js';
import { ConversationTurns } from '../conversations/conversation-turns.js';
import { cut } from '../pages/result-pages.js';
import { hasChangedThings } from './changed-records.js';
import {
  type SubRunCall,
  type SubRunCheckpoint,
  type SubRunEnding,
  SubRunProcessState,
  type SubRuns,
} from './sub-runs.js';
import { SubRunPreparation, depthOf } from './sub-run-preparation.js';

/** Opens runs within runs: the same loop, told and kept by the run around it. */
export class SubRunOpener implements SubRunsWithin {
  private readonly logger = new Logger(SubRunOpener.name);
  /** The services of every run, the outermost as well. */
  readonly services: Pick<
    RunParts,
    'loop' | 'conversations' | 'turns' | 'cuts' | 'tenants' | 'plugins'
  >;

  constructor(
    private readonly preparation: SubRunPreparation,
    loop: ToolLoop,
    stores: BoundedStores,
    plugins: Plugins,
    makeCuts: (turns: ConversationTurns) => ConversationCuts,
  ) {
    const { conversations, tenants } = stores;
    const turns = new ConversationTurns(conversations);
    this.services = { loop, conversations, turns, cuts: makeCuts(turns), tenants, plugins };
  }

  /**
   * The sub-runs of a run that has these tools; undefined where runs are nested as deep as they may
   * be.
   */
  within(live: EnclosingRun, toolset: Toolset): SubRuns | undefined {
    const { run, limits } = live.plan.execution;
    return depthOf(run) < limits.subRunDepth
      ? { run: (call) => this.run(call, live, toolset) }
      : undefined;
  }

  private async run(call: SubRunCall, live: EnclosingRun, toolset: Toolset): Promise<SubRunEnding> {
    const resumed = call.request.checkpoint && resumedFrom(call.request.checkpoint);
    const plan = this.preparation.prepare(call, { live, toolset }, resumed);
    const { path = [] } = plan.execution.run;
    let kept: Pick<SubRunCheckpoint, 'saved' | 'processState'> | undefined;
    const suspended: RunParts['suspended'] = {
      suspend: ({ runId }, saved, state) => {
        kept = { saved: toJsonObject({ runId, saved }), processState: new WaitingSubRun(state) };
        return Promise.resolve();
      },
      // The root run does the rest for all of them.
      remember: () => undefined,
      claim: () => Promise.reject(new TypeError('A sub-run is claimed with its root run.')),
      end: () => Promise.resolve(),
      asked: () => Promise.resolve([]),
      withdrawPending: () => Promise.resolve(),
    };
    const run = new LoopRun(
      plan,
      { ...this.services, sinks: [], suspended, subRuns: this, open: { add: () => undefined } },
      resumed,
    );
    const root = rootOf(live);
    run.read({
      next: (event) => root.emit({ type: 'sub-run', path, event }),
      end: () => undefined,
      refuse: () => undefined,
    });
    const result = await resultOf(run);
    const record = recordOf(result);
    const unavailable =
      result.error?.code === 'storage_unavailable'
        ? new StorageUnavailableError(result.error.message)
        : undefined;
    const { waitingFor } = result;
    const why = { ...(waitingFor && { waitingFor }), ...(unavailable && { unavailable }) };
    if (kept)
      return {
        status: 'waiting',
        record,
        checkpoint: { ...kept, args: call.args, record },
        ...why,
      };
    if (unavailable) throw unavailable;
    return { record, labels: result.read, ...this.toldOf(result, call) };
  }

  /**
   * Returns the end of a sub-run. If its result cannot be told, the record of its calls is there
   * all the same.
   */
  private toldOf(result: FinishedRun<unknown>, call: SubRunCall): Ended {
    try {
      return endingOf(result, call);
    } catch (error) {
      const failure = {
        ...unexplained(),
        safeMessage: `The sub-run ended, but its result cannot be shown.${hintOf(result)}`,
      };
      this.logger.error(
        `The result of the sub-run ${result.runId} could not be reported (reference ${failure.correlationId}).`,
        error,
      );
      return { status: 'failed', failure };
    }
  }
}

const SUMMARY_BYTES = 4_096;

/** The process state of a sub-run that waits. */
class WaitingSubRun extends SubRunProcessState {
  constructor(readonly state: ProcessState) {
    super();
  }

  override get keptBytes(): number {
    return keptBytesOf(this.state);
  }

  override forgetPages(): void {
    forgetPagesOf(this.state);
  }
}

type Ended =
  | { readonly status: 'succeeded'; readonly result: JsonObject }
  | { readonly status: 'failed'; readonly failure: ToolFailure };

/** The ends of a run that make its call a failed one; of a limit, its result tells. */
const FAILED: Partial<Record<FinishReason, ToolFailure['code']>> = {
  error: 'execution_failed',
  tool_error: 'execution_failed',
  waiting: 'execution_failed',
  aborted: 'aborted',
  forbidden: 'forbidden',
};

function endingOf(result: FinishedRun<unknown>, { subRun }: SubRunCall): Ended {
  const code = FAILED[result.finishReason];
  if (code) return { status: 'failed', failure: { code, ...failureOf(result) } };
  return { status: 'succeeded', result: summaryOf(result, subRun.summaryBytes ?? SUMMARY_BYTES) };
}

/** The summary stands first: a reader that is cut off has read that. */
function summaryOf(
  { modelText: text, outputJson, finishReason, steps, toolCalls }: FinishedRun<unknown>,
  mostBytes: number,
): JsonObject {
  const said =
    text.trim() === ''
      ? `It ended (${finishReason}) before it said anything.`
      : cut(text, mostBytes);
  const unknown = unknownOutcomes(toolCalls);
  return {
    summary: unknown.length === 0 ? said : `${said} ${tellUnknown(unknown)}`,
    ...(outputJson !== undefined && { output: outputJson }),
    finishReason,
    steps,
    toolCalls: toolCalls.length,
  };
}

const REASONS: Partial<Record<FinishReason, string>> = {
  tool_error: 'A tool of it failed.',
  forbidden: 'It was refused what it asked for.',
  aborted: 'It was aborted.',
};

function failureOf(result: LoopResult): Omit<ToolFailure, 'code'> {
  const { finishReason, error, finishDetail, toolCalls } = result;
  const why = error ? error.message : (finishDetail ?? REASONS[finishReason]);
  const hint = hintOf({ toolCalls });
  const { correlationId } = error ?? {};
  return {
    safeMessage: `The sub-run failed. ${why ?? ''}${hint}`,
    ...(correlationId !== undefined && { correlationId }),
  };
}

function hintOf({ toolCalls }: Pick<LoopResult, 'toolCalls'>): string {
  return hasChangedThings(toolCalls)
    ? ' It had changed things by then: do not repeat it; check first.'
    : '';
}

function recordOf({ runId, finishReason, steps, usage, toolCalls }: LoopResult): SubRunRecord {
  return { runId, finishReason, steps, usage, toolCalls };
}

/** The result of a run, whether it resolved or rejected. */
async function resultOf(run: LoopRun<unknown>): Promise<FinishedRun<unknown>> {
  const result = await run.result.catch((error: unknown) =>
    error instanceof RunError ? error.result : Promise.reject(error),
  );
  if (result instanceof FinishedRun) return result;
  throw new TypeError('A run has ended without a result of its own.');
}

function rootOf(live: EnclosingRun): EnclosingRun {
  let root = live;
  for (let outer = root.plan.within; outer; outer = root.plan.within) root = outer.live;
  return root;
}

function resumedFrom({ saved, processState }: SubRunCheckpoint): ResumedRun {
  return {
    ...fromSavedSubRun(saved),
    ...(processState instanceof WaitingSubRun && { processState: processState.state }),
  };
}
