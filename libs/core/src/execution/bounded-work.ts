import { type LoopEvent, StorageUnavailableError } from '@toolloop/protocol';
import type { Observable } from 'rxjs';
import { type AuditEntry, type AuditHead, AuditStore } from '../contracts/audit.js';
import {
  type AddedDirective,
  type DirectiveChange,
  type DirectiveEvent,
  type DirectiveHold,
  type DirectiveIntent,
  type DirectiveQuery,
  type DirectiveRecord,
  type DirectiveReference,
  DirectiveStore,
  type DirectiveVersion,
  type LeasedDirective,
  type StopWork,
} from '../contracts/directive.js';
import type { Lease, LeaseRequest } from '../contracts/lease.js';
import {
  type EventPage,
  type LeasedRun,
  type NewRun,
  type PutOff,
  type RunEntry,
  type RunHold,
  RunLog,
  RunLostError,
  type RunQuery,
  type RunRecord,
  type RunWrite,
} from '../contracts/stores.js';
import { askStore, asPart, outsideOfRuns, tellQuickStore, tellStore } from './store-calls.js';

/** The looks at a chain that grows between a look and an append. */
const MOST_LOOKS = 100;

/** Bounds the store of the audit, in whose chains each process appends. */
export class BoundedAudit extends AuditStore {
  override readonly storesTogether: boolean;

  constructor(private readonly store: AuditStore) {
    super();
    this.storesTogether = store.storesTogether;
  }

  /**
   * An entry that an attempt without an answer has made may be kept yet, at the place for which it
   * was made. It is made anew only once another entry is there.
   */
  override append(
    tenant: string,
    build: (head: AuditHead | undefined) => AuditEntry,
  ): void | Promise<void> {
    let last: AuditEntry | undefined;
    let newest = 1;
    const made: AuditEntry[] = [];
    return tellQuickStore('An entry of the audit', (attempt) => {
      newest = attempt;
      if (attempt > 1 && last) made.push(last);
      const make = (head: AuditHead | undefined): AuditEntry => {
        if (attempt !== newest) throw new Error('This attempt was given up, and another is made.');
        if (made.some(({ sequence }) => sequence <= (head?.sequence ?? 0)))
          throw new MadeBeforeError();
        return (last = build(head));
      };
      return attempt === 1 ? this.store.append(tenant, make) : this.appendAgain(tenant, make, made);
    });
  }

  override head(tenant: string): Promise<AuditHead | undefined> {
    return tellStore('The head of the audit', () => this.store.head(tenant));
  }

  override read(
    tenant: string,
    page: { readonly from: number; readonly limit: number },
  ): Promise<readonly AuditEntry[]> {
    return tellStore('A page of the audit', () => this.store.read(tenant, page));
  }

  private async appendAgain(
    tenant: string,
    make: (head: AuditHead | undefined) => AuditEntry,
    made: AuditEntry[],
  ): Promise<void> {
    for (let look = 1; ; look += 1) {
      if (await this.isKept(tenant, made)) return;
      try {
        return await this.store.append(tenant, make);
      } catch (error) {
        if (!(error instanceof MadeBeforeError) || look === MOST_LOOKS) throw error;
      }
    }
  }

  /** Tells if one of the entries is kept, and drops those whose place another entry has. */
  private async isKept(tenant: string, made: AuditEntry[]): Promise<boolean> {
    for (const entry of made.splice(0)) {
      const [there] = await this.store.read(tenant, { from: entry.sequence, limit: 1 });
      if (there?.hash === entry.hash) return true;
      if (there?.sequence !== entry.sequence) made.push(entry);
    }
    return false;
  }
}

/**
 * Thrown where an entry is to be made while it is unknown who has the place for which it was made
 * before.
 */
class MadeBeforeError extends Error {
  override readonly name = 'MadeBeforeError';
}

function rethrown(error: unknown, thrown: unknown[]): never {
  thrown.push(error);
  throw error;
}

/**
 * Bounds the store of directives. What it hands out is performed outside of the run that asked for
 * it.
 */
export class BoundedDirectives extends DirectiveStore {
  constructor(private readonly store: DirectiveStore) {
    super();
  }

  override get changes$(): Observable<DirectiveEvent> {
    return this.store.changes$;
  }

  /**
   * The one that an attempt without an answer kept has the id. `first` is undone with an attempt
   * that kept nothing, and its error is its own.
   */
  override add(intent: DirectiveIntent, first?: () => Promise<void>): Promise<AddedDirective> {
    const thrown: unknown[] = [];
    const given = async (): Promise<void> =>
      first?.().catch((error: unknown) => rethrown(error, thrown));
    const isAnswer = (error: unknown): boolean => thrown.includes(error);
    return tellStore(
      'A directive',
      async (attempt) => {
        const known = attempt > 1 ? await this.store.find(intent) : undefined;
        return known
          ? { record: known, isNew: false }
          : this.store.add(intent, first && (() => asPart(given)));
      },
      isAnswer,
    );
  }

  override find(reference: DirectiveReference): Promise<DirectiveRecord | undefined> {
    return askStore(() => this.store.find(reference));
  }

  override list(query: DirectiveQuery): Promise<readonly DirectiveRecord[]> {
    return askStore(() => this.store.list(query));
  }

  /** The same owner gets its lease again. One that comes after the caller has left expires. */
  override acquire(
    reference: DirectiveReference,
    request: LeaseRequest,
  ): Promise<LeasedDirective | undefined> {
    return askStore(() => this.store.acquire(reference, request));
  }

  override renew(hold: DirectiveHold, forMs: number): Promise<boolean> {
    return askStore(() => this.store.renew(hold, forMs));
  }

  /** Changes a directive from one epoch and state; only their holder can. */
  override change(
    from: DirectiveVersion,
    change: DirectiveChange,
  ): Promise<DirectiveRecord | undefined> {
    return tellStore('The state of a directive', async (attempt) => {
      const changed = await this.store.change(from, change);
      if (changed || attempt === 1) return changed;
      const known = await this.store.find(from);
      return known?.status === change.status && known.epoch === from.epoch ? known : undefined;
    });
  }

  override work(
    perform: (reference: DirectiveReference) => Promise<void>,
    concurrency: number,
  ): Promise<StopWork> {
    return this.store.work((reference) => outsideOfRuns(() => perform(reference)), concurrency);
  }
}

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
