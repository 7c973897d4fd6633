import type { ToolLoopClient, WaitingRequest } from '@toolloop/client';
import type { PendingReply } from '@toolloop/protocol';
import { Observed, toError } from './observed.js';

/**
 * The list of what waits for the actor. The page that shows it says when to look: it asks nothing
 * by itself.
 */
export class PendingList extends Observed<PendingState> {
  private looking: Promise<void> | undefined;
  private next: Promise<void> | undefined;

  constructor(private readonly client: ToolLoopClient) {
    super({ requests: [], isLoading: true });
  }

  /**
   * Looks at what waits now. While a look is under way, whose answer may be older than the change,
   * one more follows it, however often it is asked for.
   */
  refresh(): Promise<void> {
    if (this.looking) return (this.next ??= this.looking.then(() => this.refresh()));
    this.next = undefined;
    this.looking = this.look().finally(() => (this.looking = undefined));
    return this.looking;
  }

  private async look(): Promise<void> {
    try {
      const { error: _before, ...rest } = this.snapshot();
      const requests = await this.client.pending();
      this.replace({ ...rest, requests, isLoading: false });
    } catch (thrown) {
      this.show({ error: toError(thrown), isLoading: false });
    }
  }

  /**
   * Answers a request. It leaves the list whatever the server says, since it cannot be answered
   * twice.
   */
  async answer({ id, request }: WaitingRequest, reply: PendingReply): Promise<void> {
    try {
      await this.client.answer(request.runId, reply);
    } finally {
      this.show({ requests: this.snapshot().requests.filter((other) => other.id !== id) });
      void this.refresh();
    }
  }

  /** Looks now and then, until the returned function is called; 0 for once. */
  watch(everyMs = EVERY_MS): () => void {
    void this.refresh();
    if (everyMs === 0) return () => undefined;
    const timer = setInterval(() => void this.refresh(), everyMs);
    return () => clearInterval(timer);
  }

  private replace(state: PendingState): void {
    this.show({ error: undefined, ...state });
  }
}

/** The requests that wait for the actor, as a page shows them. */
export interface PendingState {
  readonly requests: readonly WaitingRequest[];
  readonly isLoading: boolean;
  readonly error?: Error | undefined;
}

/** The milliseconds between two looks at what waits, where nothing else tells of a change. */
const EVERY_MS = 15_000;
