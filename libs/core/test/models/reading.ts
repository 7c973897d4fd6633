import type { LanguageModel } from '@toolloop/core';
import type { ModelEvent, ModelRequest } from '@toolloop/protocol';

export const QUESTION: ModelRequest = { messages: [{ role: 'user', content: 'Hi' }], tools: [] };

/** What a model said until it ended or failed. */
export interface Heard {
  readonly events: readonly ModelEvent[];
  readonly text: string;
  readonly error?: unknown;
}

export async function hear(
  model: LanguageModel,
  request = QUESTION,
  signal = new AbortController().signal,
): Promise<Heard> {
  const events: ModelEvent[] = [];
  const textOf = (): string =>
    events.map((event) => (event.type === 'text-delta' ? event.text : '')).join('');
  try {
    for await (const event of model.stream(request, signal)) events.push(event);
    return { events, text: textOf() };
  } catch (error) {
    return { events, text: textOf(), error };
  }
}
