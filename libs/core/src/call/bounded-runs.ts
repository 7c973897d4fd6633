import { StorageUnavailableError } from '@toolloop/protocol';
import {
  type RunHold,
  type RunLog,
  RunLostError,
  type RunRecord,
  type RunWrite,
} from '../contracts/run-log.js';
import { boundStore } from './bounded-store.js';
import { askStore, outsideOfRuns } from './store-calls.js';

/** A write is no part of the run that it is about: it is kept even if the run is interrupted. */
export function boundRuns(log: RunLog): RunLog {
  const release: RunLog['release'] = (hold, putOff) =>
    outsideOfRuns(() => askStore(() => log.release(hold, putOff)));
  return boundStore(log, {
    release,
    renew: 'askOutside',
    requeueExpired: 'askOutside',
    wake: 'askOutside',
    wakeAt: 'askOutside',
    cancel: 'askOutside',
    find: 'ask',
    list: 'ask',
    read: 'ask',
    events: 'ask',
    // what is kept or dropped twice is kept or dropped once
    owe: 'askOutside',
    listOwed: 'askOutside',
    settle: 'askOutside',

    /** Takes as long as it takes; if it fails, the application does not start. */
    open: () =>
      askStore(() => log.open(), {
        isRepeatable: false,
        longestMs: Infinity,
        isAnswer: () => true,
      }),

    /**
     * The id of a waiting run is its own, so one that is there already was added by an attempt
     * without an answer. A queued one is recognised by the caller.
     */
    add(run, status) {
      const add = () => log.add(run, status);
      const addWaiting = async (attempt: number): Promise<void> => {
        await addedOnce(attempt, add, () => log.find(run.runId));
      };
      return outsideOfRuns(() => askStore(status === 'waiting' ? addWaiting : add));
    },

    /** The same owner gets the lease of an attempt without an answer. */
    begin(run, request) {
      const leased = async () => (await log.acquire(run.runId, request))?.lease;
      return outsideOfRuns(() =>
        askStore((attempt) => addedOnce(attempt, () => log.begin(run, request), leased)),
      );
    },

    /** The same owner gets its lease again; one that comes after its run has ended is returned. */
    acquire: (runId, request, epoch) =>
      askStore(() => log.acquire(runId, request, epoch), {
        late: (run) => run && release({ runId, ...run.lease }),
      }),

    append: (hold, write) => outsideOfRuns(() => askStore(() => append(log, hold, write))),

    watch: (runId, changed) => askStore(() => log.watch(runId, changed), { late: (end) => end() }),

    work: (advance, most) => log.work((runId) => outsideOfRuns(() => advance(runId)), most),
  });
}

/**
 * The same write twice is kept once. One with an ending is refused once it is kept, so the run is
 * looked at then.
 */
async function append(log: RunLog, hold: RunHold, write: RunWrite): ReturnType<RunLog['append']> {
  try {
    return await log.append(hold, write);
  } catch (error) {
    const isKept =
      write.ending !== undefined &&
      error instanceof RunLostError &&
      hasEnded(await log.find(hold.runId), hold, write);
    if (!isKept) throw error;
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
