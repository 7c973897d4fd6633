import { Injectable, Logger } from '@nestjs/common';
import {
  type FinishReason,
  isJsonObject,
  type JsonObject,
  type LoopResult,
  RunError,
  StorageUnavailableError,
  type SubRunRecord,
  type ToolFailure,
} from '@toolloop/protocol';
import type { Toolset } from '../catalog/toolset.js';
import { BoundedStores } from '../execution/bounded-stores.js';
import { unexplained } from '../execution/call-failure.js';
import { type BegunSubRun, type SubRunCall, type SubRunEnding, SubRunRemains, type SubRuns } from '../execution/call.js';
import { cut } from '../execution/result-pages.js';
import { hasChangedThings } from '../execution/sub-run-call.js';
import { toJsonObject } from '../schema/canonical-json.js';
import type { LiveRun } from './live-run.js';
import { FinishedRun } from './loop-result.js';
import { LoopRun } from './loop-run.js';
import type { RunParts } from './run-opener.js';
import { fromSuspendedRun, SAVED_RUN_VERSION } from './saved-run.js';
import { depthOf, SubRunPreparation } from './sub-run-preparation.js';
import { forgetPagesOf, keptBytesOf, type LiveRemains, type ResumedRun } from './suspended-runs.js';
import { ToolLoop } from './tool-loop.js';

const SUMMARY_BYTES = 4_096;

/** What of a waiting sub-run lives as long as the process does. */
class KeptSubRun extends SubRunRemains {
  constructor(readonly remains: LiveRemains) {
    super();
  }

  override get keptBytes(): number {
    return keptBytesOf(this.remains);
  }

  override forgetPages(): void {
    forgetPagesOf(this.remains);
  }
}

/** Opens runs within runs: the same loop, told and kept by the run around it. */
@Injectable()
export class SubRunOpener {
  private readonly logger = new Logger(SubRunOpener.name);
  /** What every run works with, the outermost as well. */
  readonly services: Pick<RunParts, 'loop' | 'conversations'>;

  constructor(
    private readonly preparation: SubRunPreparation,
    loop: ToolLoop,
    { conversations }: BoundedStores,
  ) {
    this.services = { loop, conversations };
  }

  /** The sub-runs of a run that has these tools; undefined where runs are nested as deep as they may be. */
  within(live: LiveRun, toolset: Toolset): SubRuns | undefined {
    const { run, limits } = live.plan.execution;
    return depthOf(run) < limits.subRunDepth ? { run: (call) => this.run(call, live, toolset) } : undefined;
  }

  private async run(call: SubRunCall, live: LiveRun, toolset: Toolset): Promise<SubRunEnding> {
    const resumed = call.request.begun && resumedFrom(call.request.begun);
    const plan = this.preparation.prepare(call, { live, toolset }, resumed);
    const { path = [] } = plan.execution.run;
    let kept: Pick<BegunSubRun, 'saved' | 'remains'> | undefined;
    const suspended: RunParts['suspended'] = {
      keep: ({ runId }, saved, remains) => {
        kept = { saved: toJsonObject({ runId, saved }), remains: new KeptSubRun(remains) };
        return Promise.resolve();
      },
      remember: () => undefined,
      claim: () => Promise.resolve(), // the root run was
      askNobody: () => Promise.resolve(), // so does the root run, once it has ended
    };
    const open = { add: () => undefined }; // it ends with the run around it
    const run = new LoopRun(plan, { ...this.services, sinks: [], suspended, subRuns: this, open }, resumed);
    const root = rootOf(live);
    run.read({ next: (event) => root.emit({ type: 'sub-run', path, event }), end: () => undefined, refuse: () => undefined });
    const result = await resultOf(run);
    const record = recordOf(result);
    const unavailable = result.error?.code === 'storage_unavailable' ? new StorageUnavailableError(result.error.message) : undefined;
    if (kept) return { status: 'waiting', record, begun: { ...kept, args: call.args, record }, ...(unavailable && { unavailable }) };
    if (unavailable) throw unavailable;
    return { record, labels: result.read, ...this.toldOf(result, call) };
  }

  /** Where its result cannot be told, the record of what it did is there all the same. */
  private toldOf(result: FinishedRun<unknown>, call: SubRunCall): Ended {
    try {
      return endingOf(result, call);
    } catch (error) {
      const failure = { ...unexplained(), safeMessage: `The sub-run ended, but its result cannot be shown.${hintOf(result)}` };
      this.logger.error(`The result of the sub-run ${result.runId} could not be reported (reference ${failure.correlationId}).`, error);
      return { status: 'failed', failure };
    }
  }
}

type Ended = { readonly status: 'succeeded'; readonly result: JsonObject } | { readonly status: 'failed'; readonly failure: ToolFailure };

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

/** What it came to first: a reader that is cut off has read that. */
function summaryOf({ text, outputJson, finishReason, steps, toolCalls }: FinishedRun<unknown>, mostBytes: number): JsonObject {
  const summary = text.trim() === '' ? `It ended (${finishReason}) before it said anything.` : cut(text, mostBytes);
  return { summary, ...(outputJson !== undefined && { output: outputJson }), finishReason, steps, toolCalls: toolCalls.length };
}

const REASONS: Partial<Record<FinishReason, string>> = {
  tool_error: 'A tool of it failed.',
  forbidden: 'It was refused what it asked for.',
  aborted: 'It was aborted.',
};

function failureOf({ finishReason, error, toolCalls }: LoopResult): Omit<ToolFailure, 'code'> {
  const why = error ? error.message : REASONS[finishReason];
  const hint = hintOf({ toolCalls });
  const { correlationId } = error ?? {};
  return { safeMessage: `The sub-run failed. ${why ?? ''}${hint}`, ...(correlationId !== undefined && { correlationId }) };
}

function hintOf({ toolCalls }: Pick<LoopResult, 'toolCalls'>): string {
  return hasChangedThings(toolCalls) ? ' It had changed things by then: do not repeat it; check first.' : '';
}

function recordOf({ runId, finishReason, steps, usage, toolCalls }: LoopResult): SubRunRecord {
  return { runId, finishReason, steps, usage, toolCalls };
}

/** What a run came to, whether it resolved or rejected. */
async function resultOf(run: LoopRun<unknown>): Promise<FinishedRun<unknown>> {
  const result = await run.result.catch((error: unknown) => (error instanceof RunError ? error.result : Promise.reject(error)));
  if (result instanceof FinishedRun) return result;
  throw new TypeError('A run has ended without a result of its own.');
}

function rootOf(live: LiveRun): LiveRun {
  let root = live;
  for (let outer = root.plan.within; outer; outer = root.plan.within) root = outer.live;
  return root;
}

function resumedFrom({ saved, remains }: BegunSubRun): ResumedRun {
  const { runId, saved: content } = saved;
  if (typeof runId !== 'string' || !isJsonObject(content)) throw new TypeError('This is not a waiting sub-run.');
  return {
    runId,
    saved: fromSuspendedRun({ version: SAVED_RUN_VERSION, runId, content }),
    remains: remains instanceof KeptSubRun ? remains.remains : undefined,
  };
}
