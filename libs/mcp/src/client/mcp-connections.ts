import { untilAborted } from '@toolloop/core/internal';
import { ToolError } from '@toolloop/protocol';
import type { RequestUse } from './bounded-fetch.js';
import { failureOf } from './mcp-failure.js';
import { McpSession, type SessionSettings } from './mcp-session.js';
import type { NamedServer } from './server-options.js';

/**
 * The connections to one server: one for each credential. What one receives is seen by no other.
 */
export class McpConnections {
  private readonly slots = new Map<string, Slot>();
  private readonly ending = new AbortController();

  constructor(
    private readonly server: NamedServer,
    /**
     * Called when the server says on the shared connection that its tools have changed, and when
     * that has gone.
     */
    private readonly onChange: () => void,
    private readonly settings: SessionSettings = {},
  ) {}

  /**
   * Works on the connection of a caller, which is opened where it is not. A session that the server
   * has forgotten is opened anew once.
   *
   * @param isAttempt makes an attempt also while the pause after a failure lasts
   * @throws {ToolError} Where the server cannot be reached, or has too many connections.
   */
  async use<Result>(
    caller: Caller,
    work: (session: McpSession) => Promise<Result>,
    { isAttempt = false } = {},
  ): Promise<Result> {
    const slot = this.slotOf(caller.key);
    slot.users += 1;
    clearTimeout(slot.idle);
    try {
      const session = await untilAborted(this.sessionOf(caller, slot, isAttempt), caller.signal);
      try {
        return await work(session);
      } catch (error) {
        if (failureOf(error) !== 'session_gone') throw error;
        this.drop(slot, session);
        return await work(await untilAborted(this.sessionOf(caller, slot, true), caller.signal));
      }
    } finally {
      slot.users -= 1;
      slot.lastUsed = performance.now();
      this.closeLater(caller.key, slot);
    }
  }

  /** Ends all of them. */
  async close(): Promise<void> {
    this.ending.abort(new Error('The application shuts down.'));
    const slots = [...this.slots.values()];
    this.slots.clear();
    for (const { idle } of slots) clearTimeout(idle);
    await Promise.allSettled(slots.flatMap(({ session }) => (session ? [session.close()] : [])));
  }

  private slotOf(key: string): Slot {
    const known = this.slots.get(key);
    if (known) return known;
    if (this.slots.size >= this.server.limits.connections) this.makeRoom();
    const slot: Slot = {
      session: undefined,
      opening: undefined,
      users: 0,
      failures: 0,
      retryAt: 0,
      lastUsed: 0,
      idle: undefined,
    };
    this.slots.set(key, slot);
    return slot;
  }

  private makeRoom(): void {
    const unused = [...this.slots].filter(([, { users }]) => users === 0);
    const [oldest] = unused.toSorted(([, one], [, other]) => one.lastUsed - other.lastUsed);
    if (!oldest)
      throw new ToolError(
        `The server "${this.server.name}" has too many connections at present. Try again later.`,
        { retryable: true },
      );
    this.remove(...oldest);
  }

  private async sessionOf(caller: Caller, slot: Slot, isAttempt: boolean): Promise<McpSession> {
    if (slot.session && !slot.session.isClosed) return slot.session;
    if (slot.opening) return slot.opening;
    const wait = slot.retryAt - performance.now();
    if (wait > 0 && !isAttempt) throw this.away(wait);
    slot.opening = this.open(caller, slot).finally(() => {
      slot.opening = undefined;
    });
    return slot.opening;
  }

  private async open({ key, use }: Caller, slot: Slot): Promise<McpSession> {
    const { connectMs, pauseMs } = this.server.limits;
    const signal = AbortSignal.any([this.ending.signal, AbortSignal.timeout(connectMs)]);
    const onChange = (): void => {
      if (key === SHARED) this.onChange();
    };
    try {
      const opening = McpSession.open(this.server, {
        use: { ...use, fail: () => undefined },
        signal,
        onChange,
        settings: this.settings,
      });
      slot.session = await untilAborted(opening, signal);
      slot.failures = 0;
      slot.retryAt = 0;
      return slot.session;
    } catch (error) {
      const pause = pauseMs * Math.min(2 ** slot.failures, LONGEST_PAUSES);
      slot.failures += 1;
      slot.retryAt = performance.now() + pause;
      throw failureOf(error) === 'refused'
        ? new ToolError(`The server "${this.server.name}" refused the connection.`, {
            cause: error,
          })
        : this.away(pause, error);
    }
  }

  private away(ms: number, cause?: unknown): ToolError {
    const seconds = Math.ceil(ms / 1_000);
    const text = `The server "${this.server.name}" cannot be reached at present. It is tried again in ${seconds} s; until then, do without its tools.`;
    return new ToolError(text, { retryAfterMs: ms, ...(cause !== undefined && { cause }) });
  }

  private drop(slot: Slot, session: McpSession): void {
    if (slot.session === session) slot.session = undefined;
    session.isClosed = true;
    void session.close();
  }

  private closeLater(key: string, slot: Slot): void {
    if (key === SHARED || slot.users > 0) return;
    clearTimeout(slot.idle);
    slot.idle = setTimeout(() => this.remove(key, slot), this.server.limits.idleMs).unref();
  }

  private remove(key: string, slot: Slot): void {
    if (this.slots.get(key) === slot) this.slots.delete(key);
    clearTimeout(slot.idle);
    void slot.session?.close();
  }
}

/** The caller of a server: the connection that is its own, and what a request of it carries. */
export interface Caller {
  /** The same for callers that may share a connection. */
  readonly key: string;
  readonly use: RequestUse;
  readonly signal: AbortSignal;
}

/**
 * The key of the connection without a credential, which stays open for the server's notifications.
 */
export const SHARED = '';

/** One connection, while it is open, opening or away. */
interface Slot {
  session: McpSession | undefined;
  opening: Promise<McpSession> | undefined;
  users: number;
  failures: number;
  /** The time before which no further attempt is made. */
  retryAt: number;
  lastUsed: number;
  idle: NodeJS.Timeout | undefined;
}

const LONGEST_PAUSES = 60;
