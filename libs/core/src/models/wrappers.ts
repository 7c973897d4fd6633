import {
  addUsage,
  ConfigurationError,
  type Finding,
  LanguageModel,
  type ModelCapabilities,
  ModelError,
  type ModelEvent,
  type ModelRequest,
  NO_USAGE,
  type Usage,
} from '@toolloop/protocol';
import { FUNCTION, inWords, optionFindings, type OptionValue, type OptionValues, WHOLE_ABOVE_ZERO } from '../findings/options.js';
import { fitted, takesMedia } from './request-fitting.js';

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
  assertWrapper('retried', [model], options, RETRY_OPTIONS);
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

const RETRY_OPTIONS: OptionValues<RetryOptions> = { attempts: WHOLE_ABOVE_ZERO, firstWaitMs: WAIT_MS, longestWaitMs: WAIT_MS };

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

/** Waits so long, in milliseconds, or until the signal is aborted, whichever comes first. */
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
  assertWrapper('fallback', models, options, FALLBACK_OPTIONS);
  const [first] = models;
  if (first === undefined)
    throw new ConfigurationError([{ at: 'fallback([])', problem: 'There is no model.', remedy: 'Name at least one.' }]);
  return new FallbackModel(first, models, options.when ?? isNoFaultOfTheRequest);
}

const FALLBACK_OPTIONS: OptionValues<FallbackOptions> = { when: FUNCTION };

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

/** Throws a `ConfigurationError` for models that are none, and for options that do not exist or cannot be. */
export function assertWrapper(
  at: string,
  models: readonly unknown[],
  options: unknown,
  known: Readonly<Record<string, OptionValue>>,
): void {
  const findings = [...modelFindings(models, at), ...optionFindings(options, known, at)];
  if (findings.length > 0) throw new ConfigurationError(findings);
}

function modelFindings(models: readonly unknown[], at: string): Finding[] {
  return models
    .filter((model) => !(model instanceof LanguageModel))
    .map((model) => ({
      at,
      problem: `Its model is ${inWords(model)}, not a LanguageModel.`,
      remedy: 'Pass one: openai(…), or one of your own.',
    }));
}
