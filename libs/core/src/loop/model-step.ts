import type { LanguageModel, ModelEvent, ModelRequest } from '@toolloop/protocol';
import type { Told } from '../call/emit-event.js';
import { Interruption } from '../contracts/interruption.js';
import type { Limits } from '../contracts/limits.js';
import { streamAttempt } from '../models/attempt.js';
import { InterruptibleBatches } from '../models/interruptible-batches.js';
import { digestOf, suspectsIn, withoutMedia } from '../models/left-out-media.js';
import { RetriedModel } from '../models/retried.js';
import type { LiveRun } from '../run/live-run.js';
import { AnswerDisplay } from './answer-display.js';
import type { PreparedStep, StepAnswer } from './loop-state.js';

/**
 * Asks the model, and shows the events of its answer while they come. If the provider refuses the
 * request and it carries images or files, it is asked again without those that it may have refused:
 * the answer says which. Never rejects: an answer that was cut short carries its failure.
 */
export async function askModel(prepared: PreparedStep, live: LiveRun): Promise<AskedModel> {
  const asked = await askOnce(prepared, live);
  if (asked.failure === undefined || hasBegun(asked.answer)) return asked;
  const { request } = prepared;
  for (const suspects of suspectsIn(request.messages, asked.failure).slice(0, MOST_SELECTIONS)) {
    if (live.signal.aborted) return asked;
    const refusedMedia = [...new Set(suspects.map(digestOf))];
    const messages = withoutMedia(request.messages, {
      refused: new Set(refusedMedia),
      most: Infinity,
    });
    const { answer, failure } = await askOnce(
      { ...prepared, request: { ...request, messages } },
      live,
    );
    if (failure !== undefined && !hasBegun(answer)) continue;
    await live.emit({
      type: 'warning',
      step: prepared.step,
      code: 'media_refused',
      message: MEDIA_REFUSED,
    });
    return { answer: { ...answer, refusedMedia }, ...(failure !== undefined && { failure }) };
  }
  return asked;
}

/** One answer of the model, as far as it was read, and why it was cut short, if it was. */
export interface AskedModel {
  readonly answer: StepAnswer;
  readonly failure?: unknown;
}

/** The most further requests to find out which images or files a provider refuses. */
const MOST_SELECTIONS = 2;

const MEDIA_REFUSED =
  'The provider refused an image or a file of the conversation; it is left out from now on.';

function hasBegun({ text, reasoning, toolCalls }: StepAnswer): boolean {
  return text !== '' || reasoning !== '' || toolCalls.length > 0;
}

async function askOnce(
  { step, model, toolset, request }: PreparedStep,
  live: LiveRun,
): Promise<AskedModel> {
  const display = new AnswerDisplay(step, toolset, live);
  const { limits } = live.plan.execution;
  const failure = await readModel(model, request, { signal: live.signal, limits }, (event) =>
    display.take(event),
  );
  return { answer: display.answer, ...(failure !== undefined && { failure }) };
}

/**
 * The signal that ends one reading, and the limits of the run, of which those of the model's time
 * count.
 */
interface Reading {
  readonly signal: AbortSignal;
  readonly limits: Limits;
}

/** A reader of events, one by one; a promise makes the reading wait. */
type EventTaker = (event: ModelEvent) => Told;

/**
 * Reads one answer of a model to its end, with further attempts where the model leaves them to the
 * loop. Never throws: returns the failure that cut the answer short, if there was one.
 */
export async function readModel(
  model: LanguageModel,
  request: ModelRequest,
  reading: Reading,
  take: EventTaker,
): Promise<unknown> {
  const { signal, limits } = reading;
  const {
    modelFirstByteMs: firstByteMs,
    modelFirstContentMs: firstContentMs,
    modelIdleMs: idleMs,
  } = limits;
  const asked = { ...request, timeLimits: { firstByteMs, firstContentMs, idleMs } };
  let events: InterruptibleBatches | undefined;
  try {
    const answer = streamAttempt(
      model.controls === 'time' ? new RetriedModel(model) : model,
      asked,
      signal,
    );
    events = new InterruptibleBatches(answer, signal);
    for (
      let batch = await events.next();
      batch;
      batch = events.hasEnded ? undefined : await events.next()
    ) {
      const slowReader = takeAll(batch, take, signal);
      if (slowReader) await slowReader;
    }
    return signal.aborted ? Interruption.from(signal) : undefined;
  } catch (error) {
    return signal.aborted ? Interruption.from(signal) : error;
  } finally {
    events?.close();
  }
}

/**
 * Takes the events of a batch, but those behind an abort. A promise only where a reader makes the
 * run wait.
 */
function takeAll(
  batch: readonly ModelEvent[],
  take: EventTaker,
  signal: AbortSignal,
): Promise<void> | undefined {
  for (const [index, event] of batch.entries()) {
    if (signal.aborted) return undefined;
    const slowReader = take(event);
    if (slowReader) return slowReader.then(() => takeAll(batch.slice(index + 1), take, signal));
  }
  return undefined;
}
