import { Injectable } from '@nestjs/common';
import type { ResultPages } from '../execution/result.pages.js';
import { ActorIdentity } from '../policy/actor.identity.js';
import { InvalidRequestError } from '../protocol/errors.js';
import { SuspendedRunStore, type SuspendedRun } from '../protocol/suspended-run.js';
import type { Tool, ToolSpec } from '../protocol/tool.js';
import type { RunContext } from '../protocol/tool-call-context.js';
import { toJsonObject } from '../schema/from-value.js';
import { fromSuspendedRun, type SavedRun } from './from-suspended-run.js';

/** What of a waiting run is no JSON, and lives as long as the process does. */
export interface LiveRemains {
  /** The tools that were injected and are still there; those of entities are bound to live instances. */
  readonly injected: readonly Tool[];
  /** Those of them that are called over others. */
  readonly behindSurfaces: readonly Tool[];
  /** Everything that was ever injected. */
  readonly specs: readonly ToolSpec[];
  /** Results that the model can read on in. */
  readonly pages?: ResultPages;
  readonly state: RunContext['state'];
  /** What the calls that are done returned, by call id. */
  readonly results: ReadonlyMap<string, unknown>;
}

/** A run that waited, about to go on. */
export interface ResumedRun {
  readonly runId: string;
  readonly saved: SavedRun;
  /** Absent in another process: then tools of entities are gone until a tool returns them again. */
  readonly remains: LiveRemains | undefined;
}

/** Whose a run is. */
export type RunOwner = Pick<SuspendedRun, 'runId' | 'tenant' | 'actorId'>;

const MOST_REMAINS = 1_000;
/** Of the results that all waiting runs keep. */
const MOST_KEPT_BYTES = 64 * 1024 * 1024;

/** The runs that wait for decisions. */
@Injectable()
export class SuspendedRuns {
  private readonly remains = new Map<string, LiveRemains>();

  constructor(
    private readonly store: SuspendedRunStore,
    private readonly identity: ActorIdentity,
  ) {}

  async keep(owner: RunOwner, saved: SavedRun, remains: LiveRemains): Promise<void> {
    await this.store.save({ ...owner, version: 1, content: toJsonObject(saved) });
    this.remains.set(owner.runId, remains);
    const [oldest] = this.remains.keys();
    if (this.remains.size > MOST_REMAINS && oldest !== undefined) this.remains.delete(oldest);
    this.forgetPages();
  }

  /** Throws `InvalidRequestError` (`unknown_run`) for a run that does not wait, or is somebody else's; which of the two is not told. */
  async find(runId: string, { actor, tenant }: Pick<RunContext, 'actor' | 'tenant'>): Promise<ResumedRun> {
    const actorId = this.identity.idOf(actor);
    const run = await this.store.find(runId);
    if (!run || actorId === undefined || run.actorId !== actorId || run.tenant !== tenant) throw unknownRun(runId);
    return this.resumed(run);
  }

  /** Takes a run that was found, to go on with it. Throws `InvalidRequestError` (`unknown_run`) when somebody else has, or has been on with it since. */
  async claim({ runId, saved }: ResumedRun): Promise<void> {
    const run = await this.store.take(runId);
    if (!run) throw new InvalidRequestError('unknown_run', `Somebody else goes on with the run ${runId} already.`);
    if (fromSuspendedRun(run).sequence === saved.sequence) return void this.remains.delete(runId);
    await this.store.save(run);
    throw new InvalidRequestError('unknown_run', `The run ${runId} has gone on, and waits for another decision. Resume it anew.`);
  }

  /** Of the longest waiting first: nobody knows whether they ever go on. */
  private forgetPages(): void {
    let bytes = 0;
    for (const { pages } of [...this.remains.values()].toReversed()) {
      bytes += pages?.keptBytes ?? 0;
      if (bytes > MOST_KEPT_BYTES) pages?.forget();
    }
  }

  private resumed(run: SuspendedRun): ResumedRun {
    return { runId: run.runId, saved: fromSuspendedRun(run), remains: this.remains.get(run.runId) };
  }
}

function unknownRun(runId: string): InvalidRequestError {
  return new InvalidRequestError('unknown_run', `No run ${JSON.stringify(runId.slice(0, 64))} of yours waits for a decision.`);
}
