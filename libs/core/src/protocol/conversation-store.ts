import type { Message } from './message.js';

/** Whose conversation it is. An id alone opens nothing: tenant and actor are part of the key. */
export interface ConversationKey {
  readonly tenant: string;
  readonly actorId: string;
  readonly conversationId: string;
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
}
