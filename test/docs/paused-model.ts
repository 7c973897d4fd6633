import { LanguageModel, type ModelEvent, type ModelRequest } from '@toolloop/protocol';
import { offline } from '@toolloop/offline';

/** The offline model, which a test can have think for a while, as larger models do. */
export class PausedModel extends LanguageModel {
  readonly provider = 'offline';
  readonly modelId = 'rules';
  /** Lets it answer. */
  resume: () => void = () => undefined;
  private readonly rules = offline();
  private thinking: Promise<void> | undefined;
  private noteQuestion: () => void = () => undefined;

  /** Has it think at the next question until it is resumed; resolves once it is asked. */
  pause(): Promise<void> {
    this.thinking = new Promise((resolve) => (this.resume = resolve));
    return new Promise((resolve) => (this.noteQuestion = resolve));
  }

  async *stream(
    request: ModelRequest,
    signal: AbortSignal,
  ): AsyncGenerator<ModelEvent, void, undefined> {
    this.noteQuestion();
    await this.thinking;
    yield* this.rules.stream(request, signal);
  }
}
