import { type BeforeApplicationShutdown, Injectable, Logger } from '@nestjs/common';
import {
  type FinishReason,
  InvalidRequestError,
  isJsonObject,
  type JsonObject,
  LoopEventSink,
  type LoopResult,
  RunError,
  StorageUnavailableError,
  type SubRunRecord,
  type ToolFailure,
  type ToolSpec,
} from '@toolloop/protocol';
import { setTimeout as wait } from 'node:timers/promises';
import type { Toolset } from '../catalog/toolset.js';
import type { LoopProfile, LoopRequest, ResumeRequest, RunHandle } from '../contracts/loop-request.js';
import { type ConversationStore, DurableRuns, type NamedProfile, type RunEntry, type RunJournal } from '../contracts/stores.js';
import { ActorDirectory } from '../contracts/tool-call.js';
import { ToolExplorer } from '../discovery/tool-explorer.js';
import { ToolFeature } from '../discovery/tool-feature.js';
import { BoundedStores } from '../execution/bounded-stores.js';
import { unexplained, withinTime } from '../execution/call-failure.js';
import { type BegunSubRun, type SubRunCall, type SubRunEnding, SubRunRemains, type SubRuns } from '../execution/call.js';
import { cut } from '../execution/result-pages.js';
import { hasChangedThings } from '../execution/sub-run-call.js';
import { toJsonObject } from '../schema/canonical-json.js';
import { FinishedRun } from './loop-result.js';
import { LoopRun, type RunParts } from './loop-run.js';
import { fromRunEntries } from './run-log.js';
import type { EnclosingRun, SubRunsWithin } from './run-plan.js';
import { type ListingRequest, RunPreparation } from './run-preparation.js';
import { fromSuspendedRun, SAVED_RUN_VERSION } from './saved-run-reader.js';
import { forgetPagesOf, keptBytesOf, type ProcessState, type ResumedRun } from './saved-run.js';
import { depthOf, SubRunPreparation } from './sub-run-preparation.js';
import { type RunOwner, SuspendedRuns } from './suspended-runs.js';
import { ToolLoop } from './tool-loop.js';

const SUMMARY_BYTES = 4_096;

/** What of a waiting sub-run lives as long as the process does. */
class KeptSubRun extends SubRunRemains {
  constructor(readonly remains: ProcessState) {
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
export class SubRunOpener implements SubRunsWithin {
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
  within(live: EnclosingRun, toolset: Toolset): SubRuns | undefined {
    const { run, limits } = live.plan.execution;
    return depthOf(run) < limits.subRunDepth ? { run: (call) => this.run(call, live, toolset) } : undefined;
  }

  private async run(call: SubRunCall, live: EnclosingRun, toolset: Toolset): Promise<SubRunEnding> {
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
      withdrawApprovals: () => Promise.resolve(), // so does the root run, once it has ended
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

function rootOf(live: EnclosingRun): EnclosingRun {
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

/** A run that is kept, and how far it came. */
export interface KeptRun {
  readonly runId: string;
  /** The name of its loop; absent for `ToolLoopService` itself. */
  readonly loop: string | undefined;
  readonly journal: RunJournal;
  /** What was written down, in that order. @default none: the run begins */
  readonly entries?: readonly RunEntry[];
  /** Of the last event that was kept. @default 0 */
  readonly lastSequence?: number;
}

/** The runs that end with their process. When it shuts down they are told to, while those who read them can still be told of it. */
@Injectable()
export class OpenRuns implements BeforeApplicationShutdown {
  private readonly logger = new Logger(OpenRuns.name);
  private readonly open = new Map<Cancelled, Promise<void>>();
  private isClosing = false;

  /** A run has begun; `end` settles when it has ended. */
  add(run: Cancelled, end: Promise<unknown>): void {
    const forget = (): void => void this.open.delete(run);
    this.open.set(run, end.then(forget, forget));
    if (this.isClosing) run.cancel(REASON);
  }

  async beforeApplicationShutdown(): Promise<void> {
    this.isClosing = true;
    if (this.open.size === 0) return;
    for (const run of this.open.keys()) run.cancel(REASON);
    try {
      await withinTime(Promise.all(this.open.values()), LONGEST_END_MS);
    } catch {
      this.logger.warn(
        `${this.open.size} of the runs did not end within ${LONGEST_END_MS} ms of being aborted; the application ends without them.`,
      );
    }
    await flushBeforeClose();
  }
}

/** What every run works with. */
@Injectable()
export class RunServices {
  private found: readonly LoopEventSink[] | undefined;

  constructor(
    readonly suspended: SuspendedRuns,
    readonly subRuns: SubRunOpener,
    readonly open: OpenRuns,
    private readonly explorer: ToolExplorer,
  ) {}

  get loop(): RunParts['loop'] {
    return this.subRuns.services.loop;
  }

  get conversations(): ConversationStore {
    return this.subRuns.services.conversations;
  }

  /** Of the whole application; known once it has started. */
  get sinks(): readonly LoopEventSink[] {
    this.found ??= this.explorer.instancesOf(LoopEventSink);
    return this.found;
  }
}

/** Opens the runs of every loop, named or not. */
@Injectable()
export class RunOpener {
  constructor(
    private readonly preparation: RunPreparation,
    private readonly services: RunServices,
    private readonly explorer: ToolExplorer,
  ) {}

  /** Throws what makes the request one that cannot be run. */
  open<Output, Actor>(request: LoopRequest<Output, Actor>, loop: NamedProfile): RunHandle<Output> {
    if (request.durable ?? loop.profile.durable) return this.durableRuns().open(request, loop);
    return new LoopRun<Output>(this.preparation.prepare(request, loop.profile), this.services);
  }

  /** A run that is written down as it goes on; for whoever keeps runs. Throws as `open` does. */
  openKept<Output, Actor>(
    request: LoopRequest<Output, Actor>,
    { runId, loop, journal, entries = [], lastSequence = 0 }: KeptRun,
  ): RunHandle<Output> {
    const saved = fromRunEntries(runId, entries);
    const remains = this.services.suspended.recall(runId);
    const resumed = saved && { runId, saved, ...(remains && { remains }) };
    const plan = this.preparation.prepare(request, this.profileOf(loop), resumed ?? { runId });
    return new LoopRun<Output>(plan, this.services, resumed, journal, lastSequence);
  }

  private profileOf(name: string | undefined): LoopProfile {
    if (name === undefined) return {};
    const profiles = this.explorer.instancesOf(ToolFeature).flatMap(({ options }) => options.loops?.[name] ?? []);
    if (profiles[0]) return profiles[0];
    throw new InvalidRequestError(
      'unknown_run',
      `The run was opened by the loop ${JSON.stringify(name)}, which this application does not have.`,
    );
  }

  /** Who acts for a run that goes on without a request, as they are now. Throws `InvalidRequestError` (`unknown_actor`) where nobody knows them. */
  async actorOf(actorId: string, tenant: string): Promise<unknown> {
    const actor = await this.directory.find(actorId, tenant);
    if (actor !== undefined) return actor;
    throw new InvalidRequestError('unknown_actor', 'The ActorDirectory does not know the actor of the run, so nobody could continue it.');
  }

  /** The loops all of whose runs are durable, unless a request says otherwise. */
  get durableLoops(): readonly string[] {
    const loops = this.explorer.instancesOf(ToolFeature).flatMap(({ options }) => Object.entries(options.loops ?? {}));
    return loops.filter(([, { durable }]) => durable).map(([name]) => name);
  }

  get hasDirectory(): boolean {
    return this.explorer.instancesOf(ActorDirectory).length > 0;
  }

  /** Throws `InvalidRequestError` where there is none. */
  get directory(): ActorDirectory {
    const [directory] = this.explorer.instancesOf(ActorDirectory);
    if (directory) return directory;
    throw new InvalidRequestError(
      'invalid_request',
      'Runs and directives that continue without a request need their actors loaded: provide a class that extends ActorDirectory, in any module.',
    );
  }

  /** Withdraws what a run asked for that ended without being opened. */
  withdrawApprovals(run: Pick<RunOwner, 'runId' | 'tenant'>): Promise<void> {
    return this.services.suspended.withdrawApprovals(run);
  }

  private durableRuns(): DurableRuns {
    const [durable] = this.explorer.instancesOf(DurableRuns);
    if (durable) return durable;
    throw new InvalidRequestError('invalid_request', 'A durable run needs storage: import DurableModule of @toolloop/durable.');
  }

  /** Throws `InvalidRequestError` (`unknown_run`) for a run that does not wait, or not for this actor. */
  async resume<Output, Actor>(runId: string, request: ResumeRequest<Output, Actor>, profile: LoopProfile): Promise<RunHandle<Output>> {
    const resumed = await this.services.suspended.find(runId, request);
    return new LoopRun<Output>(this.preparation.prepare(request, profile, resumed), this.services, resumed);
  }

  /** The tools such a run would start with. */
  async list<Actor>(request: ListingRequest<Actor>, profile: LoopProfile): Promise<readonly ToolSpec[]> {
    const { specs } = await this.preparation.listed(request, profile);
    return specs;
  }
}

/** A run that has been aborted ends at once, but for what it keeps; a store that hangs must not keep the application from ending. */
const LONGEST_END_MS = 10_000;
const FLUSH_MS = 100;
const REASON = 'The application is shutting down.';

/** Waits until what was said last has left the process: Nest closes the connections next, whether their streams have ended or not. */
export function flushBeforeClose(): Promise<void> {
  return wait(FLUSH_MS);
}

/** What of a run is needed to end it. */
type Cancelled = Pick<RunHandle, 'cancel'>;
