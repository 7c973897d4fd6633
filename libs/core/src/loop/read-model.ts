import { Interruption, linkSignal } from '../execution/interruption.js';
import type { LanguageModel, ModelEvent, ModelRequest } from '../protocol/language-model.js';
import { InterruptibleIterator } from './interruptible.iterator.js';
import { SilenceWatch } from './silence.watch.js';

/** How long a model may be read. */
export interface ReadingLimits {
  readonly signal: AbortSignal;
  readonly modelIdleMs: number;
}

/** Takes an event; a promise makes the reading wait. */
export type EventTaker = (event: ModelEvent) => void | Promise<void>;

/** Reads one answer of a model to its end. Never throws: answers with what cut it short, if anything did. */
export async function readModel(model: LanguageModel, request: ModelRequest, limits: ReadingLimits, take: EventTaker): Promise<unknown> {
  const link = linkSignal(limits.signal);
  const silence = new SilenceWatch(link, limits.modelIdleMs);
  try {
    const events = new InterruptibleIterator(model.stream(request, link.signal), link.signal);
    await readAll(events, take, silence).finally(() => events.close());
    return link.signal.aborted ? Interruption.from(link.signal) : undefined;
  } catch (error) {
    return link.signal.aborted ? Interruption.from(link.signal) : error;
  } finally {
    silence.stop();
    link.release();
  }
}

async function readAll(events: InterruptibleIterator<ModelEvent>, take: EventTaker, silence: SilenceWatch): Promise<void> {
  for (;;) {
    silence.listen();
    const next = await events.next();
    silence.pause();
    if (next.done) return;
    const slowReader = take(next.value);
    if (slowReader) await slowReader;
  }
}
