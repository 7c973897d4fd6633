import { setTimeout as wait } from 'node:timers/promises';
import type { LoopEventBody, Message } from '@toolloop/protocol';
import { untilAborted } from '../../contracts/interruption.js';
import { outsideOfRuns, untilRunCloses } from '../../call/store-calls.js';
import {
  type ConversationKey,
  type ConversationStore,
  type LeftInput,
  nameOf,
} from '../../contracts/conversation.js';
import type { RunHandle } from '../../contracts/loop-request.js';
import { Logger } from '../../findings/logger.js';
import { KeyedMutex } from '../inbox/keyed-mutex.js';
import { ConversationTurn } from './conversation-turn.js';

/**
 * Gives each conversation to one run at a time: in this process in the order in which they came,
 * and among processes by a lease that the store keeps.
 */
export class ConversationTurns {
  private readonly logger = new Logger(ConversationTurns.name);
  private readonly queues = new KeyedMutex();
  private readonly turns = new Map<string, ConversationTurn>();
  /**
   * The runs of this process that have the turn in a conversation, or are to have it, in the order
   * in which they came.
   */
  private readonly present = new Map<string, Set<TurnTaker>>();
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly store: Pick<ConversationStore, 'claim' | 'leave' | 'left' | 'take'>,
  ) {}

  /** A run is to have its turn. */
  enter(key: ConversationKey, run: TurnTaker): void {
    const present = this.present.get(nameOf(key)) ?? new Set();
    this.present.set(nameOf(key), present.add(run));
  }

  /** A run has ended, or has been given up. */
  leave(key: ConversationKey, run: TurnTaker): void {
    const present = this.present.get(nameOf(key));
    present?.delete(run);
    if (present?.size === 0) this.present.delete(nameOf(key));
  }

  /** Finds the run that came before a run which cuts the conversation, and cuts it alike. */
  twinOf(key: ConversationKey, run: TurnTaker): string | undefined {
    return this.before(key, run).find(({ cuts }) => cuts !== undefined && cuts === run.cuts)?.runId;
  }

  /**
   * Cancels the runs that came before a run which cuts the conversation, from the first one on that
   * fits, and returns their ids.
   */
  giveWay(
    key: ConversationKey,
    run: TurnTaker,
    fits: (other: TurnTaker) => boolean,
    reason: string,
  ): readonly string[] {
    const before = this.before(key, run);
    const first = before.findIndex(fits);
    const behind = first === -1 ? [] : before.slice(first);
    for (const other of behind) other.cancel(reason);
    return behind.map(({ runId }) => runId);
  }

  private before(key: ConversationKey, run: TurnTaker): readonly TurnTaker[] {
    const all = [...(this.present.get(nameOf(key)) ?? [])];
    return all.slice(0, Math.max(0, all.indexOf(run)));
  }

  /** Returns whether a run of this process has its turn, so that another one is queued. */
  isTaken(key: ConversationKey): boolean {
    return this.turns.has(nameOf(key));
  }

  /**
   * Resolves once it is the turn of a run, or to the id of the run of another process that has
   * taken its words. Rejects as soon as the signal is aborted.
   */
  take(
    key: ConversationKey,
    run: TurnTaker,
    { words, isContinued = false, signal }: TurnTerms,
  ): Promise<ConversationTurn | string> {
    const name = nameOf(key);
    const turn = new ConversationTurn(key, run, (one) => this.giveBack(one));
    const taking = new Promise<ConversationTurn | string>((resolve, reject) => {
      const begin = async (): Promise<void> => {
        this.turns.set(name, turn);
        this.timer ??= outsideOfRuns(() =>
          setInterval(() => void this.beat(), HEARTBEAT_MS).unref(),
        );
        resolve(turn);
        await turn.ended;
        if (this.turns.get(name) === turn) this.turns.delete(name);
        if (this.turns.size === 0) this.stopBeating();
      };
      const taken = async (): Promise<void> => {
        const claimed = await this.claimed(turn, { words, signal });
        if (typeof claimed === 'string') resolve(claimed);
        else if (claimed) await begin();
      };
      const queue = (): Promise<void> => this.queues.run(name, taken);
      (isContinued
        ? this.claim(turn).then((isOurs) => (isOurs ? begin() : queue()))
        : queue()
      ).catch(reject);
    });
    return untilAborted(taking, signal).catch((error: unknown) => {
      void taking.then(
        (late) => (typeof late === 'string' ? undefined : late.end(false)),
        () => undefined,
      );
      throw error;
    });
  }

  /**
   * Claims the lease, which another process may have; false where the run was interrupted
   * meanwhile. Until then its words are left for the run of that process; the id of that run where
   * it has taken them.
   */
  private async claimed(
    turn: ConversationTurn,
    { words, signal }: TurnTerms,
  ): Promise<boolean | string> {
    const { key, run } = turn;
    const { runId } = run;
    for (
      let pause = FIRST_PAUSE_MS;
      !signal.aborted;
      pause = Math.min(2 * pause, LONGEST_PAUSE_MS)
    ) {
      if (await this.claim(turn)) {
        const takenBy = words ? await this.takenBack(turn) : undefined;
        if (takenBy !== undefined) await this.giveBack(turn);
        return takenBy ?? true;
      }
      const takenBy = words && (await this.store.leave(key, { id: runId, texts: words }, LEASE_MS));
      if (takenBy !== undefined) return takenBy;
      await wait(pause);
    }
    if (words) await this.takenBack(turn);
    return false;
  }

  private claim({ key, run: { runId } }: ConversationTurn): Promise<boolean> {
    return this.store.claim(key, { owner: runId, forMs: LEASE_MS });
  }

  /** Takes back what a run has left; returns the id of the run that was faster. */
  private async takenBack({ key, run: { runId } }: ConversationTurn): Promise<string | undefined> {
    const takenBy = await this.store.take(key, runId, runId);
    return takenBy === runId ? undefined : takenBy;
  }

  /**
   * Gives the words of a run to the run of this process that has its turn. Those of a durable one
   * are left in the store first, which tells the process that begins it anew that they are taken.
   *
   * @returns the id of the run that has taken them; undefined where there is none, or it takes no
   *   more
   */
  async add(
    key: ConversationKey,
    { runId: id, isDurable }: TurnTaker,
    texts: readonly string[],
  ): Promise<string | undefined> {
    const takenBy = isDurable ? await this.store.leave(key, { id, texts }, LEASE_MS) : undefined;
    const { run } = this.turns.get(nameOf(key)) ?? {};
    if (takenBy !== undefined || !run || !(await run.takeIn({ id, texts }))) return takenBy;
    return (isDurable ? await this.store.take(key, id, run.runId) : undefined) ?? run.runId;
  }

  /**
   * Gives a run what was left for it. Only what it has taken counts as taken: the rest is for the
   * run behind it.
   */
  private async collect({ key, run }: ConversationTurn): Promise<void> {
    for (const left of await this.store.left(key, run.runId))
      if (await run.takeIn(left)) await this.store.take(key, left.id, run.runId);
  }

  /** A turn that cannot be given back expires. */
  private async giveBack({ key, run: { runId } }: ConversationTurn): Promise<void> {
    try {
      const giving = outsideOfRuns(() => this.store.claim(key, { owner: runId, forMs: 0 }));
      await untilRunCloses('The turn of a run in its conversation', giving);
    } catch (error) {
      this.logger.warn(
        `The conversation of run ${runId} is free again only in ${LEASE_MS} ms.`,
        error,
      );
    }
  }

  private stopBeating(): void {
    clearInterval(this.timer);
    this.timer = undefined;
  }

  private async beat(): Promise<void> {
    for (const turn of this.turns.values())
      try {
        if (await this.claim(turn)) await this.collect(turn);
        else
          this.logger.warn(
            `Run ${turn.run.runId} has lost its turn in its conversation: it was not renewed for ${LEASE_MS} ms.`,
          );
      } catch (error) {
        this.logger.warn(
          `The turn of run ${turn.run.runId} in its conversation could not be renewed.`,
          error,
        );
      }
  }
}

/** The warning of a run that waits for its turn. */
export const BUSY: LoopEventBody = {
  type: 'warning',
  code: 'conversation_busy',
  message: 'Another run of this conversation is under way. This one begins after it.',
};

/** A process that has not renewed the lease of a turn for so long is gone. */
const LEASE_MS = 15_000;

const HEARTBEAT_MS = 3_000;

/** The pauses of who waits for a turn that another process has. */
const FIRST_PAUSE_MS = 20;

const LONGEST_PAUSE_MS = 500;

/** A run that has its turn, or waits for it. */
export interface TurnTaker extends Pick<RunHandle, 'runId'> {
  /** True for a run that another process may begin anew, with its words. */
  readonly isDurable: boolean;
  /** Takes in what another run has said, once; false where it takes nothing, or nothing yet. */
  takeIn(left: LeftInput): Promise<boolean>;
  /**
   * The place at which the run cuts its conversation with the words that it answers, as one text:
   * equal ones are asked once. Absent for a run that cuts nothing.
   */
  readonly cuts?: string | undefined;
  /** The ids under which the run and the words that it answers are found. */
  readonly names: readonly string[];
  cancel(reason: string): void;
}

/** The wishes of a run for its turn. */
export interface TurnTerms {
  /** The words of the user that may go in to the run under way instead. @default none */
  readonly words?: readonly string[] | undefined;
  /**
   * True for a run that was begun before: where its process has died, the turn is still its own,
   * and runs of this process that wait for it would otherwise keep it from it.
   * @default false
   */
  readonly isContinued?: boolean;
  readonly signal: AbortSignal;
}

/** Returns the words of the user; undefined where they are more than text. */
export function listWordsOfUser(messages: readonly Message[]): readonly string[] | undefined {
  const texts = messages.flatMap(({ content }) => (typeof content === 'string' ? [content] : []));
  return texts.length < messages.length ? undefined : texts;
}
