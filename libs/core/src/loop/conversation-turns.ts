import { setTimeout as wait } from 'node:timers/promises';
import { Logger } from '@nestjs/common';
import type { Message } from '@toolloop/protocol';
import type { ConversationKey, ConversationStore } from '../contracts/conversation.js';
import type { RunHandle } from '../contracts/loop-request.js';
import { untilAborted } from '../execution/call-failure.js';
import { outsideOfRuns, untilRunCloses } from '../execution/store-calls.js';
import { KeyedMutex } from '../pending/keyed-mutex.js';

/** A run that has its turn, or waits for it. */
type TurnTaker = Pick<RunHandle, 'runId' | 'addInput'>;

/** A process that has not renewed the lease of a turn for so long is gone. */
const LEASE_MS = 15_000;
const HEARTBEAT_MS = 3_000;
/** The pauses of who waits for a turn that another process has. */
const FIRST_PAUSE_MS = 20;
const LONGEST_PAUSE_MS = 500;

/** The turn of a run in its conversation. */
export class ConversationTurn {
  /** Settles once the next run of this process may have its turn. */
  readonly ended: Promise<void>;
  private over: () => void = () => undefined;

  constructor(
    readonly key: ConversationKey,
    readonly run: TurnTaker,
    private readonly giveBack: (turn: ConversationTurn) => Promise<void>,
  ) {
    this.ended = new Promise((resolve) => (this.over = resolve));
  }

  /** Ends the turn. Where another process continues the run, the lease is that one's: it has the same owner. */
  async end(isElsewhere: boolean): Promise<void> {
    try {
      if (!isElsewhere) await this.giveBack(this);
    } finally {
      this.over();
    }
  }
}

/** Gives each conversation to one run at a time: in this process in the order in which they came, and among processes by a lease that the store keeps. */
export class ConversationTurns {
  private readonly logger = new Logger(ConversationTurns.name);
  private readonly queues = new KeyedMutex();
  private readonly turns = new Map<string, ConversationTurn>();
  private timer: NodeJS.Timeout | undefined;

  constructor(private readonly store: Pick<ConversationStore, 'claim'>) {}

  /** Returns whether a run of this process has its turn, so that another one is queued. */
  isTaken(key: ConversationKey): boolean {
    return this.turns.has(nameOf(key));
  }

  /** Resolves once it is the turn of a run. Rejects as soon as the signal is aborted. */
  take(key: ConversationKey, run: TurnTaker, signal: AbortSignal): Promise<ConversationTurn> {
    const name = nameOf(key);
    const turn = new ConversationTurn(key, run, (one) => this.giveBack(one));
    const taking = new Promise<ConversationTurn>((resolve, reject) => {
      const taken = async (): Promise<void> => {
        if (!(await this.claimed(turn, signal))) return;
        this.turns.set(name, turn);
        this.timer ??= outsideOfRuns(() => setInterval(() => void this.beat(), HEARTBEAT_MS).unref());
        resolve(turn);
        await turn.ended;
        this.turns.delete(name);
        if (this.turns.size === 0) this.stopBeating();
      };
      this.queues.run(name, taken).catch(reject);
    });
    return untilAborted(taking, signal).catch((error: unknown) => {
      void taking.then(
        (late) => late.end(false),
        () => undefined,
      );
      throw error;
    });
  }

  /** Claims the lease, which another process may have; false where the run was interrupted meanwhile. */
  private async claimed({ key, run: { runId } }: ConversationTurn, signal: AbortSignal): Promise<boolean> {
    for (let pause = FIRST_PAUSE_MS; !signal.aborted; pause = Math.min(2 * pause, LONGEST_PAUSE_MS)) {
      if (await this.store.claim(key, { owner: runId, forMs: LEASE_MS })) return true;
      await wait(pause);
    }
    return false;
  }

  /**
   * Gives the words of the user to the run of this process that has its turn.
   *
   * @returns the id of that run; undefined where there is none, it takes no more, or the words are more than text
   */
  add(key: ConversationKey, messages: readonly Message[]): string | undefined {
    const { run } = this.turns.get(nameOf(key)) ?? {};
    const texts = messages.flatMap(({ content }) => (typeof content === 'string' ? [content] : []));
    if (!run || texts.length < messages.length) return undefined;
    try {
      for (const text of texts) run.addInput(text);
      return run.runId;
    } catch {
      return undefined; // it is about to end
    }
  }

  /** A turn that cannot be given back expires. */
  private async giveBack({ key, run: { runId } }: ConversationTurn): Promise<void> {
    try {
      const giving = outsideOfRuns(() => this.store.claim(key, { owner: runId, forMs: 0 }));
      await untilRunCloses('The turn of a run in its conversation', giving);
    } catch (error) {
      this.logger.warn(`The conversation of run ${runId} is free again only in ${LEASE_MS} ms.`, error);
    }
  }

  private stopBeating(): void {
    clearInterval(this.timer);
    this.timer = undefined;
  }

  private async beat(): Promise<void> {
    for (const { key, run } of this.turns.values())
      try {
        if (await this.store.claim(key, { owner: run.runId, forMs: LEASE_MS })) continue;
        this.logger.warn(`Run ${run.runId} has lost its turn in its conversation: it was not renewed for ${LEASE_MS} ms.`);
      } catch (error) {
        this.logger.warn(`The turn of run ${run.runId} in its conversation could not be renewed.`, error);
      }
  }
}

function nameOf({ tenant, actorId, conversationId }: ConversationKey): string {
  return JSON.stringify([tenant, actorId, conversationId]);
}
