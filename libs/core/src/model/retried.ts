import { WHOLE_ABOVE_ZERO, type OptionValue } from '../findings/option-values.js';
import type { OptionValues } from '../findings/option-findings.js';
import { ModelError } from '../protocol/errors.js';
import { LanguageModel, type ModelCapabilities, type ModelEvent, type ModelRequest } from '../protocol/language-model.js';
import { Attempt, usageOf } from './attempt.js';
import { NO_USAGE } from '../protocol/usage.js';
import { pause } from './waiting.js';
import { assertWrapper } from './wrapper-findings.js';

export interface RetryOptions {
  /** How often the model is asked in all. @default 3 */
  readonly attempts?: number;
  /** The wait before the second attempt, in milliseconds; it doubles with every further one, and a random half of it is left off. @default 500 */
  readonly firstWaitMs?: number;
  /** The longest wait, in milliseconds. A provider that asks for a longer one is not asked again. @default 20_000 */
  readonly longestWaitMs?: number;
}

/**
 * Asks a model again where its answer failed before anything of it was shown, and the failure may pass. The SDKs do the same until an answer begins;
 * this covers what they do not see: an overload told of inside the stream, a connection that breaks before the first word, and models of your own. Waits
 * as long as the provider asks for (`Retry-After`), else with a growing back-off.
 *
 * Throws a `ConfigurationError` for an option that does not exist or cannot be.
 */
export function retried(model: LanguageModel, options: RetryOptions = {}): LanguageModel {
  assertWrapper('retried', [model], options, OPTIONS);
  return new RetriedModel(model, options);
}

class RetriedModel extends LanguageModel {
  readonly provider: string;
  readonly modelId: string;
  override readonly capabilities: ModelCapabilities;

  constructor(
    private readonly model: LanguageModel,
    private readonly options: RetryOptions,
  ) {
    super();
    ({ provider: this.provider, modelId: this.modelId, capabilities: this.capabilities } = model);
  }

  async *stream(request: ModelRequest, signal: AbortSignal): AsyncGenerator<ModelEvent, void, undefined> {
    const { attempts = 3 } = this.options;
    let spent = NO_USAGE;
    for (let count = 1; !signal.aborted; count += 1) {
      const attempt = new Attempt(this.model, spent);
      try {
        yield* attempt.read(request, signal);
        return;
      } catch (error) {
        const wait = attempt.hasShown || count >= attempts ? undefined : this.waitFor(error, count);
        if (wait === undefined) {
          yield* usageOf(attempt);
          throw error;
        }
        ({ spent } = attempt);
        await pause(wait, signal);
      }
    }
  }

  /** Undefined for what does not pass, or not soon. */
  private waitFor(error: unknown, count: number): number | undefined {
    if (!(error instanceof ModelError) || !error.isRetryable) return undefined;
    const { firstWaitMs = 500, longestWaitMs = 20_000 } = this.options;
    const { retryAfterMs } = error;
    if (retryAfterMs !== undefined) return retryAfterMs > longestWaitMs ? undefined : retryAfterMs;
    return Math.min(longestWaitMs, firstWaitMs * 2 ** (count - 1)) * (0.5 + Math.random() / 2);
  }
}

/** Node's timers know no longer wait. */
const WAIT_MS: OptionValue = {
  wanted: `milliseconds, from 0 to ${2 ** 31 - 1}`,
  accept: (value) => typeof value === 'number' && value >= 0 && value < 2 ** 31,
};

const OPTIONS: OptionValues<RetryOptions> = { attempts: WHOLE_ABOVE_ZERO, firstWaitMs: WAIT_MS, longestWaitMs: WAIT_MS };
