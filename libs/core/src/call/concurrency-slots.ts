import { Interruption } from '../contracts/interruption.js';

/** Lets so many calls of a tool run at once and keeps the others waiting in their order. */
export class ConcurrencySlots {
  private readonly tools = new Map<string, ToolCalls>();

  /**
   * Resolves once there is a free slot. Rejects with the signal's interruption, and then takes
   * none.
   */
  async take(declaredId: string, most: number, signal: AbortSignal): Promise<FreeSlot> {
    const calls = this.tools.get(declaredId) ?? { running: 0, waiting: new Set() };
    this.tools.set(declaredId, calls);
    if (calls.running < most) calls.running += 1;
    else await turnIn(calls, signal);
    return () => this.free(declaredId, calls);
  }

  /** The slot goes to the call that has waited longest, without being free in between. */
  private free(declaredId: string, calls: ToolCalls): void {
    const [startNext] = calls.waiting;
    if (startNext) return startNext();
    calls.running -= 1;
    if (calls.running === 0) this.tools.delete(declaredId);
  }
}

/** Gives a slot back. */
export type FreeSlot = () => void;

interface ToolCalls {
  running: number;
  /** In the order in which they came. Each is called once it has a slot. */
  readonly waiting: Set<() => void>;
}

function turnIn({ waiting }: ToolCalls, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const giveUp = (): void => {
      waiting.delete(start);
      reject(Interruption.from(signal));
    };
    const start = (): void => {
      waiting.delete(start);
      signal.removeEventListener('abort', giveUp);
      resolve();
    };
    if (signal.aborted) return giveUp();
    waiting.add(start);
    signal.addEventListener('abort', giveUp, { once: true });
  });
}
