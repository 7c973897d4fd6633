import {
  addUsage,
  AttemptClock,
  batchesOf,
  type EventBatches,
  type LanguageModel,
  ModelError,
  type ModelEvent,
  type ModelRequest,
  NO_USAGE,
  type Usage,
} from '@toolloop/protocol';
import { Interruption, linkSignal } from '../contracts/interruption.js';
import { InterruptibleBatches } from './interruptible-batches.js';

/**
 * One attempt to get an answer. It holds events back until there is content to show, so that the
 * caller knows whether another attempt can replace it: once content was handed out, it cannot.
 */
export class Attempt implements EventBatches {
  hasShown = false;
  private reported = NO_USAGE;
  private readonly held: ModelEvent[] = [];
  private batches: EventBatches | undefined;

  /** @param before the usage of earlier attempts, which counts as well */
  constructor(
    private readonly model: LanguageModel,
    private readonly request: ModelRequest,
    private readonly signal: AbortSignal,
    private readonly before: Usage = NO_USAGE,
  ) {}

  /** The usage of this attempt and of those before it. */
  get spent(): Usage {
    const { before, reported } = this;
    if (before === NO_USAGE) return reported;
    if (reported === NO_USAGE) return before;
    return {
      ...addUsage(before, reported),
      ...(hidesCost(before, reported) && { hasUnknownCost: true }),
    };
  }

  /** An answer that has shown nothing has not ended well, and is asked again for its failure. */
  get hasEnded(): boolean {
    return this.hasShown && this.batches?.hasEnded === true;
  }

  /**
   * Reads the next events of the answer.
   *
   * @throws the model's error, or a retryable `ModelError` for an answer that ended before it began
   */
  async next(): Promise<readonly ModelEvent[] | undefined> {
    for (;;) {
      const events = this.taken(await this.reading.next());
      if (events?.length !== 0) return events;
    }
  }

  /**
   * The reading of the model's answer, for a reader that waits for it itself and shows what is
   * `taken`.
   */
  get reading(): EventBatches {
    return (this.batches ??= batchesOf(streamAttempt(this.model, this.request, this.signal)));
  }

  /** @throws ModelError that is retryable, for an answer that ended before it began */
  taken(said: readonly ModelEvent[] | undefined): readonly ModelEvent[] | undefined {
    if (!said && !this.hasShown && !this.signal.aborted) throw brokenOff(this.model);
    return said && this.toShow(said);
  }

  close(): void | Promise<void> {
    return this.batches?.close();
  }

  private toShow(said: readonly ModelEvent[]): readonly ModelEvent[] {
    const events = said.some(({ type }) => type === 'usage')
      ? said.map((event) => this.counted(event))
      : said;
    if (this.hasShown) return events;
    const first = events.findIndex(({ type }) => !SILENT.has(type));
    const content = events[first];
    if (!content) {
      this.held.push(...events);
      return [];
    }
    if (content.type === 'finish' && content.finishReason === 'incomplete')
      throw brokenOff(this.model);
    this.hasShown = true;
    if (this.held.length === 0 && this.before === NO_USAGE) return events;
    const before: readonly ModelEvent[] =
      this.before === NO_USAGE ? [] : [{ type: 'usage', usage: this.spent }];
    return [...before, ...this.held.splice(0), ...events];
  }

  private counted(event: ModelEvent): ModelEvent {
    if (event.type !== 'usage') return event;
    this.reported = event.usage;
    return { type: 'usage', usage: this.spent };
  }
}

/**
 * Streams one attempt of a model and keeps the time limits of the request. A model that controls
 * them itself does so by its provider's bytes; of any other the time between its events is
 * measured.
 */
export function streamAttempt(
  model: LanguageModel,
  request: ModelRequest,
  signal: AbortSignal,
): AsyncIterable<ModelEvent> {
  const { timeLimits } = request;
  const isControlled = model.controls === 'time' || model.controls === 'all';
  return timeLimits === undefined || isControlled
    ? model.stream(request, signal)
    : withinLimits(model, { ...request, timeLimits }, signal);
}

type TimedRequest = ModelRequest & Required<Pick<ModelRequest, 'timeLimits'>>;

async function* withinLimits(
  model: LanguageModel,
  request: TimedRequest,
  signal: AbortSignal,
): AsyncGenerator<ModelEvent, void, undefined> {
  const link = linkSignal(signal);
  const clock = new AttemptClock(request.timeLimits, (cause) =>
    link.abort(new Interruption('failed', cause.message, { cause })),
  );
  const events = new InterruptibleBatches(model.stream(request, link.signal), link.signal);
  try {
    for (;;) {
      clock.listen();
      const next = await events.next();
      clock.pause();
      if (!next) return;
      clock.takeContent();
      yield* next;
    }
  } catch (error) {
    throw clock.error ?? error;
  } finally {
    clock.stop();
    events.close();
    link.release();
  }
}

/**
 * The events that show the user nothing, after which another attempt is possible. A call runs when
 * its answer has ended, and is shown by its deltas.
 */
const SILENT: ReadonlySet<ModelEvent['type']> = new Set<ModelEvent['type']>([
  'usage',
  'model',
  'tool-call',
  'warning',
]);

/**
 * Tells whether a sum lacks a cost that one part has. If neither has one, `prices` can still
 * compute both.
 */
function hidesCost(one: Usage, other: Usage): boolean {
  const isOneKnown = (one.costUsd === undefined) !== (other.costUsd === undefined);
  return isOneKnown || one.hasUnknownCost === true || other.hasUnknownCost === true;
}

/** Returns the usage of all attempts, which comes before the last failure. */
export function usageOf({ hasShown, spent }: Attempt): readonly ModelEvent[] {
  return hasShown || spent === NO_USAGE ? [] : [{ type: 'usage', usage: spent }];
}

function brokenOff({ provider, modelId }: LanguageModel): ModelError {
  return new ModelError(`The answer of ${provider}/${modelId} broke off before it began.`, {
    code: 'incomplete',
    retryable: true,
  });
}
