import type {
  AnsweredRequest,
  Ask,
  ConversationEntry,
  ConversationPage,
  ToolLoopClient,
} from '@toolloop/client';
import type { LoopEvent, PendingReply } from '@toolloop/protocol';
import { isWaiting, keptTurns, withRequests } from './kept-turns.js';
import { LookTimes, type Notices } from './look-times.js';
import { isAbort, Observed, toError } from './observed.js';
import { EMPTY_RUN, type RunView, withEvent } from './run-view.js';

/**
 * A conversation: it asks, reads the events of the answers, and answers what they ask. It outlives
 * the components that show it.
 *
 * @example
 * const thread = new Thread(client);
 * await thread.ask('What is the average spend of John Smith?');
 */
export class Thread extends Observed<ThreadState> {
  readonly conversationId: string;
  private readonly isDurable: boolean;
  private readonly looks: LookTimes;
  private reading = new AbortController();
  /** The runs that are resumed, and whether one was answered once more meanwhile. */
  private readonly resuming = new Map<string, boolean>();

  constructor(
    private readonly client: ToolLoopClient,
    { conversationId = crypto.randomUUID(), durable = true, notices }: ThreadOptions = {},
  ) {
    super({ turns: [], status: 'idle' });
    this.conversationId = conversationId;
    this.isDurable = durable;
    this.looks = new LookTimes(notices);
  }

  /**
   * Reads the turns of the conversation from before the page was loaded, with their calls and what
   * these ask, and keeps the latest. Once there are any, it reads none.
   */
  async recall(): Promise<void> {
    if (this.hasTurns) return;
    const earlier: ConversationEntry[] = [];
    for (let from: number | undefined = 0; from !== undefined;) {
      const page: ConversationPage = await this.client.conversation(this.conversationId, from);
      earlier.push(...page.entries);
      from = page.next;
    }
    const turns = await Promise.all(
      keptTurns(earlier)
        .slice(-MOST_EARLIER)
        .map((turn) => this.withOpen(turn)),
    );
    if (this.hasTurns) return;
    this.show({ turns });
    this.settle();
    this.follow(turns.at(-1));
  }

  private get hasTurns(): boolean {
    return this.snapshot().turns.length > 0;
  }

  /** Adds what the calls of a turn ask that wait. */
  private async withOpen(turn: Turn): Promise<Turn> {
    const { runId } = turn.run;
    return isWaiting(turn) && runId !== undefined
      ? withRequests(turn, await this.client.pending({ runId }))
      : turn;
  }

  /** Reads the events of a durable run that waits, and that continues by itself. */
  private follow(turn: Turn | undefined): void {
    const { runId, status } = turn?.run ?? EMPTY_RUN;
    if (!turn || runId === undefined || status !== 'waiting' || !this.isDurable) return;
    this.change(turn.id, () => ({ run: { ...EMPTY_RUN, runId, status } }));
    void this.read(
      turn.id,
      this.client.events(runId, { leaveWhenWaiting: this.looks.times, signal: this.signal }),
    );
  }

  /** Asks, and resolves once the answer is complete or waits for someone. */
  async ask(message: string, options: Pick<Ask, 'rehearse'> = {}): Promise<void> {
    await this.send(message, options, crypto.randomUUID());
  }

  /**
   * Has a question answered anew, or another in its place, and resolves as {@link ask} does. What
   * was said from there on goes; what it changed stands, and is shown in the new answer.
   *
   * @param message the words in the place of the question's. @default the same words
   * @example
   * await thread.askAnew(turn.id);
   */
  async askAnew(turnId: string, message?: string): Promise<void> {
    const { turns } = this.snapshot();
    const index = turns.findIndex(({ id }) => id === turnId);
    const turn = turns[index];
    if (!turn) return;
    const before = turns.slice(0, index);
    const { messageId = crypto.randomUUID(), run } = turn;
    this.leave();
    this.show({ turns: before });
    const after = before.flatMap((one) => one.run.runId ?? []).slice(-MOST_EARLIER);
    await this.send(
      message ?? turn.question,
      { cut: { at: [...(run.runId === undefined ? [] : [run.runId]), messageId], after } },
      messageId,
    );
  }

  private async send(
    message: string,
    options: Pick<Ask, 'rehearse' | 'cut'>,
    messageId: string,
  ): Promise<void> {
    const id = crypto.randomUUID();
    const turn: Turn = { id, question: message, messageId, run: EMPTY_RUN };
    this.show({ turns: [...this.snapshot().turns, turn], status: 'answering' });
    const { conversationId, isDurable: durable, signal } = this;
    const reading = { durable, requestId: id, leaveWhenWaiting: this.looks.times, signal };
    await this.read(
      id,
      this.client.ask({ message, conversationId, messageId, ...options }, reading),
    );
  }

  /** Answers what a call asks, and reads on. */
  async answer(runId: string, reply: PendingReply): Promise<AnsweredRequest> {
    const answered = await this.client.answer(runId, reply);
    this.readOn(runId);
    return answered;
  }

  /**
   * Reads on a run of the conversation once what it asked is answered, wherever that was. A durable
   * one continues by itself, and is found sooner.
   */
  readOn(runId: string): void {
    this.looks.now();
    const turn = this.snapshot().turns.find(({ run }) => run.runId === runId);
    // a notice may come after the end
    if (!turn || this.isDurable || turn.run.status === 'ended') return;
    const isUnderWay = this.resuming.has(runId);
    this.resuming.set(runId, isUnderWay);
    if (!isUnderWay) void this.resume(runId, turn.id).finally(() => this.resuming.delete(runId));
  }

  /**
   * Resumes a run, and once more where it waits again for something that was answered meanwhile.
   */
  private async resume(runId: string, turnId: string): Promise<void> {
    for (let isAgain = true; isAgain;) {
      this.resuming.set(runId, false);
      await this.read(turnId, this.client.resume(runId, this.signal));
      const turn = this.snapshot().turns.find(({ id }) => id === turnId);
      isAgain =
        this.resuming.get(runId) === true &&
        turn?.run.status === 'waiting' &&
        turn.error === undefined;
    }
  }

  /** The signal of everything that is read until the page is left. */
  private get signal(): AbortSignal {
    if (this.reading.signal.aborted) this.reading = new AbortController();
    return this.reading.signal;
  }

  /** Stops the run that answers. */
  async stop(): Promise<void> {
    const { run } = this.snapshot().turns.at(-1) ?? {};
    if (run?.runId !== undefined && run.status !== 'ended') await this.client.cancel(run.runId);
    this.looks.now();
    if (!this.isDurable || run?.runId === undefined) this.leave();
  }

  /** Stops reading, such as when the page is left. A durable run continues. */
  leave(): void {
    this.reading.abort();
  }

  private async read(id: string, events: AsyncIterable<LoopEvent>): Promise<void> {
    try {
      for await (const event of events)
        this.change(id, ({ run }) => ({ run: withEvent(run, event) }));
      this.settle();
    } catch (thrown) {
      if (!isAbort(thrown)) this.change(id, () => ({ error: toError(thrown) }));
      if (this.snapshot().turns.at(-1)?.id === id) this.show({ status: 'idle' });
    }
  }

  private settle(): void {
    const last = this.snapshot().turns.at(-1);
    this.show({ status: last?.run.status === 'waiting' ? 'waiting' : 'idle' });
  }

  private change(id: string, change: (turn: Turn) => Partial<Turn>): void {
    const before = this.snapshot().turns;
    const index = before.findIndex((turn) => turn.id === id);
    const turn = before[index];
    if (!turn) return;
    const turns = before.with(index, { ...turn, ...change(turn) });
    const { status } = turns.at(-1)?.run ?? EMPTY_RUN;
    this.show({
      turns,
      status: status === 'ended' ? 'idle' : status === 'waiting' ? 'waiting' : 'answering',
    });
  }
}

/** A question of a conversation, and the run that answers it. */
export interface Turn {
  readonly id: string;
  readonly question: string;
  readonly run: RunView;
  /**
   * The id of the question, under which it is found again when it is asked anew. Absent for one
   * that a client without ids has asked.
   */
  readonly messageId?: string;
  /**
   * Set for a turn that was read from the conversation: of its run no more is known than that
   * keeps.
   */
  readonly isKept?: true;
  /** The failure of asking or reading; that of the run itself is in its view. */
  readonly error?: Error;
}

/** A conversation as a page shows it. */
export interface ThreadState {
  /** With those from before the page was loaded, once {@link Thread.recall} has read them. */
  readonly turns: readonly Turn[];
  /** `waiting`: its last run waits for an answer of a person or of the client. */
  readonly status: 'idle' | 'answering' | 'waiting';
}

/** Options of a {@link Thread}. */
export interface ThreadOptions {
  /** @default a new conversation */
  readonly conversationId?: string;
  /** Lets runs outlive the page and be read again. @default true */
  readonly durable?: boolean;
  /**
   * Tells that a run may have moved. @default none: one that waits is looked at every 3 s while the
   * page is shown
   */
  readonly notices?: Notices;
}

/** A page shows no more turns of before than these. */
const MOST_EARLIER = 100;
