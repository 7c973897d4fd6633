import type { LoopEventBody, Message } from '@toolloop/protocol';
import type { Told } from '../../call/emit-event.js';
import type {
  ConversationKey,
  ConversationStore,
  LeftInput,
} from '../../contracts/conversation.js';
import { untilAborted } from '../../contracts/interruption.js';
import type { RunHandle } from '../../contracts/loop-request.js';
import type { RunInputs } from '../../run/run-inputs.js';
import type { RunPlan } from '../../run/run-plan.js';
import type { ConversationCuts, CuttingRun } from './conversation-cuts.js';
import type { ConversationTurn } from './conversation-turn.js';
import {
  BUSY,
  type ConversationTurns,
  listWordsOfUser,
  type TurnTaker,
} from './conversation-turns.js';

/** The place of a run in its conversation: its turn, the messages before it, those that it adds. */
export class RunConversation implements TurnTaker {
  readonly runId: string;
  readonly isDurable: boolean;
  readonly cuts: string | undefined;
  readonly names: readonly string[];
  private turn: ConversationTurn | undefined;

  constructor(
    private readonly key: ConversationKey,
    private readonly run: ConversedRun,
    private readonly services: ConversationServices,
  ) {
    const { runId, isDurable, plan } = run;
    const { cut } = plan.options;
    this.runId = runId;
    this.isDurable = isDurable;
    this.names = [runId, ...plan.messages.flatMap(messageIdOf)];
    this.cuts =
      cut && JSON.stringify([cut.at, cut.after, plan.messages.map(({ content }) => content)]);
  }

  cancel(reason: string): void {
    this.run.cancel(reason);
  }

  /**
   * Takes in what another run of the conversation has said, once; false if the run takes nothing
   * more, or nothing yet, since another process would not know of it. A rehearsal takes nothing,
   * nor does a run whose request calls the user's words public: the other request may not.
   */
  async takeIn(left: LeftInput): Promise<boolean> {
    const { rehearse, labels } = this.run.plan.options;
    return (
      !this.run.isElsewhere() &&
      !rehearse &&
      labels?.reads !== 'public' &&
      this.run.inputs.takeLeft(left, this.isDurable)
    );
  }

  /**
   * Waits for the run's turn, and cuts the conversation if the run says so. Returns the id of the
   * run that has taken its message instead.
   */
  async enter(): Promise<string | undefined> {
    const { cutting } = this;
    const { cuts, turns } = this.services;
    turns.enter(this.key, this);
    if (!cutting) return this.takeTurn();
    const gaveWay = await this.untilAborted(cuts.begin(cutting));
    if (typeof gaveWay === 'string') return gaveWay;
    return (await this.takeTurn()) ?? this.untilAborted(cuts.complete(cutting, gaveWay));
  }

  private async takeTurn(): Promise<string | undefined> {
    const { turns } = this.services;
    const { signal, isContinued } = this.run;
    const words = this.wordsToAdd();
    const addedTo = words && (await turns.add(this.key, this, words));
    if (addedTo !== undefined) return addedTo;
    if (turns.isTaken(this.key)) await this.run.emit(BUSY);
    const taken = await turns.take(this.key, this, { words, isContinued, signal });
    if (typeof taken === 'string') return taken;
    this.turn = taken;
    return undefined;
  }

  /** The words that a run under way may take in. What is to be rehearsed is not done. */
  private wordsToAdd(): readonly string[] | undefined {
    const { isContinued, plan } = this.run;
    const { whenBusy, rehearse, cut } = plan.options;
    const isAdded = whenBusy === 'addInput' && !isContinued && !rehearse && !cut;
    return isAdded ? listWordsOfUser(plan.messages) : undefined;
  }

  /** The cut that the run makes; undefined if it makes none, or has made it before. */
  private get cutting(): CuttingRun | undefined {
    const { plan, isContinued } = this.run;
    const { cut } = plan.options;
    return cut && !isContinued
      ? { key: this.key, run: this, cut, words: plan.messages }
      : undefined;
  }

  /** Reads the messages before the run, and the changes that stand of an answer that it cuts. */
  async read(): Promise<ConversationBefore> {
    const { conversations, cuts } = this.services;
    const earlier = await this.untilAborted(conversations.load(this.key));
    const { cutting } = this;
    const standing = cutting ? await this.untilAborted(cuts.standing(cutting)) : [];
    return { earlier, standing };
  }

  append(messages: readonly Message[]): Promise<void> {
    return this.services.conversations.append(this.key, messages, this.runId);
  }

  /** Ends the run's turn. */
  async leave(): Promise<void> {
    this.services.turns.leave(this.key, this);
    await this.turn?.end(this.run.isElsewhere());
  }

  private untilAborted<Value>(asked: Promise<Value>): Promise<Value> {
    return untilAborted(asked, this.run.signal);
  }
}

/** The messages that a conversation holds before a run. */
export interface ConversationBefore {
  readonly earlier: readonly Message[];
  /** The steps of a cut answer in which something was changed. */
  readonly standing: readonly Message[];
}

/** A run that stands in a conversation. */
export interface ConversedRun extends Pick<RunHandle, 'runId' | 'cancel'> {
  readonly plan: Pick<RunPlan, 'messages' | 'options'>;
  readonly inputs: Pick<RunInputs, 'takeLeft'>;
  /** True for a run that another process may begin anew, with its words. */
  readonly isDurable: boolean;
  /** True for a run that was begun before, and waited. */
  readonly isContinued: boolean;
  readonly signal: AbortSignal;
  /** Returns whether another process continues the run. */
  isElsewhere(): boolean;
  emit(event: LoopEventBody): Told;
}

/** The services of all conversations. */
export interface ConversationServices {
  readonly conversations: Pick<ConversationStore, 'load' | 'append'>;
  readonly turns: Pick<ConversationTurns, 'add' | 'isTaken' | 'take' | 'enter' | 'leave'>;
  readonly cuts: Pick<ConversationCuts, 'begin' | 'complete' | 'standing'>;
}

function messageIdOf(message: Message): readonly string[] {
  return message.role === 'user' && message.messageId !== undefined ? [message.messageId] : [];
}
