import { FUNCTION } from '../findings/option-values.js';
import type { OptionValues } from '../findings/option-findings.js';
import { ConfigurationError, ModelError } from '../protocol/errors.js';
import { LanguageModel, type ModelCapabilities, type ModelEvent, type ModelRequest } from '../protocol/language-model.js';
import { Attempt, usageOf } from './attempt.js';
import { NO_USAGE } from '../protocol/usage.js';
import { fitted, takesMedia } from './request.fitting.js';
import { assertWrapper } from './wrapper-findings.js';

export interface FallbackOptions {
  /**
   * Whether the next model may answer what this one did not.
   * @default for every failure but a request that was refused for what it says (400, 413, 422)
   */
  readonly when?: (error: ModelError) => boolean;
}

/** What is wrong with the request is wrong for the next model too. */
const REFUSED = new Set([400, 413, 422]);

/**
 * Asks one model after the other, until one answers: `fallback([openai('gpt-5'), anthropic('claude-sonnet-5-5')])`. The next is asked only while nothing of an
 * answer has reached the caller; behind that a failure is a failure. Images and files go to models that take them alone. An event `model` says who
 * answers. A silent model holds the others up: give each a `timeoutMs` below `limits.modelIdleMs`.
 *
 * Throws a `ConfigurationError` for an empty list, for what is no model and for options that cannot be, and the last model's failure where none has answered.
 */
export function fallback(models: readonly LanguageModel[], options: FallbackOptions = {}): LanguageModel {
  const given: unknown = models;
  if (!Array.isArray(given))
    throw new ConfigurationError([{ at: 'fallback', problem: 'Its models are not a list.', remedy: 'Write fallback([one, other]).' }]);
  assertWrapper('fallback', models, options, OPTIONS);
  const [first] = models;
  if (first === undefined)
    throw new ConfigurationError([{ at: 'fallback([])', problem: 'There is no model.', remedy: 'Name at least one.' }]);
  return new FallbackModel(first, models, options.when ?? isNoFaultOfTheRequest);
}

const OPTIONS: OptionValues<FallbackOptions> = { when: FUNCTION };

class FallbackModel extends LanguageModel {
  readonly provider: string;
  readonly modelId: string;
  override readonly capabilities: ModelCapabilities;

  constructor(
    first: LanguageModel,
    private readonly models: readonly LanguageModel[],
    private readonly canGoOn: (error: ModelError) => boolean,
  ) {
    super();
    this.provider = first.provider;
    this.modelId = first.modelId;
    const takes = (what: keyof ModelCapabilities): boolean => models.some(({ capabilities }) => capabilities[what] !== false);
    this.capabilities = { images: takes('images'), files: takes('files') };
  }

  async *stream(request: ModelRequest, signal: AbortSignal): AsyncGenerator<ModelEvent, void, undefined> {
    const able = this.models.filter(({ capabilities }) => takesMedia(request.messages, capabilities));
    // Where no model takes all of it, each is shown what it takes.
    const candidates = able.length > 0 ? able : this.models;
    let spent = NO_USAGE;
    for (const [index, model] of candidates.entries()) {
      const attempt = new Attempt(model, spent);
      try {
        yield* introduced(model, attempt.read(fitted(request, model), signal));
        return;
      } catch (error) {
        const canGoOn = error instanceof ModelError && !attempt.hasShown && !signal.aborted && index < candidates.length - 1;
        if (!canGoOn || !this.canGoOn(error)) {
          yield* usageOf(attempt);
          throw error;
        }
        ({ spent } = attempt);
      }
    }
  }
}

/** A model that stands for others introduces itself. */
async function* introduced(
  { provider, modelId }: LanguageModel,
  events: AsyncIterable<ModelEvent>,
): AsyncGenerator<ModelEvent, void, undefined> {
  let isIntroduced = false;
  for await (const event of events) {
    if (!isIntroduced && event.type !== 'model') yield { type: 'model', provider, modelId };
    isIntroduced = true;
    yield event;
  }
}

function isNoFaultOfTheRequest({ isRetryable, status }: ModelError): boolean {
  return isRetryable || status === undefined || !REFUSED.has(status);
}
