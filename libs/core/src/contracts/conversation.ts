import type { Message } from '@toolloop/protocol';
import type { LeaseRequest } from './lease.js';

/**
 * The port that stores conversations between runs.
 *
 * @example
 * { provide: ConversationStore, useClass: RedisConversationStore }
 */
export abstract class ConversationStore {
  /** Returns the messages of a conversation; none if it does not exist. */
  abstract load(key: ConversationKey): Promise<readonly Message[]>;
  /**
   * Appends what a run added, as one unit, so that no call is kept without its result. What the
   * same run had appended before is replaced, in its place: a durable run whose process died at its
   * end ends once more.
   */
  abstract append(
    key: ConversationKey,
    messages: readonly Message[],
    runId?: string,
  ): Promise<void>;
  /** Those of one actor in one tenant, the last used first. */
  abstract list(
    owner: ConversationOwner,
    listing?: ConversationListing,
  ): Promise<readonly ConversationSummary[]>;
  /** In order; empty past the end, and for a conversation that does not exist. */
  abstract read(key: ConversationKey, page: MessagePage): Promise<readonly Message[]>;
  /**
   * Leases the turn in a conversation, whether it has messages or not, and returns whether this
   * owner has it: of its runs one is under way at a time. Another owner gets it once the lease has
   * expired; the same owner gets it again, for 0 ms to give it back.
   */
  abstract claim(key: ConversationKey, request: LeaseRequest): Promise<boolean>;
  /**
   * Leaves words for the run that has the turn, in whichever process, and returns the id of the run
   * that has taken them by then. Again with the same id they are left for longer, and stay the same
   * words. Once their time is over no run finds them any more; who has taken them is told for a
   * day.
   */
  abstract leave(
    key: ConversationKey,
    input: LeftInput,
    forMs: number,
  ): Promise<string | undefined>;
  /**
   * Returns what was left and is not taken, in order, to the run that has the turn; nothing to any
   * other.
   */
  abstract left(key: ConversationKey, owner: string): Promise<readonly LeftInput[]>;
  /**
   * Has a run take words that were left, unless another one has, and returns the id of the run that
   * has; undefined where none were left under the id.
   */
  abstract take(key: ConversationKey, id: string, owner: string): Promise<string | undefined>;
  /**
   * Finds a turn by the id of its run, or by the client's own id (`messageId`) of words of the user
   * in it: the latest that is part of the conversation, else the latest that was cut; undefined if
   * neither is kept.
   */
  abstract turn(key: ConversationKey, id: string): Promise<KeptTurn | undefined>;
  /**
   * Cuts turns for a run. They are not loaded, read, counted or listed any more, and what their run
   * appends takes their place unseen. Atomic: of two runs that cut a turn at once one has cut it.
   * Deleting the conversation deletes them.
   */
  abstract cut(key: ConversationKey, turns: CutTurns, runId: string): Promise<void>;
  /** Returns the turns that a run has cut, in order. */
  abstract cutBy(key: ConversationKey, runId: string): Promise<readonly KeptTurn[]>;
  /** Resolves to true where there was one. A run of it that is still running begins it anew. */
  abstract delete(key: ConversationKey): Promise<boolean>;
}

/** The key of a conversation. An id alone opens nothing: tenant and actor are part of the key. */
export interface ConversationKey {
  readonly tenant: string;
  readonly actorId: string;
  readonly conversationId: string;
}

/** Returns the key as one text, by which something of a conversation is kept. */
export function nameOf({ tenant, actorId, conversationId }: ConversationKey): string {
  return JSON.stringify([tenant, actorId, conversationId]);
}

export type ConversationOwner = Pick<ConversationKey, 'tenant' | 'actorId'>;

/** A conversation in a list. */
export interface ConversationSummary {
  readonly conversationId: string;
  readonly messages: number;
  /** The time of the last append: ISO 8601, UTC. */
  readonly updatedAt: string;
}

/** A selection of conversations. */
export interface ConversationListing {
  /** @default 100 */
  readonly limit?: number;
  /** The id of the last one of the page before. */
  readonly after?: string;
}

/** A selection of messages. */
export interface MessagePage {
  /** Position of the first one, from 0, among those that are kept. */
  readonly from: number;
  readonly limit: number;
}

/** The place at which a conversation is cut. */
export interface ConversationCut {
  /**
   * The ids under which the place is looked for, in this order: of a run, whose question and answer
   * go, or the client's own of a message of the user (`messageId`). What follows goes too. An
   * answer that has taken the place of the one that is named is meant as well.
   */
  readonly at: readonly string[];
  /**
   * The ids of runs whose answers stay, the latest last. If no place is found, the conversation
   * ends behind the latest of them that is found; without one it stays whole. @default none
   */
  readonly after?: readonly string[];
}

/** The turn of a conversation that one run added. */
export interface KeptTurn {
  /** The place in the order of the turns. A turn that is added later has a larger one. */
  readonly position: number;
  /** The run that added it; absent if none was named. */
  readonly runId?: string;
  readonly messages: readonly Message[];
  /** The run for which the turn was cut. Absent while it is part of the conversation. */
  readonly cutBy?: string;
}

/**
 * The turns to cut: those from a position on, or those that another run has cut, whose answer was
 * never kept.
 */
export type CutTurns = { readonly from: number } | { readonly cutBy: string };

/** Words of the user that are left for a run which another process may have. */
export interface LeftInput {
  readonly id: string;
  readonly texts: readonly string[];
}

/** A day: for so long a run that begins anew is told which run has taken its words. */
export const TAKEN_TOLD_MS = 86_400_000;
