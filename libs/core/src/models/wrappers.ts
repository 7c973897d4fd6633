import {
  type AttemptControl,
  BatchedEvents,
  ConfigurationError,
  type EventBatches,
  type Finding,
  LanguageModel,
  type ModelCapabilities,
  ModelError,
  type ModelEvent,
  type ModelRequest,
  NO_USAGE,
} from '@toolloop/protocol';
import {
  defineOptions,
  foreignModel,
  FUNCTION,
  inWords,
  type OptionRule,
  type OptionTable,
  WHOLE_ABOVE_ZERO,
} from '../findings/options.js';
import { Attempt, usageOf } from './attempt.js';
import { fitted, takesMedia } from './request-fitting.js';

export interface RetryOptions {
  /** The number of attempts, including the first. @default 3 */
  readonly attempts?: number;
  /**
   * The wait before the second attempt, in milliseconds; it doubles with every further one, and is
   * shortened at random by up to half. @default 500
   */
  readonly firstWaitMs?: number;
  /**
   * The longest wait, in milliseconds. If a provider asks for a longer one, there is no further
   * attempt. @default 20_000
   */
  readonly longestWaitMs?: number;
}

/**
 * Retries a model if its answer failed temporarily before any of it was shown: a status such as 429
 * or 503, an overload reported inside the stream, a connection that breaks before the first word, a
 * provider that stays silent. Waits with an exponential back-off, and longer if the provider asks
 * for it (`Retry-After`), up to `longestWaitMs`. The loop does this by itself, with the defaults,
 * for each wire that is not within `retried` or `fallback`: no one else retries.
 *
 * @throws ConfigurationError for wrong options
 * @example
 * retried(openai('gpt-5-mini'), { attempts: 5 });
 */
export function retried(model: LanguageModel, options: RetryOptions = {}): LanguageModel {
  assertWrapper('retried', [model], options, RETRY_OPTIONS);
  return new RetriedModel(model, options);
}

export class RetriedModel extends LanguageModel {
  readonly provider: string;
  readonly modelId: string;
  override readonly capabilities: ModelCapabilities;

  constructor(
    private readonly model: LanguageModel,
    private readonly options: RetryOptions = {},
  ) {
    super();
    ({ provider: this.provider, modelId: this.modelId, capabilities: this.capabilities } = model);
  }

  override get controls(): AttemptControl {
    return 'all';
  }

  stream(request: ModelRequest, signal: AbortSignal): BatchedEvents {
    return new BatchedEvents(new RetriedAnswer(this.model, request, signal, this.options), signal);
  }
}

class RetriedAnswer implements EventBatches {
  private count = 1;
  private attempt: Attempt | undefined;
  private spent = NO_USAGE;
  private failure: { readonly error: unknown } | undefined;

  constructor(
    private readonly model: LanguageModel,
    private readonly request: ModelRequest,
    private readonly signal: AbortSignal,
    private readonly options: RetryOptions,
  ) {}

  async next(): Promise<readonly ModelEvent[] | undefined> {
    const { model, request, signal } = this;
    while (!signal.aborted && !this.failure) {
      const attempt = (this.attempt ??= new Attempt(model, request, signal, this.spent));
      try {
        const events = attempt.taken(await attempt.reading.next());
        if (events?.length !== 0) return events;
      } catch (error) {
        const used = await this.tried(attempt, error);
        if (used.length > 0) return used;
      }
    }
    if (this.failure) throw this.failure.error;
    return undefined;
  }

  get hasEnded(): boolean {
    return this.attempt?.hasEnded === true;
  }

  close(): void | Promise<void> {
    return this.attempt?.close();
  }

  /** Waits before the next attempt; after the last one returns what all have used. */
  private async tried(attempt: Attempt, error: unknown): Promise<readonly ModelEvent[]> {
    const { attempts = 3 } = this.options;
    const wait =
      attempt.hasShown || this.count >= attempts ? undefined : this.waitFor(error, this.count);
    if (wait === undefined) {
      this.failure = { error };
      return usageOf(attempt);
    }
    this.count += 1;
    ({ spent: this.spent } = attempt);
    this.attempt = undefined;
    await pause(wait, this.signal);
    return [];
  }

  /**
   * Computes the wait before the next attempt; undefined for a failure that is not temporary, or
   * not short enough.
   */
  private waitFor(error: unknown, count: number): number | undefined {
    if (!(error instanceof ModelError) || !error.isRetryable) return undefined;
    const { firstWaitMs = 500, longestWaitMs = 20_000 } = this.options;
    const { retryAfterMs = 0 } = error;
    if (retryAfterMs > longestWaitMs) return undefined;
    const backOff =
      Math.min(longestWaitMs, firstWaitMs * 2 ** (count - 1)) * (0.5 + Math.random() / 2);
    return retryAfterMs > backOff ? retryAfterMs : backOff;
  }
}

/** The form of a wait: Node's timers do not support a longer one. */
const WAIT_MS: OptionRule<number> = {
  wanted: `milliseconds, from 0 to ${2 ** 31 - 1}`,
  accept: (value) => typeof value === 'number' && value >= 0 && value < 2 ** 31,
};

const RETRY_OPTIONS = defineOptions<RetryOptions>({
  attempts: WHOLE_ABOVE_ZERO,
  firstWaitMs: WAIT_MS,
  longestWaitMs: WAIT_MS,
});

/** Waits a number of milliseconds, or until the signal is aborted. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) {
      resolve();
      return;
    }
    const end = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener('abort', end, { once: true });
  });
}

export interface FallbackOptions {
  /**
   * Decides whether the next model is tried after a failure. @default after every failure except a
   * request that was refused for its content (400, 413, 422); one that is too long for this model
   * may fit the next
   */
  readonly when?: (error: ModelError) => boolean;
}

/** The statuses of requests that the next model would refuse too. */
const REFUSED = new Set([400, 413, 422]);

/**
 * Tries one model after the other until one answers. The next is tried only while no content of an
 * answer has reached the caller; after that a failure is final. Images and files go only to models
 * that accept them. An event `model` names the model that answers. Each model has one attempt, with
 * the time limits of the run (`limits.modelFirstByteMs` and so on), and more only within `retried`.
 * If none answers, the failure of the last one is thrown.
 *
 * @throws ConfigurationError for an empty list, for a value that is not a model, and for wrong
 *   options
 * @example
 * fallback([openai('gpt-5'), anthropic('claude-sonnet-5-5')]);
 */
export function fallback(
  models: readonly LanguageModel[],
  options: FallbackOptions = {},
): LanguageModel {
  const given: unknown = models;
  if (!Array.isArray(given))
    throw new ConfigurationError([
      {
        at: 'fallback',
        problem: 'Its models are not a list.',
        remedy: 'Write fallback([one, other]).',
      },
    ]);
  assertWrapper('fallback', models, options, FALLBACK_OPTIONS);
  const [first] = models;
  if (first === undefined)
    throw new ConfigurationError([
      { at: 'fallback([])', problem: 'There is no model.', remedy: 'Name at least one.' },
    ]);
  return new FallbackModel(first, models, options.when ?? isNoFaultOfTheRequest);
}

const FALLBACK_OPTIONS = defineOptions<FallbackOptions>({ when: FUNCTION });

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
    const takes = (what: keyof ModelCapabilities): boolean =>
      models.some(({ capabilities }) => capabilities[what] !== false);
    this.capabilities = {
      images: takes('images'),
      files: takes('files'),
      audio: models.some(({ capabilities }) => capabilities.audio === true),
    };
  }

  override get controls(): AttemptControl {
    return 'all';
  }

  async *stream(
    request: ModelRequest,
    signal: AbortSignal,
  ): AsyncGenerator<ModelEvent, void, undefined> {
    const able = this.models.filter(({ capabilities }) =>
      takesMedia(request.messages, capabilities),
    );
    // If no model accepts all of it, each gets the part that it accepts.
    const candidates = able.length > 0 ? able : this.models;
    let spent = NO_USAGE;
    for (const [index, model] of candidates.entries()) {
      const attempt = new Attempt(model, fitted(request, model), signal, spent);
      try {
        yield* introduced(model, new BatchedEvents(attempt, signal));
        return;
      } catch (error) {
        const canGoOn =
          error instanceof ModelError &&
          !attempt.hasShown &&
          !signal.aborted &&
          index < candidates.length - 1;
        if (!canGoOn || !this.canGoOn(error)) {
          yield* usageOf(attempt);
          throw error;
        }
        ({ spent } = attempt);
      }
    }
  }
}

/** Yields the event that names the model that answers, before its answer. */
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

function isNoFaultOfTheRequest({ isRetryable, status, code }: ModelError): boolean {
  return isRetryable || code === 'context_length' || status === undefined || !REFUSED.has(status);
}

/**
 * Checks the models and the options of a wrapper.
 *
 * @throws ConfigurationError for a value that is not a model, and for wrong options
 */
export function assertWrapper<Options extends object>(
  at: string,
  models: readonly unknown[],
  options: unknown,
  table: OptionTable<Options>,
): void {
  const findings = [...modelFindings(models, at), ...table.findings(options, at)];
  if (findings.length > 0) throw new ConfigurationError(findings);
}

function modelFindings(models: readonly unknown[], at: string): Finding[] {
  return models
    .filter((model) => !(model instanceof LanguageModel))
    .map((model) => ({
      at,
      problem: foreignModel(model) ?? `Its model is ${inWords(model)}, not a LanguageModel.`,
      remedy: 'Pass one: openai(…), or one of your own.',
    }));
}
