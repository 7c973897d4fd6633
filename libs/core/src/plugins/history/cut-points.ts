import type { Message } from '@toolloop/protocol';

/**
 * Every cut a transcript has come to, oldest first; the last one is due. Found by going through its
 * model calls from the beginning, so that each step, later runs and other processes come to the
 * same cuts: the provider's prompt cache stays warm, and a summary is made once.
 */
export function cutPoints(messages: readonly Message[], extent: Extent): readonly number[] {
  const sizes = new TranscriptSizes(messages, extent);
  const points: number[] = [];
  let from = 0;
  for (let call = 1; call <= messages.length; call += 1) {
    const isModelCall = call === messages.length || messages[call]?.role === 'assistant';
    if (!isModelCall || sizes.between(from, call) <= extent.most) continue;
    const next = sizes.cutFor(from, call);
    if (next > from) points.push(next);
    from = next;
  }
  return points;
}

/**
 * For every message the index of the user message that it is or belongs to; -1 before the first.
 */
export function promptsOf(messages: readonly Message[]): readonly number[] {
  let prompt = -1;
  return messages.map(({ role }, index) => (prompt = role === 'user' ? index : prompt));
}

/**
 * Returns whether a transcript may be sent from an index on: a tool result needs its call before
 * it, and an answer a user message.
 */
export function isBorder(
  messages: readonly Message[],
  prompts: readonly number[],
  index: number,
): boolean {
  return messages[index]?.role !== 'tool' && (prompts[index] ?? -1) >= 0;
}

/** The size at which a transcript is cut, and the size it is cut to, in the unit of `sizeOf`. */
export interface Extent {
  readonly most: number;
  readonly keep: number;
  readonly sizeOf: (message: Message) => number;
}

/** Sums, so that the size of any stretch is a subtraction. */
class TranscriptSizes {
  private readonly sums: readonly number[];
  private readonly prompts: readonly number[];

  constructor(
    private readonly messages: readonly Message[],
    private readonly extent: Extent,
  ) {
    this.prompts = promptsOf(messages);
    let sum = 0;
    this.sums = [0, ...messages.map((message) => (sum += extent.sizeOf(message)))];
  }

  /** Returns the size of a stretch, the user message it belongs to included. */
  between(from: number, to: number): number {
    const prompt = from === 0 ? from : (this.prompts[from] ?? from);
    const ahead = this.sumTo(Math.min(prompt + 1, from)) - this.sumTo(prompt);
    return this.sumTo(to) - this.sumTo(from) + ahead;
  }

  /**
   * The first place after `from` at which little enough is left; the last place there is, where it
   * is always too much.
   */
  cutFor(from: number, to: number): number {
    let cut = from;
    for (let index = from + 1; index < to; index += 1) {
      if (!isBorder(this.messages, this.prompts, index)) continue;
      cut = index;
      if (this.between(index, to) <= this.extent.keep) return cut;
    }
    return cut;
  }

  private sumTo(index: number): number {
    return this.sums[index] ?? 0;
  }
}
