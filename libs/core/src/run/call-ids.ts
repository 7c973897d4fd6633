import type { Message } from '@toolloop/protocol';

/** The call ids of one run. A provider's id is kept unless it is unusable or was used before. */
export class CallIds {
  private readonly used: Set<string>;

  constructor(
    history: readonly Message[],
    private readonly maxLength: number,
  ) {
    this.used = new Set(
      history
        .flatMap((message) => (message.role === 'assistant' ? (message.toolCalls ?? []) : []))
        .map(({ toolCallId }) => toolCallId),
    );
  }

  claim(providerId: string, step: number, index: number): string {
    const isUsable =
      providerId !== '' && providerId.length <= this.maxLength && !this.used.has(providerId);
    const id = isUsable ? providerId : this.unused(`call_${step}_${index}`);
    this.used.add(id);
    return id;
  }

  private unused(base: string): string {
    let id = base;
    for (let suffix = 2; this.used.has(id); suffix += 1) id = `${base}_${suffix}`;
    return id;
  }
}
