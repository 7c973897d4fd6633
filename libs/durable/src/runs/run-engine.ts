import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { type BeforeApplicationShutdown, Inject, Injectable, Logger, type OnApplicationBootstrap } from '@nestjs/common';
import { ConfigurationError, InvalidRequestError, type JsonObject, type LoopEvent, type LoopRequest, type RunHandle } from '@toolloop/core';
import { ActorIdentity, DurableRuns, type NamedProfile, RunOpener, SAID_BY_THE_RUN } from '@toolloop/core/internal';
import { flushBeforeClose } from '@toolloop/core/loop';
import { type RunOptions, runOptionsOf } from '../durable-options.js';
import { BoundedRunStore } from './bounded-run.store.js';
import { KeptJournal } from './kept-journal.js';
import { addOnce, fromDurableRequest, type HeldRun, type NewRun, type RunHold, runIdFor, RunStore, toPlainJson } from './run-store.js';

/** Injects the `RunOptions`. */
export const RUN_OPTIONS = Symbol('toolloop:run-options');

/** What went wrong may be nobody's to see. */
const UNRUNNABLE = 'This application cannot continue the run. Its log says why; fix that, and start the run again.';

/** A run this process goes on with. */
interface OpenRun {
  readonly journal: KeptJournal;
  readonly handle: RunHandle;
  readonly hold: RunHold;
}

/** Goes on with durable runs: those that are opened here, those that are queued, and those whose process is gone. */
@Injectable()
export class RunEngine extends DurableRuns implements OnApplicationBootstrap, BeforeApplicationShutdown {
  private readonly logger = new Logger(RunEngine.name);
  private readonly store: RunStore;
  private readonly options: Required<RunOptions>;
  private readonly current = new Map<string, OpenRun>();
  private readonly underWay = new Set<Promise<unknown>>();
  private stopWork: (() => Promise<void>) | undefined;
  private timer: NodeJS.Timeout | undefined;
  private isLeaving = false;

  constructor(
    store: RunStore,
    private readonly runs: RunOpener,
    private readonly identity: ActorIdentity,
    @Inject(RUN_OPTIONS) options: RunOptions,
  ) {
    super();
    this.store = new BoundedRunStore(store);
    this.options = runOptionsOf(options);
  }

  async onApplicationBootstrap(): Promise<void> {
    if (!this.runs.hasDirectory) this.missDirectory();
    await this.store.open();
    const { concurrency, heartbeatMs } = this.options;
    if (concurrency > 0) this.stopWork = await this.store.work((runId) => this.advance(runId), concurrency);
    this.timer = setInterval(() => void this.beat(), heartbeatMs);
    this.timer.unref();
    await this.beat();
  }

  /** A step in flight ends, or is broken off after a while; the runs are given to whoever comes. */
  async beforeApplicationShutdown(): Promise<void> {
    this.isLeaving = true;
    clearInterval(this.timer);
    await this.stopWork?.();
    for (const { journal } of this.current.values()) journal.leaveAfterStep();
    const drained = Promise.allSettled(this.underWay);
    await Promise.race([drained, wait(this.options.drainMs, undefined, { ref: false })]);
    for (const run of this.current.values()) drop(run, 'The process is shutting down.');
    const ended = await drained;
    if (ended.length > 0) await flushBeforeClose();
  }

  override open<Output, Actor>(request: LoopRequest<Output, Actor>, { name }: NamedProfile): RunHandle<Output> {
    const run = { ...this.newRun(request, name), runId: randomUUID() }; // whoever reads a run reads one of their own
    const { runId } = run;
    const journal = new KeptJournal(this.store, async () => {
      const hold = await this.store.add(run, 'running');
      this.track({ journal, handle, hold });
      return hold;
    });
    const handle = this.runs.openKept(request, { runId, loop: name, journal });
    return handle;
  }

  /** Adds a run that whoever has room goes on with, once for a request id. Throws what makes the request one that cannot be run. */
  async start<Output, Actor>(request: LoopRequest<Output, Actor>, name?: string): Promise<string> {
    const run = this.newRun(request, name);
    const nowhere = new KeptJournal(this.store, () => Promise.reject(new Error('The run was not started here.')));
    this.runs.openKept(request, { runId: run.runId, loop: name, journal: nowhere }); // throws for what cannot be run
    await this.assertKnown(run);
    return addOnce(this.store, run);
  }

  /** A directory that cannot be reached keeps no run from being started: by the time it is gone on with, it may be. */
  private async assertKnown({ actorId, tenant }: NewRun): Promise<void> {
    await this.runs.actorOf(actorId, tenant).catch((error: unknown) => {
      if (error instanceof InvalidRequestError) throw error;
      this.logger.warn('A run is started for an actor who could not be looked up.', error);
    });
  }

  /** What is kept may be approvals and conversations alone, so the start is refused only where runs are sure to be. */
  private missDirectory(): void {
    const remedy = 'Provide a class that extends ActorDirectory, in any module: other processes load the actor of a run from it.';
    const findings = this.runs.durableLoops.map((name) => ({
      at: `forFeature loops.${name}`,
      problem: 'Its runs are durable, but nothing loads their actors.',
      remedy,
    }));
    if (findings.length > 0) throw new ConfigurationError(findings);
    this.logger.warn(`There is no ActorDirectory, so every durable run is refused. ${remedy}`);
  }

  private newRun<Output, Actor>(request: LoopRequest<Output, Actor>, loop: string | undefined): NewRun {
    const actorId = this.identity.idOf(request.actor);
    void this.runs.directory; // without one nobody could go on with it
    if (actorId === undefined)
      throw new InvalidRequestError(
        'invalid_request',
        'A durable run is gone on with for its actor, and this actor has no id. Give one: ToolLoopModule.forRoot({ actorId: (actor) => … }).',
      );
    return {
      runId: runIdFor(request.requestId, request.tenant, actorId, loop ?? null),
      tenant: request.tenant,
      actorId,
      ...(loop !== undefined && { loop }),
      request: toDurableRequest(request),
    };
  }

  /** Rejects where the run is still to be gone on with: then it is handed out again. */
  private async advance(runId: string): Promise<void> {
    if (this.isLeaving) throw new Error('The process is shutting down.');
    const held = await this.store.claim(runId);
    if (held) await this.goOn(held);
  }

  private async goOn(held: HeldRun): Promise<void> {
    const { hold, record } = held;
    const { runId, tenant, loop, request, cancelled, lastSequence } = record;
    const journal = new KeptJournal(this.store, () => Promise.resolve(hold));
    const entries = await this.store.entries(runId);
    let actor: unknown;
    let handle: RunHandle;
    try {
      actor = await this.runs.actorOf(record.actorId, tenant);
    } catch (error) {
      if (error instanceof InvalidRequestError) return this.endUnrunnable(held, error);
      throw error; // such as a directory that cannot be reached: nobody tells of the run, so it is taken over after a while
    }
    try {
      handle = this.runs.openKept(fromDurableRequest(request, { actor, tenant }), { runId, loop, journal, entries, lastSequence });
    } catch (error) {
      return this.endUnrunnable(held, error); // whoever took it over would meet with the same
    }
    if (cancelled !== undefined) handle.cancel(cancelled);
    this.track({ journal, handle, hold });
    await handle.result.catch(() => undefined);
  }

  /** A run that cannot go on in this application, whatever happens, ends; why is for the log. */
  private async endUnrunnable({ hold, record }: HeldRun, error: unknown): Promise<void> {
    const correlationId = randomUUID();
    this.logger.error(`The run ${record.runId} cannot continue (reference ${correlationId}).`, error);
    const message = error instanceof InvalidRequestError ? error.message : UNRUNNABLE;
    const end: LoopEvent = {
      type: 'run-end',
      runId: record.runId,
      sequence: record.lastSequence + 1,
      timestamp: new Date().toISOString(),
      finishReason: 'error',
      text: '',
      steps: 0,
      usage: { inputTokens: 0, outputTokens: 0 },
      error: { code: 'cannot_continue', message, correlationId },
    };
    await this.store.write(hold, { entries: [], events: [end], ending: { status: 'ended', finishReason: 'error' } });
    await this.runs.withdrawApprovals(record);
  }

  private track(run: OpenRun): void {
    const { runId } = run.hold;
    const before = this.current.get(runId);
    if (before) drop(before, 'The run was taken over.');
    this.current.set(runId, run);
    const ended = run.handle.result
      .catch(() => undefined)
      .then(() => run.journal.settled())
      .then((hold) => (run.journal.isOurs || !hold ? undefined : this.store.release(hold)))
      .catch((error: unknown) => this.logger.error(`The run ${runId} could not be handed over; it is taken over after a while.`, error))
      .finally(() => {
        if (this.current.get(runId) === run) this.current.delete(runId);
        this.underWay.delete(ended);
      });
    this.underWay.add(ended);
    if (this.isLeaving) run.journal.leaveAfterStep();
  }

  /** Tells that the runs here go on, hears which of them are not ours any more or are to end, and has those taken over of which nobody tells. */
  private async beat(): Promise<void> {
    try {
      const open = [...this.current.values()];
      const held = new Map((await this.store.beat(open.map(({ hold }) => hold))).map((run) => [run.runId, run]));
      for (const run of open) {
        const kept = held.get(run.hold.runId);
        if (!kept && run.journal.isEnding) continue;
        if (!kept) drop(run, 'Another process has taken over the run.');
        else if (kept.cancelled !== undefined) run.handle.cancel(kept.cancelled);
      }
      await this.store.requeueSilent(this.options.takeoverMs);
    } catch (error) {
      this.logger.warn('The heartbeat of the durable runs of this process failed.', error);
    }
  }
}

/** Breaks a run off here, without a word: it is somebody else's. */
function drop({ journal, handle }: OpenRun, reason: string): void {
  journal.lose();
  handle.cancel(reason);
}

/** What a store keeps of a request beside what it says: whom it acts for is kept by id, and a signal is this process's. */
const KEPT_ELSEWHERE = new Set(['actor', 'tenant', 'signal', 'durable']);

const MOST_DEPTH = 64;
/** `object` is `null`: the rest is looked into. */
const PLAIN = new Set(['object', 'string', 'boolean', 'number', 'undefined']);

/** The request as JSON. Throws `InvalidRequestError`, with everything in it that no other process could know again. */
export function toDurableRequest<Output, Actor>(request: LoopRequest<Output, Actor>): JsonObject {
  const said = Object.entries(request).filter(([name, value]) => value !== undefined && !KEPT_ELSEWHERE.has(name));
  const unkept = said.filter(([, value]) => !isPlain(value)).map(([name]) => name);
  if (unkept.length > 0)
    throw new InvalidRequestError(
      'invalid_request',
      `A durable run is gone on with by other processes, which cannot know what ${quoted(unkept)} of its request is. ${remedyFor(unkept)}`,
    );
  return toPlainJson(Object.fromEntries(said));
}

const OWN = new Set<string>(SAID_BY_THE_RUN);

function remedyFor(names: readonly string[]): string {
  const [own, others] = [names.filter((name) => OWN.has(name)), names.filter((name) => !OWN.has(name))];
  const remedies = [
    ...(own.length > 0 ? [`Give ${quoted(own)} as JSON: plain objects, lists, texts, finite numbers.`] : []),
    ...(others.length > 0
      ? [
          `Say ${quoted(others)} in a named loop, ToolLoopModule.forFeature({ loops: { name: { … } } }), and open or start the run by that loop.`,
        ]
      : []),
  ];
  return remedies.join(' ');
}

function quoted(names: readonly string[]): string {
  return names.map((name) => `\`${name}\``).join(', ');
}

/** Whether JSON gives the value back as it is. */
function isPlain(value: unknown, depth = 0): boolean {
  if (typeof value === 'object' && value !== null)
    return depth < MOST_DEPTH && isPlainObject(value) && itemsOf(value).every((item) => isPlain(item, depth + 1));
  return PLAIN.has(typeof value) && (typeof value !== 'number' || Number.isFinite(value));
}

function isPlainObject(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return Array.isArray(value) || prototype === Object.prototype || prototype === null;
}

function itemsOf(value: object): readonly unknown[] {
  return Object.values(value);
}
