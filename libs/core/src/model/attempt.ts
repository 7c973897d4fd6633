import { ModelError } from '../protocol/errors.js';
import type { LanguageModel, ModelEvent, ModelRequest } from '../protocol/language-model.js';
import { NO_USAGE, addUsage, type Usage } from '../protocol/usage.js';

/** Events that show nobody anything: behind them a model can still be asked again. A call runs when its answer has ended, and is shown by its deltas. */
const SILENT: ReadonlySet<ModelEvent['type']> = new Set<ModelEvent['type']>(['usage', 'model', 'tool-call']);

/**
 * One attempt to get an answer. It hands nothing out before there is something to show, so that whoever reads it knows whether another attempt can
 * take its place: once content has reached the caller, it cannot.
 */
export class Attempt {
  private shown = false;
  private reported = NO_USAGE;

  /** `before`: what attempts in the same place had used, which is used all the same. */
  constructor(
    private readonly model: LanguageModel,
    private readonly before: Usage = NO_USAGE,
  ) {}

  /** What this attempt and those before it have reported. */
  get spent(): Usage {
    const { before, reported } = this;
    if (before === NO_USAGE) return reported;
    if (reported === NO_USAGE) return before;
    return { ...addUsage(before, reported), ...(hidesCost(before, reported) && { hasUnknownCost: true }) };
  }

  get hasShown(): boolean {
    return this.shown;
  }

  /** Throws what the model throws, and a retryable `ModelError` for an answer that broke off before it began. */
  async *read(request: ModelRequest, signal: AbortSignal): AsyncGenerator<ModelEvent, void, undefined> {
    const held: ModelEvent[] = [];
    for await (const said of this.model.stream(request, signal)) {
      const event = this.counted(said);
      if (!this.shown && SILENT.has(event.type)) {
        held.push(event);
        continue;
      }
      if (!this.shown) {
        if (event.type === 'finish' && event.finishReason === 'incomplete') throw brokenOff(this.model);
        this.shown = true;
        if (this.before !== NO_USAGE) yield { type: 'usage', usage: this.spent };
        yield* held.splice(0);
      }
      yield event;
    }
    if (!this.shown && !signal.aborted) throw brokenOff(this.model);
  }

  private counted(event: ModelEvent): ModelEvent {
    if (event.type !== 'usage') return event;
    this.reported = event.usage;
    return { type: 'usage', usage: this.spent };
  }
}

/** Where neither has a cost the sum has none, and `prices` can still say what both cost. */
function hidesCost(one: Usage, other: Usage): boolean {
  const isOneKnown = (one.costUsd === undefined) !== (other.costUsd === undefined);
  return isOneKnown || one.hasUnknownCost === true || other.hasUnknownCost === true;
}

/** The last failure of all is told with what all of them have used. */
export function* usageOf({ hasShown, spent }: Attempt): Generator<ModelEvent, void, undefined> {
  if (!hasShown && spent !== NO_USAGE) yield { type: 'usage', usage: spent };
}

function brokenOff({ provider, modelId }: LanguageModel): ModelError {
  return new ModelError(`The answer of ${provider}/${modelId} broke off before it began.`, { retryable: true });
}
