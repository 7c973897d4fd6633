import { type LanguageModel, ModelError } from '@toolloop/core';
import type { ModelEvent, ModelRequest } from '@toolloop/protocol';
import { ask } from './requests.js';

/** Every event of one answer. */
export async function eventsOf(
  subject: LanguageModel,
  request: ModelRequest = ask('Hi'),
  signal = new AbortController().signal,
): Promise<readonly ModelEvent[]> {
  const events: ModelEvent[] = [];
  for await (const event of subject.stream(request, signal)) events.push(event);
  return events;
}

export async function failureOf(
  subject: LanguageModel,
  request: ModelRequest = ask('Hi'),
): Promise<ModelError> {
  const error: unknown = await eventsOf(subject, request).catch((reason: unknown) => reason);
  if (error instanceof ModelError) return error;
  throw new Error('There was no ModelError.', { cause: error });
}
