import { StorageUnavailableError } from '@toolloop/protocol';
import type { LoopEvent } from '@toolloop/protocol';
import type { Lease, LeaseRequest } from '../contracts/lease.js';
import { RunLog, RunLostError } from '../contracts/run-log.js';
import type {
  EventPage,
  LeasedRun,
  NewRun,
  PutOff,
  RunEntry,
  RunHold,
  RunQuery,
  RunRecord,
  RunWrite,
} from '../contracts/run-log.js';
import { askStore, outsideOfRuns } from './store-calls.js';

/** A write is no part of the run that it is about: it is kept even where the run is interrupted. */
export class BoundedRuns extends RunLog {
  constructor(private readonly log: RunLog) {
    super();
  }

  /** Takes as long as it takes; where it fails the application does not start. */
  override open(): Promise<void> {
    return askStore(() => this.log.open(), {
      isRepeatable: false,
      longestMs: Infinity,
      isAnswer: () => true,
    });
  }

  /**
   * The id of a waiting run is its own, so one that is there already was added by an attempt
   * without an answer. A queued one is recognised by the caller.
   */
  override add(run: NewRun, status: 'queued' | 'waiting'): Promise<void> {
    const add = (): Promise<void> => this.log.add(run, status);
    const kept = (): Promise<RunRecord | undefined> => this.log.find(run.runId);
    const addWaiting = async (attempt: number): Promise<void> => {
      await addedOnce(attempt, add, kept);
    };
    return outsideOfRuns(() => askStore(status === 'waiting' ? addWaiting : add));
  }

  /** The same owner gets the lease of an attempt without an answer. */
  override begin(run: NewRun, request: LeaseRequest): Promise<Lease> {
    const begin = (): Promise<Lease> => this.log.begin(run, request);
    const leased = async (): Promise<Lease | undefined> =>
      (await this.log.acquire(run.runId, request))?.lease;
    return outsideOfRuns(() => askStore((attempt) => addedOnce(attempt, begin, leased)));
  }

  /** The same owner gets its lease again. One that comes after its run has ended is given back. */
  override acquire(
    runId: string,
    request: LeaseRequest,
    epoch?: number,
  ): Promise<LeasedRun | undefined> {
    const late = (run: LeasedRun | undefined): unknown =>
      run && this.release({ runId, ...run.lease });
    return askStore(() => this.log.acquire(runId, request, epoch), { late });
  }

  /**
   * The same write twice is kept once. One with an ending is refused once it is kept, so the run is
   * looked at then.
   */
  override append(hold: RunHold, write: RunWrite): ReturnType<RunLog['append']> {
    const append = async (): ReturnType<RunLog['append']> => {
      try {
        return await this.log.append(hold, write);
      } catch (error) {
        if (
          !write.ending ||
          !(error instanceof RunLostError) ||
          !hasEnded(await this.log.find(hold.runId), hold, write)
        )
          throw error;
        return undefined;
      }
    };
    return outsideOfRuns(() => askStore(append));
  }

  override renew(
    holds: readonly RunHold[],
    forMs: number,
  ): Promise<readonly Pick<RunRecord, 'runId' | 'cancelled'>[]> {
    return outsideOfRuns(() => askStore(() => this.log.renew(holds, forMs)));
  }

  override release(hold: RunHold, putOff?: PutOff): Promise<void> {
    return outsideOfRuns(() => askStore(() => this.log.release(hold, putOff)));
  }

  override requeueExpired(): Promise<number> {
    return outsideOfRuns(() => askStore(() => this.log.requeueExpired()));
  }

  override wake(runId: string): Promise<void> {
    return outsideOfRuns(() => askStore(() => this.log.wake(runId)));
  }

  override wakeAt(runId: string, at: Date): Promise<void> {
    return outsideOfRuns(() => askStore(() => this.log.wakeAt(runId, at)));
  }

  override cancel(runId: string, reason: string): Promise<void> {
    return outsideOfRuns(() => askStore(() => this.log.cancel(runId, reason)));
  }

  override find(runId: string): Promise<RunRecord | undefined> {
    return askStore(() => this.log.find(runId));
  }

  override list(query: RunQuery): Promise<readonly RunRecord[]> {
    return askStore(() => this.log.list(query));
  }

  override read(runId: string): Promise<readonly RunEntry[]> {
    return askStore(() => this.log.read(runId));
  }

  override events(runId: string, page: EventPage): Promise<readonly LoopEvent[]> {
    return askStore(() => this.log.events(runId, page));
  }

  override watch(runId: string, changed: () => void): Promise<() => Promise<void>> {
    return askStore(() => this.log.watch(runId, changed), { late: (end) => end() });
  }

  override work(
    advance: (runId: string) => Promise<void>,
    most: number,
  ): Promise<() => Promise<void>> {
    return this.log.work((runId) => outsideOfRuns(() => advance(runId)), most);
  }
}

/**
 * Adds what an earlier attempt without an answer may have added. That one may still be at work in
 * the store and end while this one adds, which the store then refuses, so what is kept is looked up
 * before and after.
 */
async function addedOnce<Added, Kept extends object>(
  attempt: number,
  add: () => Promise<Added>,
  kept: () => Promise<Kept | undefined>,
): Promise<Added | Kept> {
  if (attempt === 1) return add();
  const before = await kept();
  if (before) return before;
  try {
    return await add();
  } catch (error) {
    const since = StorageUnavailableError.in(error) ? undefined : await kept();
    if (!since) throw error;
    return since;
  }
}

/**
 * Tells if an attempt without an answer kept the ending: its events are there, and no one else had
 * the run since.
 */
function hasEnded(run: RunRecord | undefined, { epoch }: RunHold, { events }: RunWrite): boolean {
  return (
    run?.epoch === epoch &&
    run.status !== 'running' &&
    run.lastSequence >= (events.at(-1)?.sequence ?? 0)
  );
}
