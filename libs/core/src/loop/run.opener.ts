import { Injectable } from '@nestjs/common';
import { ToolFeature } from '../discovery/tool-feature.js';
import { ToolExplorer } from '../discovery/tool.explorer.js';
import { ActorDirectory } from '../protocol/actor-directory.js';
import { DurableRuns, type NamedProfile } from '../protocol/durable-runs.js';
import { InvalidRequestError } from '../protocol/errors.js';
import type { LoopProfile } from '../protocol/loop-profile.js';
import type { LoopRequest, ResumeRequest } from '../protocol/loop-request.js';
import type { RunEntry, RunJournal } from '../protocol/run-journal.js';
import type { RunHandle } from '../protocol/run-handle.js';
import type { ToolSpec } from '../protocol/tool.js';
import { fromRunEntries } from './from-run-entries.js';
import { LoopRun } from './loop.run.js';
import { RunPreparation, type ListingRequest } from './run.preparation.js';
import { RunServices } from './run.services.js';
import type { RunOwner } from './suspended.runs.js';

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
  askNobody(run: Pick<RunOwner, 'runId' | 'tenant'>): Promise<void> {
    return this.services.suspended.askNobody(run);
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
