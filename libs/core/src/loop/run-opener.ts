import {
  type BeforeApplicationShutdown,
  Injectable,
  type OnModuleDestroy,
  Optional,
  ServiceUnavailableException,
} from '@nestjs/common';
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
import { AuditTrail } from '../audit/audit-trail.js';
import type { Toolset } from '../catalog/toolset.js';
import type {
  LoopProfile,
  LoopRequest,
  ResumeRequest,
  RunHandle,
} from '../contracts/loop-request.js';
import {
  DurableRuns,
  type NamedProfile,
  type RunEntry,
  type RunJournal,
  type RunRecord,
} from '../contracts/stores.js';
import { ActorDirectory } from '../contracts/tool-call.js';
import { ToolExplorer } from '../discovery/tool-explorer.js';
import { ToolFeature } from '../discovery/tool-feature.js';
import { BoundedStores } from '../execution/bounded-stores.js';
import { unexplained, withinTime } from '../execution/call-failure.js';
import {
  type SubRunCheckpoint,
  type SubRunCall,
  type SubRunEnding,
  SubRunProcessState,
  type SubRuns,
} from '../execution/call.js';
import { UNKNOWN_TENANT } from '../execution/resolve-tool.js';
import { cut } from '../execution/result-pages.js';
import { hasChangedThings } from '../execution/sub-run-call.js';
import { Logger } from '../findings/logger.js';
import { toJsonObject } from '../schema/canonical-json.js';
import { ConversationCuts } from './conversation-cuts.js';
import { ConversationTurns } from './conversation-turns.js';
import { FinishedRun } from './loop-state.js';
import { LoopRun, type RunParts } from './loop-run.js';
import { fromRunEntries } from './run-log.js';
import type { EnclosingRun, RunPlan, SubRunsWithin } from './run-plan.js';
import { type ListingRequest, RunPreparation } from './run-preparation.js';
import { fromSavedJson } from './saved-run-reader.js';
import { forgetPagesOf, keptBytesOf, type ProcessState, type ResumedRun } from './saved-run.js';
import { depthOf, SubRunPreparation } from './sub-run-preparation.js';
import { SuspendedRuns } from './suspended-runs.js';
import { ToolLoop } from './tool-loop.js';

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

/** Opens runs within runs: the same loop, told and kept by the run around it. */
class SubRunOpener implements SubRunsWithin {
  private readonly logger = new Logger(SubRunOpener.name);
  /** The services of every run, the outermost as well. */
  readonly services: Pick<RunParts, 'loop' | 'conversations' | 'turns' | 'cuts' | 'tenants'>;

  constructor(
    private readonly preparation: SubRunPreparation,
    loop: ToolLoop,
    stores: BoundedStores,
    makeCuts: (turns: ConversationTurns) => ConversationCuts,
  ) {
    const { conversations, tenants } = stores;
    const turns = new ConversationTurns(conversations);
    this.services = { loop, conversations, turns, cuts: makeCuts(turns), tenants };
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
  const summary =
    text.trim() === ''
      ? `It ended (${finishReason}) before it said anything.`
      : cut(text, mostBytes);
  return {
    summary,
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

function failureOf({ finishReason, error, toolCalls }: LoopResult): Omit<ToolFailure, 'code'> {
  const why = error ? error.message : REASONS[finishReason];
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
  const { runId, saved: content } = saved;
  if (typeof runId !== 'string' || !isJsonObject(content))
    throw new TypeError('This is not a waiting sub-run.');
  return {
    runId,
    saved: fromSavedJson(content, runId),
    ...(processState instanceof WaitingSubRun && { processState: processState.state }),
  };
}

/** A run that is kept, and how far it came. */
export interface DurableRun extends Pick<RunPlan, 'queued'> {
  readonly runId: string;
  /** The name of its loop; absent for `ToolLoopService` itself. */
  readonly loop: string | undefined;
  readonly journal: RunJournal;
  /** The stored entries, in order. @default none: the run begins */
  readonly entries?: readonly RunEntry[];
  /** The sequence of the last stored event. @default 0 */
  readonly lastSequence?: number;
}

/**
 * The runs that end with their process. When it shuts down they are told to, while those who read
 * them can still be told of it.
 */
export class OpenRuns {
  private readonly logger = new Logger(OpenRuns.name);
  private readonly open = new Map<Cancelled, Promise<void>>();
  private isClosing = false;

  /** A run has begun; `end` settles when it has ended. */
  add(run: Cancelled, end: Promise<unknown>): void {
    const forget = (): void => void this.open.delete(run);
    this.open.set(run, end.then(forget, forget));
    if (this.isClosing) run.cancel(REASON);
  }

  /**
   * @throws {ServiceUnavailableException} Once the application is told to stop: its stores close
   *   behind the runs that it has.
   */
  assertOpen(): void {
    if (this.isClosing)
      throw new ServiceUnavailableException({
        code: 'shutting_down',
        message: `${REASON} Send the request again.`,
      });
  }

  /** Refuses further runs. */
  refuse(): void {
    this.isClosing = true;
  }

  /** Aborts the runs, and waits until they have ended. */
  async close(): Promise<void> {
    this.refuse();
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

/** Opens the runs of every loop, named or not. */
@Injectable()
export class RunOpener implements OnModuleDestroy, BeforeApplicationShutdown {
  private readonly openRuns = new OpenRuns();
  private readonly subRuns: SubRunOpener;
  private sinks: readonly LoopEventSink[] | undefined;

  constructor(
    private readonly preparation: RunPreparation,
    private readonly explorer: ToolExplorer,
    private readonly suspended: SuspendedRuns,
    subRuns: SubRunPreparation,
    loop: ToolLoop,
    stores: BoundedStores,
    @Optional() trail?: AuditTrail,
  ) {
    this.subRuns = new SubRunOpener(
      subRuns,
      loop,
      stores,
      (turns) => new ConversationCuts(stores, turns, suspended, trail),
    );
  }

  /** @throws {ServiceUnavailableException} Once the application shuts down. */
  assertOpen(): void {
    this.openRuns.assertOpen();
  }

  onModuleDestroy(): void {
    this.openRuns.refuse();
  }

  /** Ends the runs that end with their process, while their readers can still be told of it. */
  beforeApplicationShutdown(): Promise<void> {
    return this.openRuns.close();
  }

  /**
   * The services of a run. The sinks are those of the whole application, known once it has started.
   */
  get services(): RunParts {
    if (this.explorer.exploredModules !== this.explorer.modules.size)
      this.explorer.warnOfLateModules();
    this.sinks ??= this.explorer.instancesOf(LoopEventSink);
    return {
      ...this.subRuns.services,
      suspended: this.suspended,
      subRuns: this.subRuns,
      open: this.openRuns,
      sinks: this.sinks,
    };
  }

  /**
   * Opens a run.
   *
   * @throws {InvalidRequestError} For a request that cannot be run.
   * @throws {ServiceUnavailableException} Once the application shuts down.
   */
  open<Output, Actor>(request: LoopRequest<Output, Actor>, loop: NamedProfile): RunHandle<Output> {
    this.openRuns.assertOpen();
    if (request.durable ?? loop.profile.durable) return this.durable.open(request, loop);
    const plan = this.preparation.prepare(request, loop.profile);
    return new LoopRun<Output>({ ...plan, loop: loop.name }, this.services);
  }

  /** Opens a run that is written to a journal as it proceeds. Throws as `open` does. */
  openDurable<Output, Actor>(
    request: LoopRequest<Output, Actor>,
    { runId, loop, journal, entries = [], lastSequence = 0, queued }: DurableRun,
  ): RunHandle<Output> {
    const saved = fromRunEntries(runId, entries);
    const processState = this.suspended.recall(runId);
    const resumed = saved && { runId, saved, ...(processState && { processState }) };
    const plan = this.preparation.prepare(request, this.profileOf(loop), resumed ?? { runId });
    return new LoopRun<Output>(
      { ...plan, loop, queued },
      this.services,
      resumed,
      journal,
      lastSequence,
    );
  }

  private profileOf(name: string | undefined): LoopProfile {
    if (name === undefined) return {};
    const profiles = this.explorer
      .instancesOf(ToolFeature)
      .flatMap(({ options }) => options.loops?.[name] ?? []);
    if (profiles[0]) return profiles[0];
    throw new InvalidRequestError(
      'unknown_run',
      `The run was opened by the loop ${JSON.stringify(name)}, which this application does not have.`,
    );
  }

  /**
   * Loads the actor of a run that continues without a request. @throws {InvalidRequestError}
   * `unknown_actor` where the directory does not know them.
   */
  async actorOf(actorId: string, tenant: string): Promise<unknown> {
    const actor = await this.directory.find(actorId, tenant);
    if (actor !== undefined) return actor;
    throw new InvalidRequestError(
      'unknown_actor',
      'The ActorDirectory does not know the actor of the run, so no process can continue it.',
    );
  }

  /** The loops all of whose runs are durable, unless a request says otherwise. */
  get durableLoops(): readonly string[] {
    const loops = this.explorer
      .instancesOf(ToolFeature)
      .flatMap(({ options }) => Object.entries(options.loops ?? {}));
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
  withdrawPending(run: Pick<RunRecord, 'runId' | 'tenant'>): Promise<void> {
    return this.suspended.withdrawPending(run);
  }

  /**
   * The storage of durable runs, for a new one.
   *
   * @throws {InvalidRequestError} Without such storage.
   * @throws {ServiceUnavailableException} Once the application shuts down.
   */
  get durable(): DurableRuns {
    this.openRuns.assertOpen();
    const [durable] = this.explorer.instancesOf(DurableRuns);
    if (durable) return durable;
    throw new InvalidRequestError(
      'invalid_request',
      'A durable run needs storage: import DurableModule of @toolloop/durable.',
    );
  }

  /**
   * Resumes a run that is not durable, with the options of its own loop unless others are given.
   *
   * @throws {InvalidRequestError} `unknown_run` for a run that does not wait, or not for this
   *   actor.
   * @throws {ServiceUnavailableException} Once the application shuts down.
   */
  async resume<Output, Actor>(
    runId: string,
    request: ResumeRequest<Output, Actor>,
    given?: LoopProfile,
  ): Promise<RunHandle<Output>> {
    this.openRuns.assertOpen();
    const resumed = await this.suspended.find(runId, request);
    const { loop } = resumed;
    const plan = this.preparation.prepare(request, given ?? this.profileOf(loop), resumed);
    return new LoopRun<Output>({ ...plan, loop }, this.services, resumed);
  }

  /** Ends a run that is not durable, where it waits. */
  cancelSuspended(run: RunRecord): Promise<void> {
    return this.suspended.cancel(run);
  }

  /**
   * @throws {InvalidRequestError} `forbidden` for a tenant that the `TenantDirectory` does not
   *   know.
   */
  async assertTenant(tenant: string): Promise<void> {
    if ((await this.subRuns.services.tenants?.exists(tenant)) === false)
      throw new InvalidRequestError('forbidden', UNKNOWN_TENANT);
  }

  /** The tools such a run would start with. */
  async list<Actor>(
    request: ListingRequest<Actor>,
    profile: LoopProfile,
  ): Promise<readonly ToolSpec[]> {
    const { specs } = await this.preparation.listed(request, profile);
    await this.assertTenant(request.tenant);
    return specs;
  }
}

/**
 * A run that has been aborted ends at once, but for what it keeps; a store that hangs must not keep
 * the application from ending.
 */
const LONGEST_END_MS = 10_000;
const FLUSH_MS = 100;
const REASON = 'The application is shutting down.';

/**
 * Waits until what was said last has left the process: Nest closes the connections next, whether
 * their streams have ended or not.
 */
export function flushBeforeClose(): Promise<void> {
  return wait(FLUSH_MS);
}

/** The part of a run that is needed to end it. */
type Cancelled = Pick<RunHandle, 'cancel'>;
