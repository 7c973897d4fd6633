import { randomUUID } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import { type FinishReason, InvalidRequestError } from '@toolloop/protocol';
import { BoundedStores } from '../call/bounded-stores.js';
import { outsideOfRuns, untilRunCloses } from '../call/store-calls.js';
import { Toolset } from '../catalog/toolset.js';
import type { RunHandle } from '../contracts/loop-request.js';
import type { Pending } from '../contracts/pending.js';
import {
  type NewRun,
  type RunEntry,
  RunLostError,
  type RunRecord,
  type RunWrite,
} from '../contracts/run-log.js';
import type { RunContext } from '../contracts/tool-call.js';
import { Logger } from '../findings/logger.js';
import { READ_EVERYTHING, labelledMessages } from '../loop/loop-state.js';
import { abandonStep } from '../loop/tool-message.js';
import { withdrawPending } from '../plugins/inbox/withdrawal.js';
import { withShownCalls } from '../plugins/rehearsals/shown-calls.js';
import { ActorIdentity } from '../policy/actor-identity.js';
import { renewContinued } from './continued-run.js';
import { HeldSuspension } from './held-suspension.js';
import { fromRunEntries, suspendedEntry } from './run-entries.js';
import {
  forgetPagesOf,
  keptBytesOf,
  type ProcessState,
  type ResumedRun,
  resumedState,
  type SavedRun,
} from './saved-run.js';

/** The runs that are suspended in the log, and those that were and continue in this process. */
@Injectable()
export class SuspendedRuns {
  private readonly logger = new Logger(SuspendedRuns.name);
  private readonly processStates = new Map<string, ProcessState>();
  private readonly continued = new Set<HeldSuspension>();
  private timer: NodeJS.Timeout | undefined;

  constructor(
    @Inject(BoundedStores)
    private readonly stores: Pick<BoundedStores, 'runs' | 'pending' | 'conversations'>,
    private readonly identity: ActorIdentity,
  ) {}

  /** Writes a run to the log until its actor resumes it; `held` where it was resumed before. */
  async suspend(
    { actorId, ...run }: SuspendedRun,
    saved: SavedRun,
    state: ProcessState,
    held?: HeldSuspension,
  ): Promise<void> {
    if (actorId === undefined) return;
    const entries = [suspendedEntry(saved)];
    const { waitingFor } = run;
    const ending = {
      status: 'waiting',
      finishReason: 'waiting',
      ...(waitingFor && { waitingFor }),
    } as const;
    if (held) await this.append(held, { entries, events: [], ending });
    else
      await untilRunCloses(
        'A waiting run',
        this.stores.runs.add({ ...run, actorId, entries }, 'waiting'),
      );
    this.remember(run.runId, state);
  }

  /** Keeps what a waiting run needs and no log can hold, for as long as the process lives. */
  remember(runId: string, state: ProcessState): void {
    this.processStates.set(runId, state);
    const [oldest] = this.processStates.keys();
    if (this.processStates.size > MOST_PROCESS_STATES && oldest !== undefined)
      this.processStates.delete(oldest);
    this.forgetPages();
  }

  /** Takes what was remembered. */
  recall(runId: string): ProcessState | undefined {
    const state = this.processStates.get(runId);
    this.processStates.delete(runId);
    return state;
  }

  /**
   * The run as it was suspended.
   *
   * @throws {InvalidRequestError} `unknown_run` for a run that does not wait, or is another
   *   actor's; which of the two is not told. `unreadable_run` for one that cannot be read.
   */
  async find(
    runId: string,
    { actor, tenant }: Pick<RunContext, 'actor' | 'tenant'>,
  ): Promise<ResumedRun> {
    const actorId = this.identity.idOf(actor);
    const isTheirs = (run: RunRecord | undefined): run is RunRecord =>
      run !== undefined &&
      run.request === undefined &&
      run.tenant === tenant &&
      run.actorId === actorId;
    const run = await this.stores.runs.find(runId);
    if (!isTheirs(run) || run.status === 'ended') throw unknownRun(runId);
    const saved = fromRunEntries(runId, await this.stores.runs.read(runId));
    if (!saved) throw unknownRun(runId);
    const state = this.processStates.get(runId);
    const place = { epoch: run.epoch, isTakenOver: run.status === 'running' };
    return {
      runId,
      saved,
      ...place,
      ...(run.loop !== undefined && { loop: run.loop }),
      ...(state && { processState: state }),
    };
  }

  /**
   * Takes a run that was found, to continue it here.
   *
   * @throws {InvalidRequestError} `unknown_run` where another caller has resumed it since.
   */
  async claim(
    { runId, epoch = 0 }: ResumedRun,
    run: Pick<RunHandle, 'cancel'>,
  ): Promise<HeldSuspension> {
    const acquired = await this.stores.runs.acquire(
      runId,
      { owner: randomUUID(), forMs: LEASE_MS },
      epoch,
    );
    if (!acquired)
      throw new InvalidRequestError(
        'unknown_run',
        `The run ${runId} has already been resumed elsewhere.`,
      );
    this.processStates.delete(runId);
    const held = new HeldSuspension({ runId, ...acquired.lease }, run);
    this.continued.add(held);
    this.timer ??= setInterval(() => void this.beat(), HEARTBEAT_MS).unref();
    if (acquired.cancelled !== undefined) run.cancel(acquired.cancelled);
    return held;
  }

  /** Lists what a run has asked and has no answer. */
  asked({ tenant, runId }: Pick<RunRecord, 'runId' | 'tenant'>): Promise<readonly Pending[]> {
    return this.stores.pending.list({ tenant, runId, pending: true });
  }

  /**
   * Writes how a run ended that was resumed. Where that is impossible it can be resumed once more,
   * and none of its calls is made a second time.
   */
  async end(held: HeldSuspension, finishReason: FinishReason): Promise<void> {
    if (held.isEnding || !held.isOurs) return;
    try {
      await this.append(held, {
        entries: [],
        events: [],
        ending: { status: 'ended', finishReason },
      });
    } catch (error) {
      if (held.isOurs)
        this.logger.warn(`The end of run ${held.hold.runId} could not be written.`, error);
    }
  }

  /**
   * Ends a run that waits. One that continues is ended by its process, which hears of it when it
   * renews its lease.
   */
  async cancel({
    runId,
    epoch,
    ...whose
  }: Pick<RunRecord, 'runId' | 'tenant' | 'actorId' | 'epoch'>): Promise<void> {
    const acquired = await this.stores.runs.acquire(
      runId,
      { owner: randomUUID(), forMs: LEASE_MS },
      epoch,
    );
    if (!acquired) return;
    this.processStates.delete(runId);
    // they are for its conversation alone
    const entries = await this.stores.runs.read(runId).catch(() => []);
    await this.stores.runs.append(
      { runId, ...acquired.lease },
      { entries: [], events: [], ending: { status: 'ended', finishReason: 'aborted' } },
    );
    await this.withdrawPending({ runId, tenant: whose.tenant });
    await this.tellCancelled({ runId, ...whose }, entries);
  }

  /** Tells the conversation that what waited in it was not made. */
  private async tellCancelled(
    { runId, ...whose }: Pick<RunRecord, 'runId' | 'tenant' | 'actorId'>,
    entries: readonly RunEntry[],
  ): Promise<void> {
    try {
      const saved = fromRunEntries(runId, entries);
      if (saved?.conversationId === undefined) return;
      const state = resumedState({ runId, saved }, Toolset.of([]));
      const { messages, records } = state.pending ? abandonStep(state, state.pending, []) : state;
      const added = withShownCalls(labelledMessages(messages.slice(saved.past), READ_EVERYTHING), {
        runId,
        records,
      });
      await this.stores.conversations.append(
        { ...whose, conversationId: saved.conversationId },
        added,
        runId,
      );
    } catch (error) {
      this.logger.warn(
        `The conversation of run ${runId} does not tell that it was cancelled.`,
        error,
      );
    }
  }

  /**
   * Withdraws what a run that has ended asked for. What stays open for a failure of the store
   * expires, and keeps no run from ending.
   */
  async withdrawPending(run: Pick<RunRecord, 'runId' | 'tenant'>): Promise<void> {
    try {
      const withdrawing = outsideOfRuns(() => withdrawPending(this.stores.pending, run));
      await untilRunCloses('The withdrawal of what a run asked', withdrawing);
    } catch (error) {
      this.logger.warn(`What run ${run.runId} asked could not be withdrawn.`, error);
    }
  }

  private async append(held: HeldSuspension, write: RunWrite): Promise<void> {
    held.isEnding = true;
    try {
      await untilRunCloses('The end of a resumed run', this.stores.runs.append(held.hold, write));
    } catch (error) {
      if (error instanceof RunLostError) held.lose();
      throw error;
    } finally {
      this.continued.delete(held);
      if (this.continued.size === 0) this.stopBeating();
    }
  }

  private stopBeating(): void {
    clearInterval(this.timer);
    this.timer = undefined;
  }

  private async beat(): Promise<void> {
    try {
      await renewContinued(this.stores.runs, [...this.continued], LEASE_MS);
    } catch (error) {
      this.logger.warn('The heartbeat of the resumed runs of this process failed.', error);
    }
  }

  /** Those of the longest waiting go first, which may never be resumed. */
  private forgetPages(): void {
    let bytes = 0;
    for (const state of [...this.processStates.values()].toReversed()) {
      bytes += keptBytesOf(state);
      if (bytes > MOST_KEPT_BYTES) forgetPagesOf(state);
    }
  }
}

const HEARTBEAT_MS = 3_000;

/** A process that has not renewed the lease of a run for so long is gone. */
const LEASE_MS = 15_000;

const MOST_PROCESS_STATES = 1_000;

/** The bytes of the results that all waiting runs keep. */
const MOST_KEPT_BYTES = 64 * 1024 * 1024;

/**
 * A run that is suspended for the first time, or once more. An actor without an id cannot be known
 * again, so such a run is never resumed.
 */
export type SuspendedRun = Pick<NewRun, 'runId' | 'tenant' | 'loop' | 'waitingFor'> &
  Partial<Pick<NewRun, 'actorId'>>;

function unknownRun(runId: string): InvalidRequestError {
  return new InvalidRequestError(
    'unknown_run',
    `No run ${JSON.stringify(runId.slice(0, 64))} of yours waits for a decision.`,
  );
}
