import { setTimeout as sleep } from 'node:timers/promises';
import { anthropic, type AnthropicModel, type AnthropicModelOptions } from '../src/index.js';
import { LocalProvider, type Answer } from '../../wire/test/local-provider.js';

export { eventsOf, failureOf } from '../../wire/test/read-model.js';

export const KEY = 'sk-own-secret';

let running: LocalProvider | undefined;

/** A model at a server on this machine that plays its provider, one for each test. */
export async function model(
  answer: Answer | readonly Answer[],
  options: AnthropicModelOptions = {},
): Promise<AnthropicModel> {
  running = await LocalProvider.start(...[answer].flat());
  return anthropic('own-1', { baseURL: running.origin, apiKey: KEY, ...options });
}

export function provider(): LocalProvider {
  if (running === undefined) throw new Error('No provider is played.');
  return running;
}

export async function stopProvider(): Promise<void> {
  await running?.[Symbol.asyncDispose]();
  running = undefined;
}

/** Waits until a number stays the same. */
export async function settled(value: () => number): Promise<void> {
  for (let before = -1; before !== value(); await sleep(100)) before = value();
}
