import { ConfigurationError, type Finding } from '../protocol/errors.js';
import { LanguageModel, type ModelCapabilities, type ModelEvent, type ModelRequest } from '../protocol/language-model.js';
import { RateLimiter, type RateLimits } from './rate.limiter.js';

/**
 * Keeps what is asked of a model below the rates its provider allows, for all runs of this process together: `rateLimited(openai('gpt-5'), {
 * requestsPerMinute: 500, concurrent: 20 })`. Requests wait in the order in which they came; an aborted one leaves the queue. Where the queue is full, a
 * request fails at once with a retryable `ModelError`. A wait counts as silence of the model (`limits.modelIdleMs`).
 *
 * Throws a `ConfigurationError` for a limit that is no positive number.
 */
export function rateLimited(model: LanguageModel, limits: RateLimits): LanguageModel {
  const findings = limitFindings(limits);
  if (findings.length > 0) throw new ConfigurationError(findings);
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

function limitFindings(limits: RateLimits): readonly Finding[] {
  return Object.entries(limits).flatMap(([name, value]: [string, unknown]) =>
    typeof value === 'number' && value > 0
      ? []
      : [{ at: 'rateLimited', problem: `"${name}" is ${String(value)}.`, remedy: 'Give a number above 0, or leave it out.' }],
  );
}
