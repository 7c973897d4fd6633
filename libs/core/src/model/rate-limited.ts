import { ABOVE_ZERO } from '../findings/option-values.js';
import type { OptionValues } from '../findings/option-findings.js';
import { LanguageModel, type ModelCapabilities, type ModelEvent, type ModelRequest } from '../protocol/language-model.js';
import { RateLimiter, type RateLimits } from './rate.limiter.js';
import { assertWrapper } from './wrapper-findings.js';

/**
 * Keeps what is asked of a model below the rates its provider allows, for all runs of this process together: `rateLimited(openai('gpt-5'), {
 * requestsPerMinute: 500, concurrent: 20 })`. Requests wait in the order in which they came; an aborted one leaves the queue. Where the queue is full, a
 * request fails at once with a retryable `ModelError`. A wait counts as silence of the model (`limits.modelIdleMs`).
 *
 * Throws a `ConfigurationError` for a limit that does not exist or is no positive number.
 */
export function rateLimited(model: LanguageModel, limits: RateLimits): LanguageModel {
  assertWrapper('rateLimited', [model], limits, LIMITS);
  return new RateLimitedModel(model, new RateLimiter(limits, `${model.provider}/${model.modelId}`));
}

class RateLimitedModel extends LanguageModel {
  readonly provider: string;
  readonly modelId: string;
  override readonly capabilities: ModelCapabilities;

  constructor(
    private readonly model: LanguageModel,
    private readonly limiter: RateLimiter,
  ) {
    super();
    ({ provider: this.provider, modelId: this.modelId, capabilities: this.capabilities } = model);
  }

  async *stream(request: ModelRequest, signal: AbortSignal): AsyncGenerator<ModelEvent, void, undefined> {
    const turn = await this.limiter.turn(signal);
    if (turn === undefined) return;
    try {
      for await (const event of this.model.stream(request, signal)) {
        if (event.type === 'usage') turn.count(event.usage);
        yield event;
      }
    } finally {
      turn.end();
    }
  }
}

const LIMITS: OptionValues<RateLimits> = {
  requestsPerMinute: ABOVE_ZERO,
  tokensPerMinute: ABOVE_ZERO,
  concurrent: ABOVE_ZERO,
  queue: ABOVE_ZERO,
};
