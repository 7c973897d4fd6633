import type { Message } from './message.js';

/** Whose conversation it is. An id alone opens nothing: tenant and actor are part of the key. */
export interface ConversationKey {
  readonly tenant: string;
  readonly actorId: string;
  readonly conversationId: string;
}

/** Whose conversations. */
export type ConversationOwner = Pick<ConversationKey, 'tenant' | 'actorId'>;

/** A conversation in a list. */
export interface ConversationSummary {
  readonly conversationId: string;
  /** How many are kept. */
  readonly messages: number;
  /** When something was appended last; ISO 8601, UTC. */
  readonly updatedAt: string;
}

/** Which conversations to list. */
export interface ConversationListing {
  /** @default 100 */
  readonly limit?: number;
  /** The id of the last one of the page before. */
  readonly after?: string;
}

/** Which messages to read. */
export interface MessagePage {
  /** Position of the first one, from 0, among those that are kept. */
  readonly from: number;
  readonly limit: number;
}

/** The port that keeps conversations between runs. */
export abstract class ConversationStore {
  /** Empty for a conversation that does not exist. */
  abstract load(key: ConversationKey): Promise<readonly Message[]>;
  /**
   * Appends what a run added, as one unit, so that no call is kept without its result. What the same run had appended before is replaced, in its place: a durable run
   * whose process died at its end ends once more.
   */
  abstract append(key: ConversationKey, messages: readonly Message[], runId?: string): Promise<void>;
  /** Those of one actor in one tenant, the last used first. */
  abstract list(owner: ConversationOwner, listing?: ConversationListing): Promise<readonly ConversationSummary[]>;
  /** In order; empty past the end, and for a conversation that does not exist. */
  abstract read(key: ConversationKey, page: MessagePage): Promise<readonly Message[]>;
  /** Whether there was one. A run of it that still goes on begins it anew. */
  abstract delete(key: ConversationKey): Promise<boolean>;
}
