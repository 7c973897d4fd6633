import { ModelError } from '../protocol/errors.js';
import type { LanguageModel, ModelEvent, ModelRequest } from '../protocol/language-model.js';

/** Events that show nobody anything: behind them a model can still be asked again. */
const SILENT: ReadonlySet<ModelEvent['type']> = new Set<ModelEvent['type']>(['usage', 'model']);

/**
 * One attempt to get an answer. It hands nothing out before there is something to show, so that whoever reads it knows whether another attempt can
 * take its place: once content has reached the caller, it cannot.
 */
export class Attempt {
  private shown = false;

  constructor(private readonly model: LanguageModel) {}

  get hasShown(): boolean {
    return this.shown;
  }

  /** Throws what the model throws, and a retryable `ModelError` for an answer that broke off before it began. */
  async *read(request: ModelRequest, signal: AbortSignal): AsyncGenerator<ModelEvent, void, undefined> {
    const held: ModelEvent[] = [];
    for await (const event of this.model.stream(request, signal)) {
      if (!this.shown && SILENT.has(event.type)) {
        held.push(event);
        continue;
      }
      if (!this.shown) {
        if (event.type === 'finish' && event.reason === 'incomplete') throw brokenOff(this.model);
        this.shown = true;
        yield* held.splice(0);
      }
      yield event;
    }
    if (!this.shown && !signal.aborted) throw brokenOff(this.model);
  }
}

function brokenOff({ provider, modelId }: LanguageModel): ModelError {
  return new ModelError(`The answer of ${provider}/${modelId} broke off before it began.`, { retryable: true });
}
