import { AsyncLocalStorage } from 'node:async_hooks';
import { Injectable, type OnModuleDestroy } from '@nestjs/common';
import { type ApprovalDecision, type FinishReason, InvalidRequestError, type LoopEvent } from '@toolloop/protocol';
import { Observable, ReplaySubject, type Subscriber, takeUntil } from 'rxjs';
import type { PendingView } from '../contracts/pending.js';
import type { LoopRequest, ResumeRequest } from '../contracts/loop-request.js';
import type { RunLog, RunQuery, RunRecord, RunStatus } from '../contracts/stores.js';
import type { RegisteredActor } from '../contracts/tool-call.js';
import { BoundedStores } from '../execution/bounded-stores.js';
import { isWhole } from '../findings/options.js';
import { flushBeforeClose, RunOpener } from '../loop/run-opener.js';
import { PendingError, PendingService, type Respondent } from '../pending/pending.service.js';
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
  private readonly found = new SharedReads<RunRecord | undefined>();
  private readonly pages = new SharedReads<readonly LoopEvent[]>();
  private readonly closed = new ReplaySubject<void>(1);

  constructor(
    private readonly opener: RunOpener,
    { runs }: BoundedStores,
    private readonly identity: ActorIdentity,
    private readonly pending: PendingService<Actor>,
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
    return new Observable<LoopEvent>((subscriber) => {
      const watching = new WatchedRun(this.log, this.pages, () => this.findDurable(runId, reader), subscriber);
      void watching.follow(after);
      return () => watching.stop();
    }).pipe(takeUntil(this.closed));
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
   * Answers what this run asked, as one of the people who may; the actor of the run need not be. A durable run continues by itself then, any other is resumed by its actor.
   *
   * @throws {PendingError} As `PendingService.decide` does; `not_found` also for what another run asked.
   *
   * @example
   * await runs.answer(runId, { approvalId, decision: 'approve' }, { actor: user, tenant: user.tenantId });
   */
  async answer(runId: string, answer: ApprovalDecision, person: Respondent<Actor>): Promise<PendingView> {
    const { request } = await this.pending.get(answer.approvalId, person);
    if (request.runId !== runId) throw new PendingError('not_found', 'This run asked nothing of the kind.');
    return this.pending.decide(answer, person);
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
    const run = typeof runId === 'string' ? await this.found.of(runId, () => this.log.find(runId)) : undefined;
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

const MOST_READS = 3;

/**
 * The reads of one kind by all who look at runs in this process: a few at a time, so that thousands of readers who come at once do not stand in the way of the runs themselves.
 * A caller that asks for the same before a read has begun gets its answer.
 */
class SharedReads<Result> {
  private readonly next = new Map<string, Promise<Result>>();
  private readonly starts: (() => void)[] = [];
  private underWay = 0;
  /** A read is no part of the request, run or transaction of the one who asked for it first. */
  private readonly detached = AsyncLocalStorage.snapshot();

  of(key: string, read: () => Promise<Result>): Promise<Result> {
    const shared = this.next.get(key);
    if (shared) return shared;
    const mine = this.detached(() => this.inTurn(key, read));
    this.next.set(key, mine);
    return mine;
  }

  private async inTurn(key: string, read: () => Promise<Result>): Promise<Result> {
    await new Promise<void>((start) => {
      this.starts.push(start);
      queueMicrotask(() => this.startNext());
    });
    this.next.delete(key);
    try {
      return await read();
    } finally {
      this.underWay -= 1;
      this.startNext();
    }
  }

  private startNext(): void {
    const start = this.underWay < MOST_READS ? this.starts.shift() : undefined;
    if (!start) return;
    this.underWay += 1;
    start();
  }
}

const PAGE = 200;

/** The state of a reader after a read: it has all events of a run that has ended, has read some, or has all there are. */
type Progress = 'ended' | 'some' | 'none';

/** The events that a run has, and then those that come, until it has ended. */
class WatchedRun {
  private wake: () => void = () => undefined;
  private hasChanged = false;
  private after = 0;

  constructor(
    private readonly log: RunLog,
    private readonly pages: SharedReads<readonly LoopEvent[]>,
    private readonly find: () => Promise<RunRecord>,
    private readonly subscriber: Subscriber<LoopEvent>,
  ) {}

  async follow(after: number): Promise<void> {
    this.after = after;
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

  /** Its last event tells that a run has ended; its status tells it to a reader that had read that event before. */
  private async hasEnded(runId: string): Promise<boolean> {
    this.hasChanged = false;
    const progress = await this.catchUp(runId);
    if (progress === 'ended') return true;
    const isOver = progress === 'none' && (await this.find()).status === 'ended';
    if (isOver) return (await this.catchUp(runId)) !== 'some'; // it may have ended after the first look
    if (!this.subscriber.closed) await this.change();
    return false;
  }

  private async catchUp(runId: string): Promise<Progress> {
    for (let progress: Progress = 'none'; ; progress = 'some') {
      const page = { after: this.after, limit: PAGE };
      const events = await this.pages.of(JSON.stringify([runId, page.after]), () => this.log.events(runId, page));
      for (const event of events) {
        this.subscriber.next(event);
        this.after = event.sequence;
      }
      const last = events.at(-1);
      if (last?.type === 'run-end' && last.finishReason !== 'waiting') return 'ended';
      if (events.length < PAGE || this.subscriber.closed) return last ? 'some' : progress;
    }
  }

  private changed(): void {
    this.hasChanged = true;
    this.wake();
  }

  private change(): Promise<void> {
    return this.hasChanged ? Promise.resolve() : new Promise((resolve) => (this.wake = resolve));
  }
}
