import { LanguageModel, type ModelEvent, type ModelRequest } from '@toolloop/protocol';

/** A model that begins to answer and ends once it is let; it counts what was read of it. */
export class GatedModel extends LanguageModel {
  readonly provider = 'gated';
  readonly modelId = 'gate';
  /** The pieces that were asked for. */
  pulled = 0;
  aborted = 0;
  private isOpen = false;
  private readonly waiting: (() => void)[] = [];

  constructor(private readonly pieces: readonly string[] = ['Hello.']) {
    super();
  }

  async *stream(
    _request: ModelRequest,
    signal: AbortSignal,
  ): AsyncGenerator<ModelEvent, void, undefined> {
    for (const piece of this.pieces) {
      if (signal.aborted) break;
      this.pulled += 1;
      yield { type: 'text-delta', text: piece };
    }
    await this.opened(signal);
    if (signal.aborted) {
      this.aborted += 1;
      throw signal.reason;
    }
    yield { type: 'finish', finishReason: 'stop' };
  }

  open(): void {
    this.isOpen = true;
    for (const go of this.waiting.splice(0)) go();
  }

  private opened(signal: AbortSignal): Promise<void> {
    if (this.isOpen || signal.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      this.waiting.push(resolve);
      signal.addEventListener('abort', () => resolve(), { once: true });
    });
  }
}
