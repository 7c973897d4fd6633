import { Injectable, type OnModuleDestroy } from '@nestjs/common';
import { type FinishReason, InvalidRequestError, type LoopEvent } from '@toolloop/protocol';
import { Observable, ReplaySubject, type Subscriber, takeUntil } from 'rxjs';
import type { LoopRequest, ResumeRequest } from '../contracts/loop-request.js';
import type { RunLog, RunQuery, RunRecord, RunStatus } from '../contracts/stores.js';
import type { RegisteredActor } from '../contracts/tool-call.js';
import { BoundedStores } from '../execution/bounded-stores.js';
import { isWhole } from '../findings/options.js';
import { flushBeforeClose, RunOpener } from '../loop/run-opener.js';
import { ActorIdentity } from '../policy/actor-identity.js';

/** The actor who asks, as the application identified them; never what a client says. A run is its actor's alone. */
export interface RunReader<Actor = RegisteredActor> {
  readonly actor: Actor;
  readonly tenant: string;
}

/** A run, as its actor may see it. */
export interface RunView {
  readonly runId: string;
  readonly status: RunStatus;
  /** Set where any process continues it. A run that is not durable is resumed by its actor, and none of its events are kept. */
  readonly durable: boolean;
  /** Absent for a run that has not ended and does not wait. */
  readonly finishReason?: FinishReason;
  /** The sequence of its last event that was kept; 0 for none. */
  readonly lastSequence: number;
  readonly forkOf?: RunRecord['forkOf'];
  /** ISO 8601, UTC. */
  readonly createdAt: string;
  /** ISO 8601, UTC. */
  readonly updatedAt: string;
}

/** A selection of an actor's runs. */
export type RunFilter = Pick<RunQuery, 'status' | 'limit' | 'after'>;

/** Runs by their ids, whichever process they are in, or if they are in none. Durable runs and suspended ones are listed, read, resumed and cancelled alike. */
@Injectable()
export class RunService<Actor = RegisteredActor> implements OnModuleDestroy {
  private readonly log: RunLog;
  private readonly closed = new ReplaySubject<void>(1);

  constructor(
    private readonly opener: RunOpener,
    { runs }: BoundedStores,
    private readonly identity: ActorIdentity,
  ) {
    this.log = runs;
  }

  /**
   * Adds a durable run for any process with room, and resolves to its id. `loop` is the name of its loop. With a `requestId` the actor's same request is the same run,
   * however often and in how many processes at once it is started.
   *
   * @throws {InvalidRequestError} For what `ToolLoopService.open` would refuse, and for a request id that was used for another question.
   *
   * @example
   * const runId = await runs.start({ prompt: 'Refund o-1021.', actor: user, tenant: user.tenantId, requestId: key });
   */
  async start(request: LoopRequest<unknown, Actor>, loop?: string): Promise<string> {
    return this.opener.durable.start(request, loop);
  }

  /** Completes what is read of events while the readers can still be told: they connect to another process and miss nothing. */
  async onModuleDestroy(): Promise<void> {
    const isRead = this.closed.observed;
    this.closed.next();
    this.closed.complete();
    if (isRead) await flushBeforeClose();
  }

  /**
   * The run as it is now.
   *
   * @throws {InvalidRequestError} `unknown_run`, also for the run of another actor.
   *
   * @example
   * const { status } = await runs.get(runId, { actor: user, tenant: user.tenantId });
   */
  async get(runId: string, reader: RunReader<Actor>): Promise<RunView> {
    return viewOf(await this.find(runId, reader));
  }

  /**
   * The newest first, 100 unless `limit` says otherwise, and never more than 1,000.
   *
   * @throws {InvalidRequestError} For a filter that cannot be.
   *
   * @example
   * const waiting = await runs.list({ actor: user, tenant: user.tenantId }, { status: 'waiting' });
   */
  async list(reader: RunReader<Actor>, filter: RunFilter = {}): Promise<readonly RunView[]> {
    assertFilter(filter);
    const runs = await this.log.list({ ...filter, tenant: reader.tenant, actorId: this.actorIdOf(reader) });
    return runs.map(viewOf);
  }

  /**
   * The events of a run behind this sequence: those there are, and then those that come, whichever process they come from. Completes after the `run-end` of a run
   * that has ended, and without one when this process shuts down. A `step-start` of a step that was begun before replaces what was shown of that step.
   *
   * @throws {InvalidRequestError} For an `after` that is no sequence. For the run of another actor, and for one that is not durable, the Observable errors.
   *
   * @example
   * return runs.events(runId, { actor: user, tenant: user.tenantId }, lastEventId).pipe(toSse());
   */
  events(runId: string, reader: RunReader<Actor>, after = 0): Observable<LoopEvent> {
    if (!isWhole(after, 0)) throw invalid('`after` is not the sequence of an event, which is a whole number, 0 for none.');
    return watched(this.log, () => this.findDurable(runId, reader), after).pipe(takeUntil(this.closed));
  }

  /**
   * Continues a run that waits, and resolves to its events: those that follow, or all of them for a durable run, which has kept them. A durable run continues by itself
   * as soon as a decision is made, so this only has it looked at again. Any other run starts when its events are read, and the request gives again what is no JSON.
   *
   * @throws {InvalidRequestError} `unknown_run` for the run of another actor, and for one that is not durable and has ended.
   *
   * @example
   * const events$ = await runs.resume(runId, { actor: user, tenant: user.tenantId });
   */
  async resume(runId: string, request: ResumeRequest<unknown, Actor>): Promise<Observable<LoopEvent>> {
    const run = await this.find(runId, request);
    if (!run.request) return (await this.opener.resume(runId, request)).events$;
    if (run.status === 'waiting') await this.log.wake(runId);
    return this.events(runId, request);
  }

  /**
   * Ends a run as `aborted`. Does nothing where it has ended.
   *
   * @throws {InvalidRequestError} `unknown_run`, also for the run of another actor.
   *
   * @example
   * await runs.cancel(runId, { actor: user, tenant: user.tenantId }, 'The customer called.');
   */
  async cancel(runId: string, reader: RunReader<Actor>, reason = 'The run was cancelled.'): Promise<void> {
    const run = await this.find(runId, reader);
    if (typeof reason !== 'string') throw invalid('The reason is not a string.');
    await this.log.cancel(runId, reason);
    if (!run.request) await this.opener.cancelSuspended(run);
  }

  /**
   * Adds a run that begins where this one stood after that step, and resolves to its id. What the steps before did is not done again. With the same `requestId` it is the
   * same run.
   *
   * @throws {InvalidRequestError} For a step that is not complete, or was not followed by another, and for a run that is not durable.
   *
   * @example
   * const forked = await runs.fork(runId, 2, { actor: user, tenant: user.tenantId });
   */
  async fork(runId: string, step: number, reader: RunReader<Actor>, requestId?: string): Promise<string> {
    return this.opener.durable.fork(await this.findDurable(runId, reader), step, requestId);
  }

  private async findDurable(runId: string, reader: RunReader<Actor>): Promise<RunRecord> {
    const run = await this.find(runId, reader);
    if (run.request) return run;
    throw invalid(
      `The run ${runId} is not durable: its events are not kept, and it cannot be forked. Resume it to read the events that follow.`,
    );
  }

  private async find(runId: string, reader: RunReader<Actor>): Promise<RunRecord> {
    const run = typeof runId === 'string' ? await this.log.find(runId) : undefined;
    if (run && run.tenant === reader.tenant && run.actorId === this.actorIdOf(reader)) return run;
    const shown = typeof runId === 'string' ? ` ${JSON.stringify(runId.slice(0, 64))}` : '';
    throw new InvalidRequestError('unknown_run', `No run${shown} is yours.`);
  }

  private actorIdOf({ actor }: RunReader<Actor>): string {
    const actorId = this.identity.idOf(actor);
    if (actorId !== undefined) return actorId;
    throw new InvalidRequestError('unknown_run', 'Runs belong to actors, and this actor has no id.');
  }
}

const STATUSES: Readonly<Record<RunStatus, true>> = { queued: true, running: true, waiting: true, ended: true };
const MOST_LISTED = 1_000;

function assertFilter({ status, limit, after }: RunFilter): void {
  if (limit !== undefined && !isWhole(limit, 1, MOST_LISTED)) throw invalid(`The limit is not a whole number from 1 to ${MOST_LISTED}.`);
  if (status !== undefined && !Object.hasOwn(STATUSES, status))
    throw invalid(`There is no such status; there are ${Object.keys(STATUSES).join(', ')}.`);
  if (after !== undefined && typeof after !== 'string') throw invalid('`after` is not the id of a run.');
}

function invalid(message: string): InvalidRequestError {
  return new InvalidRequestError('invalid_request', message);
}

function viewOf({ runId, status, request, finishReason, lastSequence, forkOf, createdAt, updatedAt }: RunRecord): RunView {
  const durable = request !== undefined;
  return { runId, status, durable, ...(finishReason && { finishReason }), lastSequence, ...(forkOf && { forkOf }), createdAt, updatedAt };
}

const PAGE = 200;
/** A word that something changed may be lost with a connection. */
const LONGEST_SILENCE_MS = 2_000;

/** The events that a run has, and then those that come, until it has ended. */
function watched(log: RunLog, find: () => Promise<RunRecord>, after: number): Observable<LoopEvent> {
  return new Observable((subscriber) => {
    const watching = new WatchedRun(log, find, subscriber, after);
    void watching.follow();
    return () => watching.stop();
  });
}

class WatchedRun {
  private wake: () => void = () => undefined;
  private hasChanged = false;

  constructor(
    private readonly log: RunLog,
    private readonly find: () => Promise<RunRecord>,
    private readonly subscriber: Subscriber<LoopEvent>,
    private after: number,
  ) {}

  async follow(): Promise<void> {
    let end: (() => Promise<void>) | undefined;
    try {
      const { runId } = await this.find();
      end = await this.log.watch(runId, () => this.changed());
      while (!this.subscriber.closed) if (await this.hasEnded(runId)) return this.subscriber.complete();
    } catch (error) {
      this.subscriber.error(error);
    } finally {
      await end?.().catch(() => undefined);
    }
  }

  stop(): void {
    this.changed();
  }

  /** The status is read before the events, so that none of an ended run is missed. */
  private async hasEnded(runId: string): Promise<boolean> {
    this.hasChanged = false;
    const { status, lastSequence } = await this.find();
    await this.catchUp(runId);
    const isOver = status === 'ended' && this.after >= lastSequence;
    if (!isOver && !this.subscriber.closed) await this.change();
    return isOver;
  }

  private async catchUp(runId: string): Promise<void> {
    for (;;) {
      const events = await this.log.events(runId, { after: this.after, limit: PAGE });
      for (const event of events) {
        this.subscriber.next(event);
        this.after = event.sequence;
      }
      if (events.length < PAGE || this.subscriber.closed) return;
    }
  }

  private changed(): void {
    this.hasChanged = true;
    this.wake();
  }

  private change(): Promise<void> {
    if (this.hasChanged) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, LONGEST_SILENCE_MS);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
