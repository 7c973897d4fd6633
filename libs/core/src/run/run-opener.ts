import {
  type BeforeApplicationShutdown,
  Injectable,
  type OnModuleDestroy,
  Optional,
} from '@nestjs/common';
import { InvalidRequestError, LoopEventSink, type ToolSpec } from '@toolloop/protocol';
import { BoundedStores } from '../call/bounded-stores.js';
import { UNKNOWN_TENANT } from '../call/resolve-tool.js';
import { DurableRuns, type NamedProfile } from '../contracts/durable-runs.js';
import { ActorDirectory } from '../contracts/actor-directory.js';
import type {
  LoopProfile,
  LoopRequest,
  ResumeRequest,
  RunHandle,
} from '../contracts/loop-request.js';
import type { RunEntry, RunJournal, RunRecord } from '../contracts/run-log.js';
import { ToolLoop } from '../loop/tool-loop.js';
import { AuditTrail } from '../plugins/audit/audit-trail.js';
import { Plugins } from '../plugin/plugins.js';
import { ConversationCuts } from '../plugins/conversations/conversation-cuts.js';
import { SubRunOpener } from '../plugins/sub-runs/sub-run-opener.js';
import { SubRunPreparation } from '../plugins/sub-runs/sub-run-preparation.js';
import { ToolExplorer } from '../tools/discovery/tool-explorer.js';
import { ToolFeature } from '../tools/discovery/tool-feature.js';
import { LoopRun, type RunParts } from './loop-run.js';
import { OpenRuns } from './open-runs.js';
import { fromRunEntries } from './run-entries.js';
import type { RunPlan } from './run-plan.js';
import { type ListingRequest, RunPreparation } from './run-preparation.js';
import { unreadable } from './saved-run-reader.js';
import type { SavedRun } from './saved-run.js';
import { SuspendedRuns } from './suspended-runs.js';

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
    private readonly plugins: Plugins,
    @Optional() trail?: AuditTrail,
  ) {
    this.subRuns = new SubRunOpener(
      subRuns,
      loop,
      stores,
      plugins,
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
    if (saved) this.assertReadable(runId, saved);
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

  /** @throws {InvalidRequestError} `unreadable_run` if a plugin cannot read what it kept. */
  private assertReadable(runId: string, { slots = {} }: SavedRun): void {
    const problem = this.plugins.problemWith(slots);
    if (problem !== undefined) throw unreadable(runId, problem);
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
    this.assertReadable(runId, resumed.saved);
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
