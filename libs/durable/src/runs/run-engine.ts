import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { type BeforeApplicationShutdown, Inject, Injectable, Optional } from '@nestjs/common';
import {
  ConfigurationError,
  InvalidRequestError,
  type LoopEvent,
  type LoopRequest,
  type RunHandle,
} from '@toolloop/core';
import {
  ActorIdentity,
  BoundedStores,
  type ContinuedRun,
  DurableRuns,
  Logger,
  longerThanStores,
  type NamedProfile,
  Plugins,
  renewContinued,
  RunOpener,
} from '@toolloop/core/internal';
import { AuditTrail } from '@toolloop/core/audit';
import { flushBeforeClose } from '@toolloop/core/loop';
import { type RunFailure, StorageUnavailableError } from '@toolloop/protocol';
import type {
  LeasedRun,
  LeaseRequest,
  NewRun,
  RunBeginning,
  RunHold,
  RunLog,
  RunRecord,
} from '@toolloop/core/stores';
import { type RunOptions, runOptionsOf } from '../durable-options.js';
import { collectingMs, DurableJournal, type JournalTerms } from './durable-journal.js';
import { addOnce, fork, queuedFor, rehearse, runIdFor } from './queued-run.js';
import { fromDurableRequest, toDurableRequest, withTrace } from './durable-request.js';

/** Injects the `RunOptions`. */
export const RUN_OPTIONS = Symbol('toolloop:run-options');

/**
 * Continues durable runs: those that are opened here, those that are queued, and those whose
 * process is gone.
 */
@Injectable()
export class RunEngine extends DurableRuns implements BeforeApplicationShutdown {
  private readonly logger = new Logger(RunEngine.name);
  private readonly log: RunLog;
  private readonly options: Required<RunOptions>;
  private readonly current = new Map<string, OpenRun>();
  private readonly terms: JournalTerms;
  /** Everything that must have ended before the storage closes. */
  private readonly underWay = new Set<Promise<unknown>>();
  private stopWork: (() => Promise<void>) | undefined;
  private timer: NodeJS.Timeout | undefined;
  private isLeaving = false;
  private hasLeft = false;

  constructor(
    stores: BoundedStores,
    private readonly runs: RunOpener,
    private readonly identity: ActorIdentity,
    private readonly plugins: Plugins,
    @Inject(RUN_OPTIONS) options: RunOptions,
    @Optional() private readonly trail?: AuditTrail,
  ) {
    super();
    this.log = stores.runs;
    this.terms = { collectingMs: () => collectingMs(this.current.size), calls: stores.callsOfRuns };
    this.options = runOptionsOf(options);
  }

  override async begin(): Promise<void> {
    if (!this.runs.hasDirectory) this.missDirectory();
    await this.log.open();
    const { concurrency, heartbeatMs } = this.options;
    if (concurrency > 0)
      this.stopWork = await this.log.work(
        (runId) => this.awaited(this.advance(runId)),
        concurrency,
      );
    this.timer = setInterval(() => void this.beat(), heartbeatMs);
    this.timer.unref();
    await this.beat();
  }

  /**
   * A step in flight ends, or is broken off after a while; the runs are given to other processes.
   * Their leases are renewed until then.
   */
  async beforeApplicationShutdown(): Promise<void> {
    this.isLeaving = true;
    await this.stopWork?.();
    for (const { journal } of this.current.values()) journal.leaveAfterStep();
    const hadWork = this.underWay.size > 0;
    const drained = this.drained();
    await Promise.race([drained, wait(this.options.drainMs, undefined, { ref: false })]);
    for (const run of this.current.values()) run.lose('The process is shutting down.');
    await Promise.race([drained, wait(LONGEST_RELEASE_MS, undefined, { ref: false })]);
    this.hasLeft = true;
    clearInterval(this.timer);
    if (hadWork) await flushBeforeClose();
  }

  /** Resolves once nothing is under way, what was begun meanwhile included. */
  private async drained(): Promise<void> {
    while (this.underWay.size > 0) await Promise.allSettled(this.underWay);
  }

  private awaited<Result>(work: Promise<Result>): Promise<Result> {
    const noted: Promise<void> = work.then(
      () => void this.underWay.delete(noted),
      () => void this.underWay.delete(noted),
    );
    this.underWay.add(noted);
    return work;
  }

  override open<Output, Actor>(
    request: LoopRequest<Output, Actor>,
    { name }: NamedProfile,
  ): RunHandle<Output> {
    // each call of open is a run of its own
    const run = { ...this.newRun(request, name), runId: randomUUID() };
    const { runId } = run;
    const begin = async (beginning: RunBeginning): Promise<RunHold> => {
      const hold = {
        runId,
        ...(await this.log.begin({ ...run, ...beginning }, this.leaseRequest())),
      };
      this.track(new OpenRun(journal, handle, hold));
      return hold;
    };
    const unlessLeft = (beginning: RunBeginning): Promise<RunHold> =>
      this.hasLeft ? Promise.reject(leaving()) : this.awaited(begin(beginning));
    const journal = new DurableJournal(this.log, unlessLeft, this.terms);
    const handle = this.runs.openDurable(request, { runId, loop: name, journal });
    return handle;
  }

  override async start<Output, Actor>(
    request: LoopRequest<Output, Actor>,
    name?: string,
  ): Promise<string> {
    const run = withTrace(this.newRun(request, name), this.plugins.traceContext());
    const nowhere = new DurableJournal(this.log, () =>
      Promise.reject(new Error('The run was not started here.')),
    );
    // throws for what cannot be run
    this.runs.openDurable(request, { runId: run.runId, loop: name, journal: nowhere });
    await this.assertKnown(run);
    return addOnce(this.log, run);
  }

  override fork(run: RunRecord, step: number, requestId?: string): Promise<string> {
    return fork(this.log, run, step, requestId);
  }

  override rehearse(run: RunRecord, model: string): Promise<string> {
    return rehearse(this.log, run, model);
  }

  /**
   * A directory that cannot be reached keeps no run from being started: by the time it is gone on
   * with, it may be.
   */
  private async assertKnown({ actorId, tenant }: NewRun): Promise<void> {
    await this.runs.actorOf(actorId, tenant).catch((error: unknown) => {
      if (error instanceof InvalidRequestError) throw error;
      this.logger.warn('A run is started for an actor who could not be looked up.', error);
    });
  }

  /**
   * The application may store approvals and conversations alone, so its start is refused only where
   * runs are sure to be.
   */
  private missDirectory(): void {
    const remedy =
      'Provide a class that extends ActorDirectory, in any module: other processes load the actor of a run from it.';
    const findings = this.runs.durableLoops.map((name) => ({
      at: `forFeature loops.${name}`,
      problem: 'Its runs are durable, but nothing loads their actors.',
      remedy,
    }));
    if (findings.length > 0) throw new ConfigurationError(findings);
    this.logger.warn(`There is no ActorDirectory, so every durable run is refused. ${remedy}`);
  }

  private newRun<Output, Actor>(
    request: LoopRequest<Output, Actor>,
    loop: string | undefined,
  ): NewRun {
    const actorId = this.identity.idOf(request.actor);
    void this.runs.directory; // throws: without one no process could continue it
    if (actorId === undefined)
      throw new InvalidRequestError(
        'invalid_request',
        'A durable run continues for its actor, and this actor has no id. Give one: ToolLoopModule.forRoot({ actorId: (actor) => … }).',
      );
    return {
      runId: runIdFor(request.requestId, request.tenant, actorId, loop ?? null),
      tenant: request.tenant,
      actorId,
      ...(loop !== undefined && { loop }),
      request: toDurableRequest(request),
    };
  }

  /** Rejects where the run is still to be continued: then it is handed out again. */
  private async advance(runId: string): Promise<void> {
    if (this.isLeaving) throw leaving();
    const run = await this.log.acquire(runId, this.leaseRequest());
    if (run) await this.resume(run);
  }

  private leaseRequest(): LeaseRequest {
    return { owner: randomUUID(), forMs: this.options.takeoverMs };
  }

  private async resume(run: LeasedRun): Promise<void> {
    const { runId, tenant, loop, request, cancelled, lastSequence, lease } = run;
    const hold = { runId, ...lease };
    if (!request) return this.log.release(hold); // only its actor resumes it
    const entries = await this.log.read(runId);
    const journal = new DurableJournal(this.log, hold, {
      ...this.terms,
      closingMs: CLOSING_MS,
      earlier: entries,
    });
    const queued = entries.length === 0 ? queuedFor(run) : undefined;
    let actor: unknown;
    let handle: RunHandle;
    try {
      actor = await this.runs.actorOf(run.actorId, tenant);
    } catch (error) {
      if (error instanceof InvalidRequestError) return this.endUnrunnable(run, error);
      // such as a directory that cannot be reached: the lease is not renewed, so the run is taken
      // over after a while
      throw error;
    }
    try {
      handle = this.runs.openDurable(fromDurableRequest(request, { actor, tenant }), {
        runId,
        loop,
        journal,
        entries,
        lastSequence,
        queued,
      });
    } catch (error) {
      // any process that took it over would meet with the same
      return this.endUnrunnable(run, error);
    }
    if (this.isLeaving) return this.log.release(hold);
    if (cancelled !== undefined) handle.cancel(cancelled);
    this.track(new OpenRun(journal, handle, hold, run.putOffs));
    await handle.result.catch(() => undefined);
  }

  /** Ends a run that this application can never continue; the reason is for the log. */
  private async endUnrunnable(run: LeasedRun, error: unknown): Promise<void> {
    const { runId, lease, lastSequence } = run;
    const correlationId = randomUUID();
    this.logger.error(`The run ${runId} cannot continue (reference ${correlationId}).`, error);
    const message = error instanceof InvalidRequestError ? error.message : UNRUNNABLE;
    const end = endOf(runId, lastSequence + 1, { code: 'cannot_continue', message, correlationId });
    await this.log.append(
      { runId, ...lease },
      { entries: [], events: [end], ending: { status: 'ended', finishReason: 'error' } },
    );
    await this.runs.withdrawPending(run);
  }

  private track(run: OpenRun): void {
    const { runId } = run.hold;
    const before = this.current.get(runId);
    before?.lose('The run was taken over.');
    this.current.set(runId, run);
    const ended = run.handle.result
      .catch(() => undefined)
      .then(() => run.journal.settled())
      .then((hold) => (run.journal.isKept || !hold ? undefined : this.giveBack(hold, run)))
      .catch((error: unknown) =>
        this.logger.error(
          `The run ${runId} could not be handed over; it is taken over after a while.`,
          error,
        ),
      )
      .finally(() => {
        if (this.current.get(runId) === run) this.current.delete(runId);
      });
    void this.awaited(ended);
    if (this.isLeaving) run.journal.leaveAfterStep();
  }

  /**
   * Gives a run to any process with room; with a reason it was cancelled here, and is to be ended
   * by the process that has it, or gets it.
   */
  private async giveBack(hold: RunHold, { journal, putOffs }: OpenRun): Promise<void> {
    const { cancelled, isPutOff, hasProgressed, failure } = journal;
    if (cancelled !== undefined) await this.tellCancelled(hold, cancelled);
    if (!isPutOff) return this.log.release(hold);
    const times = hasProgressed ? 1 : putOffs + 1;
    if (times >= MOST_PUT_OFFS) return this.park(hold, failure);
    const pause = Math.min(this.options.pauseMs * 2 ** (times - 1), LONGEST_PAUSE_MS);
    this.logger.warn(`The run ${hold.runId} is put off for ${pause} ms: a store failed.`, failure);
    await this.log.release(hold, { times, until: new Date(Date.now() + pause) });
  }

  /**
   * Has a run wait until it is resumed. Its log stays as it is, so that it continues where it
   * was.
   */
  private async park(hold: RunHold, failure: unknown): Promise<void> {
    const { runId } = hold;
    const run = await this.log.find(runId);
    if (!run) return;
    const correlationId = randomUUID();
    this.logger.error(
      `The run ${runId} was put off ${MOST_PUT_OFFS} times in a row and waits to be resumed (reference ${correlationId}).`,
      failure,
    );
    const end = endOf(runId, run.lastSequence + 1, {
      code: 'storage_unavailable',
      message: PARKED,
      correlationId,
    });
    await this.log.append(hold, {
      entries: [],
      events: [end],
      ending: { status: 'waiting', finishReason: 'error' },
    });
  }

  /** Tells the log for as long as it takes: no other process knows that the run was cancelled. */
  private async tellCancelled({ runId }: RunHold, reason: string): Promise<void> {
    for (;;) {
      try {
        return await this.log.cancel(runId, reason);
      } catch (error) {
        if (this.hasLeft || !StorageUnavailableError.in(error)?.mayPass) throw error;
        await wait(AGAIN_MS, undefined, { ref: false });
      }
    }
  }

  /**
   * Renews the leases of the runs of this process, and has those taken over whose lease has
   * expired. What processes that are gone owe the audit is appended meanwhile.
   */
  private async beat(): Promise<void> {
    void this.trail?.settle();
    try {
      await renewContinued(this.log, [...this.current.values()], this.options.takeoverMs);
      await this.log.requeueExpired();
    } catch (error) {
      this.logger.warn('The heartbeat of the durable runs of this process failed.', error);
    }
  }
}

/** The cause is for the log alone. */
const UNRUNNABLE =
  'This application cannot continue the run. Its log says why; fix that, and start the run again.';

/**
 * The milliseconds that runs have to be released once they were broken off, behind a write that is
 * under way.
 */
const LONGEST_RELEASE_MS = longerThanStores(2);
/**
 * The milliseconds for which an interrupted run that is read nowhere in this process waits for its
 * store: one that gave up sooner would be put off again and again while the store is busy.
 */
const CLOSING_MS = longerThanStores(1);
const AGAIN_MS = 500;
/**
 * The times in a row that a run is put off since a store failed, before it waits to be resumed: an
 * error that does not pass would have it handed over for ever.
 */
const MOST_PUT_OFFS = 10;
const LONGEST_PAUSE_MS = 300_000;
const PARKED =
  'The storage has failed again and again, so the run waits. Nothing was lost: once the storage is mended, resume the run.';

function endOf(runId: string, sequence: number, error: RunFailure): LoopEvent {
  const usage = { inputTokens: 0, outputTokens: 0 };
  const stamp = { runId, sequence, timestamp: new Date().toISOString() };
  return { type: 'run-end', ...stamp, finishReason: 'error', text: '', steps: 0, usage, error };
}

function leaving(): Error {
  return new Error('The process is shutting down.');
}

/** A durable run that continues in this process. */
class OpenRun implements ContinuedRun {
  constructor(
    readonly journal: DurableJournal,
    readonly handle: RunHandle,
    readonly hold: RunHold,
    /** The times in a row that it was put off before. */
    readonly putOffs = 0,
  ) {}

  get isEnding(): boolean {
    return this.journal.isEnding;
  }

  cancel(reason: string): void {
    this.handle.cancel(reason);
  }

  /** Breaks the run off here, without a word: its end is told elsewhere. */
  lose(reason = 'Another process has taken over the run.'): void {
    this.journal.lose();
    this.handle.cancel(reason);
  }
}
