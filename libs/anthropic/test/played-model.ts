import { ModelError, type ModelEvent, type ModelRequest } from '@toolloop/core';
import { setTimeout as sleep } from 'node:timers/promises';
import { anthropic, type AnthropicModel, type AnthropicModelOptions } from '../src/index.js';
import { LocalProvider, type Answer } from './local-provider.js';
import { ask } from './requests.js';

export const KEY = 'sk-own-secret';

let running: LocalProvider | undefined;

/** A model at a server on this machine that plays its provider, one for each test. */
export async function model(answer: Answer | readonly Answer[], options: AnthropicModelOptions = {}): Promise<AnthropicModel> {
  running = await LocalProvider.start(...[answer].flat());
  return anthropic('own-1', { baseURL: running.baseURL, apiKey: KEY, maxRetries: 0, ...options });
}

export function provider(): LocalProvider {
  if (running === undefined) throw new Error('No provider is played.');
  return running;
}

export async function stopProvider(): Promise<void> {
  await running?.[Symbol.asyncDispose]();
  running = undefined;
}

export async function eventsOf(
  subject: AnthropicModel,
  request: ModelRequest = ask('Hi'),
  signal = new AbortController().signal,
): Promise<readonly ModelEvent[]> {
  const events: ModelEvent[] = [];
  for await (const event of subject.stream(request, signal)) events.push(event);
  return events;
}

export async function failureOf(subject: AnthropicModel, request: ModelRequest = ask('Hi')): Promise<ModelError> {
  const error: unknown = await eventsOf(subject, request).catch((reason: unknown) => reason);
  if (error instanceof ModelError) return error;
  throw new Error('There was no ModelError.', { cause: error });
}

/** Waits until a number stays the same. */
export async function settled(value: () => number): Promise<void> {
  for (let before = -1; before !== value(); await sleep(100)) before = value();
}
