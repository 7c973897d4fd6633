import { type LanguageModel, type ModelEvent, type ModelRequest } from '@toolloop/protocol';
import { ABOVE_ZERO } from '../findings/option-rules.js';
import { defineOptions } from '../findings/options.js';
import { RateLimiter, type RateLimits } from './rate-limiter.js';
import { WrappedModel } from './wrapped-model.js';
import { assertWrapper } from './wrapper-findings.js';

/**
 * Keeps the requests to a model below the rate limits of its provider, for all runs of this process
 * together. Requests wait in their order; an aborted one leaves the queue. If the queue is full, a
 * request fails at once with a retryable `ModelError`. For a model of your own, a wait counts
 * towards `limits.modelFirstByteMs`.
 *
 * @throws ConfigurationError for a limit that does not exist or is not a positive number
 * @example
 * rateLimited(openai('gpt-5'), { requestsPerMinute: 500, concurrent: 20 });
 */
export function rateLimited(model: LanguageModel, limits: RateLimits): LanguageModel {
  assertWrapper('rateLimited', [model], limits, LIMITS);
  return new RateLimitedModel(model, new RateLimiter(limits, `${model.provider}/${model.modelId}`));
}

class RateLimitedModel extends WrappedModel {
  constructor(
    model: LanguageModel,
    private readonly limiter: RateLimiter,
  ) {
    super(model);
  }

  async *stream(
    request: ModelRequest,
    signal: AbortSignal,
  ): AsyncGenerator<ModelEvent, void, undefined> {
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

const LIMITS = defineOptions<RateLimits>({
  requestsPerMinute: ABOVE_ZERO,
  tokensPerMinute: ABOVE_ZERO,
  concurrent: ABOVE_ZERO,
  queue: ABOVE_ZERO,
});
