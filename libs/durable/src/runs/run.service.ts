import { Injectable } from '@nestjs/common';
import { type FinishReason, InvalidRequestError, type LoopEvent, type LoopRequest, type RegisteredActor } from '@toolloop/core';
import { ActorIdentity, type RunEntry } from '@toolloop/core/internal';
import { Observable, type Subscriber } from 'rxjs';
import { isWhole } from '../durable-options.js';
import { BoundedRunStore } from './bounded-run.store.js';
import { RunEngine } from './run-engine.js';
import { addOnce, runIdFor, type RunQuery, type RunRecord, type RunStatus, RunStore } from './run-store.js';

/** Who asks: whom the application identified, never what a client says. A run is its actor's, and nobody else's. */
export interface RunReader<Actor = RegisteredActor> {
  readonly actor: Actor;
  readonly tenant: string;
}

/** A durable run, as its actor may see it. */
export interface RunView {
  readonly runId: string;
  readonly status: RunStatus;
  /** Of a run that has ended, or waits. */
  readonly finishReason?: FinishReason;
  /** Of its last event; 0 for none. */
  readonly lastSequence: number;
  readonly forkOf?: RunRecord['forkOf'];
  /** ISO 8601, UTC. */
  readonly createdAt: string;
  /** ISO 8601, UTC. */
  readonly updatedAt: string;
}

/** Durable runs, by their ids: in whatever process they are, or whether they are in none. */
@Injectable()
export class RunService<Actor = RegisteredActor> {
  private readonly store: RunStore;

  constructor(
    private readonly engine: RunEngine,
    store: RunStore,
    private readonly identity: ActorIdentity,
  ) {
    this.store = new BoundedRunStore(store);
  }

  /**
   * Adds a run for whoever has room, and resolves to its id. `loop` is the name of its loop. With a `requestId` the actor's same request is the same run, however often and
   * in how many processes at once it is started. Rejects with what `ToolLoopService.open` would throw, and for a request id that was used for another question.
   */
  start(request: LoopRequest<unknown, Actor>, loop?: string): Promise<string> {
    return this.engine.start(request, loop);
  }

  /** Rejects with `InvalidRequestError` (`unknown_run`), also for somebody else's run. */
  async get(runId: string, reader: RunReader<Actor>): Promise<RunView> {
    return viewOf(await this.find(runId, reader));
  }

  /** The newest first, at most 100 where `limit` says no other number, and never more than 1,000. Rejects with `InvalidRequestError` for a filter that cannot be. */
  async list(reader: RunReader<Actor>, filter: Pick<RunQuery, 'status' | 'limit' | 'after'> = {}): Promise<readonly RunView[]> {
    assertFilter(filter);
    const runs = await this.store.list({ ...filter, tenant: reader.tenant, actorId: this.actorIdOf(reader) });
    return runs.map(viewOf);
  }

  /**
   * The events of a run behind this sequence: those there are, and then those that come, whichever process they come from. Completes after the `run-end` of a run
   * that has ended; one that waits goes on later. Throws `InvalidRequestError` for an `after` that is no sequence. A `step-start` of a step that was begun before stands for what was shown of that step.
   */
  watch(runId: string, reader: RunReader<Actor>, after = 0): Observable<LoopEvent> {
    if (!isWhole(after, 0)) throw invalid('`after` is not the sequence of an event, which is a whole number, 0 for none.');
    return watched(this.store, () => this.find(runId, reader), after);
  }

  /** Has a run that waits looked at again. Approvals that are decided do this by themselves. */
  async resume(runId: string, reader: RunReader<Actor>): Promise<void> {
    const { status } = await this.find(runId, reader);
    if (status !== 'waiting') throw new InvalidRequestError('invalid_request', `The run ${runId} is not waiting; it is ${status}.`);
    await this.store.wake(runId);
  }

  /** Has a run end as `aborted`. Nothing, where it has ended. */
  async cancel(runId: string, reader: RunReader<Actor>, reason = 'The run was cancelled.'): Promise<void> {
    await this.find(runId, reader);
    if (typeof reason !== 'string') throw invalid('The reason is not a string.');
    await this.store.cancel(runId, reason);
  }

  /**
   * Adds a run that begins where this one stood after that step, and resolves to its id. What the steps before did is not done again. With the same `requestId` it is the
   * same one.
   */
  async fork(runId: string, step: number, reader: RunReader<Actor>, requestId?: string): Promise<string> {
    return fork(this.store, await this.find(runId, reader), step, requestId);
  }

  private async find(runId: string, reader: RunReader<Actor>): Promise<RunRecord> {
    const run = typeof runId === 'string' ? await this.store.find(runId) : undefined;
    if (run && run.tenant === reader.tenant && run.actorId === this.actorIdOf(reader)) return run;
    const shown = typeof runId === 'string' ? ` ${JSON.stringify(runId.slice(0, 64))}` : '';
    throw new InvalidRequestError('unknown_run', `No run${shown} is yours.`);
  }

  private actorIdOf({ actor }: RunReader<Actor>): string {
    const actorId = this.identity.idOf(actor);
    if (actorId !== undefined) return actorId;
    throw new InvalidRequestError('unknown_run', 'Durable runs belong to actors, and this actor has no id.');
  }
}

const STATUSES: Readonly<Record<RunStatus, true>> = { queued: true, running: true, waiting: true, ended: true };
const MOST_LISTED = 1_000;

function assertFilter({ status, limit, after }: Pick<RunQuery, 'status' | 'limit' | 'after'>): void {
  if (limit !== undefined && !isWhole(limit, 1, MOST_LISTED)) throw invalid(`The limit is not a whole number from 1 to ${MOST_LISTED}.`);
  if (status !== undefined && !Object.hasOwn(STATUSES, status))
    throw invalid(`There is no such status; there are ${Object.keys(STATUSES).join(', ')}.`);
  if (after !== undefined && typeof after !== 'string') throw invalid('`after` is not the id of a run.');
}

function invalid(message: string): InvalidRequestError {
  return new InvalidRequestError('invalid_request', message);
}

function viewOf({ runId, status, finishReason, lastSequence, forkOf, createdAt, updatedAt }: RunRecord): RunView {
  return { runId, status, ...(finishReason && { finishReason }), lastSequence, ...(forkOf && { forkOf }), createdAt, updatedAt };
}

/** Adds a run with what another one did until the end of a step. Its calls are its own: whatever it was asked by, their keys are of its id. */
export async function fork(store: RunStore, of: RunRecord, step: number, requestId?: string): Promise<string> {
  const { runId, tenant, actorId, loop, request } = of;
  const entries = await store.entries(runId);
  const last = entries.findLastIndex(({ key }) => key === (step === 0 ? 'begin' : `step:${step}`));
  if (last === -1)
    throw new InvalidRequestError('invalid_request', `The run ${runId} has no step ${step} that is complete and was followed by another.`);
  const id = runIdFor(requestId, tenant, actorId, runId, String(step));
  const run = { runId: id, tenant, actorId, ...(loop !== undefined && { loop }), request: { ...request, requestId: id } };
  const kept = entries.slice(0, last + 1).map((entry) => askedBy(entry, id));
  return addOnce(store, { ...run, forkOf: { runId, step }, entries: kept });
}

/** The entry with another request id in it, where it tells one. */
function askedBy(entry: RunEntry, requestId: string): RunEntry {
  return 'value' in entry && 'requestId' in entry.value ? { ...entry, value: { ...entry.value, requestId } } : entry;
}

const PAGE = 200;
/** A word that something changed may be lost with a connection. */
const LONGEST_SILENCE_MS = 2_000;

/** What there is of a run, and then what comes, until it has ended. */
export function watched(store: RunStore, find: () => Promise<RunRecord>, after: number): Observable<LoopEvent> {
  return new Observable((subscriber) => {
    const watching = new WatchedRun(store, find, subscriber, after);
    void watching.follow();
    return () => watching.stop();
  });
}

class WatchedRun {
  private wake: () => void = () => undefined;
  private hasChanged = false;

  constructor(
    private readonly store: RunStore,
    private readonly find: () => Promise<RunRecord>,
    private readonly subscriber: Subscriber<LoopEvent>,
    private after: number,
  ) {}

  async follow(): Promise<void> {
    let end: (() => Promise<void>) | undefined;
    try {
      const { runId } = await this.find();
      end = await this.store.watch(runId, () => this.changed());
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
      const events = await this.store.events(runId, { after: this.after, limit: PAGE });
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
