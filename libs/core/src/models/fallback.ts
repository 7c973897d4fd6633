import {
  type AttemptControl,
  BatchedEvents,
  ConfigurationError,
  LanguageModel,
  type ModelCapabilities,
  ModelError,
  type ModelEvent,
  type ModelRequest,
  NO_USAGE,
} from '@toolloop/protocol';
import { FUNCTION } from '../findings/option-rules.js';
import { defineOptions } from '../findings/options.js';
import { Attempt, usageOf } from './attempt.js';
import { fitted, takesMedia } from './request-fitting.js';
import { assertWrapper } from './wrapper-findings.js';

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

/** The statuses of requests that the next model would refuse too. */
const REFUSED = new Set([400, 413, 422]);

export interface FallbackOptions {
  /**
   * Decides whether the next model is tried after a failure. @default after every failure except a
   * request that was refused for its content (400, 413, 422); one that is too long for this model
   * may fit the next
   */
  readonly when?: (error: ModelError) => boolean;
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
