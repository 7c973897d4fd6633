import { Injectable, Logger } from '@nestjs/common';
import { InvalidRequestError } from '@toolloop/protocol';
import type { ApprovalStore } from '../contracts/approval.js';
import type { SuspendedRun, SuspendedRunStore } from '../contracts/stores.js';
import type { RunContext } from '../contracts/tool-call.js';
import { withinTime } from '../execution/call-failure.js';
import type { SubRunRemains } from '../execution/call.js';
import type { ResultPages } from '../execution/result-pages.js';
import { outsideOfRuns, untilRunCloses } from '../execution/store-calls.js';
import type { ProcessTools } from '../injection/starting-toolset.js';
import { withdrawApprovals } from '../pending/approval.service.js';
import { ActorIdentity } from '../policy/actor-identity.js';
import { toJsonObject } from '../schema/canonical-json.js';
import { fromSuspendedRun, SAVED_RUN_VERSION, type SavedRun } from './saved-run.js';

/** What of a waiting run is no JSON, and lives as long as the process does. */
export interface LiveRemains extends ProcessTools {
  /** Results that the model can read on in. */
  readonly pages?: ResultPages;
  readonly state: RunContext['state'];
  /** What the calls that are done returned, by call id. */
  readonly results: ReadonlyMap<string, unknown>;
  /** Of the sub-runs that wait, by call id. */
  readonly subRuns: ReadonlyMap<string, SubRunRemains>;
}

/** A run that waited, about to go on. */
export interface ResumedRun {
  readonly runId: string;
  readonly saved: SavedRun;
  /** Absent in another process: then tools of entities are gone until a tool returns them again. */
  readonly remains?: LiveRemains;
}

/** Whose a run is. */
export type RunOwner = Pick<SuspendedRun, 'runId' | 'tenant' | 'actorId'>;

const LONGEST_WITHDRAWAL_MS = 10_000;
const MOST_REMAINS = 1_000;
/** Of the results that all waiting runs keep. */
const MOST_KEPT_BYTES = 64 * 1024 * 1024;

/** The runs that wait for decisions. */
@Injectable()
export class SuspendedRuns {
  private readonly logger = new Logger(SuspendedRuns.name);
  private readonly remains = new Map<string, LiveRemains>();

  constructor(
    private readonly store: SuspendedRunStore,
    private readonly identity: ActorIdentity,
    private readonly approvals: ApprovalStore,
  ) {}

  async keep(owner: RunOwner, saved: SavedRun, remains: LiveRemains): Promise<void> {
    await this.store.save({ ...owner, version: SAVED_RUN_VERSION, content: toJsonObject(saved) });
    this.remember(owner.runId, remains);
  }

  /** Keeps what a waiting run needs and no store can hold, for as long as the process lives. */
  remember(runId: string, remains: LiveRemains): void {
    this.remains.set(runId, remains);
    const [oldest] = this.remains.keys();
    if (this.remains.size > MOST_REMAINS && oldest !== undefined) this.remains.delete(oldest);
    this.forgetPages();
  }

  /** Takes what was remembered. */
  recall(runId: string): LiveRemains | undefined {
    const remains = this.remains.get(runId);
    this.remains.delete(runId);
    return remains;
  }

  /** Throws `InvalidRequestError` (`unknown_run`) for a run that does not wait, or is somebody else's; which of the two is not told. One that cannot be read is `unreadable_run`. */
  async find(runId: string, { actor, tenant }: Pick<RunContext, 'actor' | 'tenant'>): Promise<ResumedRun> {
    const actorId = this.identity.idOf(actor);
    const run = await this.store.find(runId);
    if (!run || actorId === undefined || run.actorId !== actorId || run.tenant !== tenant) throw unknownRun(runId);
    return this.resumed(run);
  }

  /** Takes a run that was found, to go on with it. Throws `InvalidRequestError` (`unknown_run`) when somebody else has, or has been on with it since. */
  async claim({ runId, saved }: ResumedRun): Promise<void> {
    const run = await this.store.take(runId);
    if (!run) throw new InvalidRequestError('unknown_run', `The run ${runId} has already been resumed by somebody else.`);
    if (fromSuspendedRun(run).sequence === saved.sequence) return void this.remains.delete(runId);
    await this.store.save(run);
    throw new InvalidRequestError('unknown_run', `The run ${runId} has continued, and waits for another decision. Resume it again.`);
  }

  /** Withdraws what a run that has ended asked for. What stays open for a failure of the store expires, and keeps no run from ending. */
  async askNobody(run: Pick<RunOwner, 'runId' | 'tenant'>): Promise<void> {
    try {
      const withdrawing = outsideOfRuns(() => withdrawApprovals(this.approvals, run));
      await untilRunCloses('The withdrawal of approvals', withinTime(withdrawing, LONGEST_WITHDRAWAL_MS));
    } catch (error) {
      this.logger.warn(`The approvals that run ${run.runId} asked for could not be withdrawn.`, error);
    }
  }

  /** Of the longest waiting first: nobody knows whether they ever go on. */
  private forgetPages(): void {
    let bytes = 0;
    for (const remains of [...this.remains.values()].toReversed()) {
      bytes += keptBytesOf(remains);
      if (bytes > MOST_KEPT_BYTES) forgetPagesOf(remains);
    }
  }

  private resumed(run: SuspendedRun): ResumedRun {
    const remains = this.remains.get(run.runId);
    return { runId: run.runId, saved: fromSuspendedRun(run), ...(remains && { remains }) };
  }
}

/** Of the run and of the sub-runs that wait in it. */
export function keptBytesOf({ pages, subRuns }: LiveRemains): number {
  return [...subRuns.values()].reduce((bytes, subRun) => bytes + subRun.keptBytes, pages?.keptBytes ?? 0);
}

export function forgetPagesOf({ pages, subRuns }: LiveRemains): void {
  pages?.forget();
  for (const subRun of subRuns.values()) subRun.forgetPages();
}

function unknownRun(runId: string): InvalidRequestError {
  return new InvalidRequestError('unknown_run', `No run ${JSON.stringify(runId.slice(0, 64))} of yours waits for a decision.`);
}
