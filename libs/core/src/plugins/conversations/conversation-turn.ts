import type { ConversationKey } from '../../contracts/conversation.js';
import type { TurnTaker } from './conversation-turns.js';

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

  /**
   * Ends the turn. Where another process continues the run, the lease is that one's: it has the
   * same owner.
   */
  async end(isElsewhere: boolean): Promise<void> {
    try {
      if (!isElsewhere) await this.giveBack(this);
    } finally {
      this.over();
    }
  }
}
