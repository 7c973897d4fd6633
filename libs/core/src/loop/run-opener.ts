import { setTimeout as wait } from 'node:timers/promises';
import { type BeforeApplicationShutdown, Injectable, Logger } from '@nestjs/common';
import { InvalidRequestError, LoopEventSink, type ToolSpec } from '@toolloop/protocol';
import type { LoopProfile, LoopRequest, ResumeRequest, RunHandle } from '../contracts/loop-request.js';
import { type ConversationStore, DurableRuns, type NamedProfile, type RunEntry, type RunJournal } from '../contracts/stores.js';
import { ActorDirectory } from '../contracts/tool-call.js';
import { ToolExplorer } from '../discovery/tool-explorer.js';
import { ToolFeature } from '../discovery/tool-feature.js';
import { withinTime } from '../execution/call-failure.js';
import { LoopRun } from './loop-run.js';
import { fromRunEntries } from './run-log.js';
import { type ListingRequest, RunPreparation } from './run-preparation.js';
import { SubRunOpener } from './sub-run.js';
import { type RunOwner, SuspendedRuns } from './suspended-runs.js';
import type { ToolLoop } from './tool-loop.js';

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
    await farewell();
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

  get loop(): ToolLoop {
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

/** What one run uses of it. A sub-run is told and kept by the run around it. */
export type RunParts = Pick<RunServices, 'loop' | 'conversations' | 'sinks' | 'subRuns'> & {
  readonly suspended: Pick<SuspendedRuns, 'keep' | 'claim' | 'remember' | 'askNobody'>;
  readonly open: Pick<OpenRuns, 'add'>;
};

/** A run that has been aborted ends at once, but for what it keeps; a store that hangs must not keep the application from ending. */
const LONGEST_END_MS = 10_000;
const FAREWELL_MS = 100;
const REASON = 'The application is shutting down.';

/** Waits until what was said last has left the process: Nest closes the connections next, whether their streams have ended or not. */
export function farewell(): Promise<void> {
  return wait(FAREWELL_MS);
}

/** What of a run is needed to end it. */
type Cancelled = Pick<RunHandle, 'cancel'>;
