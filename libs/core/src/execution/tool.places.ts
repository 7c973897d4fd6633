import { Interruption } from './interruption.js';

/** Gives a place back. */
export type Leave = () => void;

/** The calls of one tool. */
interface Hall {
  running: number;
  /** In the order in which they came. Each is called when it has got a place. */
  readonly waiting: Set<() => void>;
}

/** Lets so many calls of a tool run at once and keeps the others waiting in their order. */
export class ToolPlaces {
  private readonly halls = new Map<string, Hall>();

  /** Resolves once there is a place. Rejects with the signal's interruption, and then takes none. */
  async enter(declaredId: string, most: number, signal: AbortSignal): Promise<Leave> {
    const hall = this.halls.get(declaredId) ?? { running: 0, waiting: new Set() };
    this.halls.set(declaredId, hall);
    if (hall.running < most) hall.running += 1;
    else await turnIn(hall, signal);
    return () => this.leave(declaredId, hall);
  }

  /** The place goes to who has waited longest, without being free in between. */
  private leave(declaredId: string, hall: Hall): void {
    const [enterNext] = hall.waiting;
    if (enterNext) return enterNext();
    hall.running -= 1;
    if (hall.running === 0) this.halls.delete(declaredId);
  }
}

function turnIn({ waiting }: Hall, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const giveUp = (): void => {
      waiting.delete(enter);
      reject(Interruption.from(signal));
    };
    const enter = (): void => {
      waiting.delete(enter);
      signal.removeEventListener('abort', giveUp);
      resolve();
    };
    if (signal.aborted) return giveUp();
    waiting.add(enter);
    signal.addEventListener('abort', giveUp, { once: true });
  });
}
