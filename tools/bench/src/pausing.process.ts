import { setTimeout as sleep } from 'node:timers/promises';
import { anthropic } from '@toolloop/anthropic';
import type { LanguageModel } from '@toolloop/core';
import { httpFetch, openai } from '@toolloop/openai';
import type { Reading } from './pressure.suite.js';

/**
 * Reads one long answer in a process of its own, stops for a while after its first tenth, and tells
 * its parent what that took of memory. `node pausing.process.js <reader> <origin> <megabytes>
 * <pause in ms>`; needs --expose-gc.
 */
const [reader = '', origin = '', megabytes = '', pauseMs = ''] = process.argv.slice(2);
const total = Number(megabytes) * 2 ** 20;
const options = { apiKey: 'none' };
const MB = 2 ** 20;

const before = await live();
const rssBefore = process.memoryUsage.rss();
let [peak, read, inPause, atHalf] = [0, 0, 0, 0];
for await (const length of lengths()) {
  const had = read;
  read += length;
  peak = Math.max(peak, process.memoryUsage.rss() - rssBefore);
  if (had < total / 10 && read >= total / 10) inPause = await pause();
  if (had < total / 2 && read >= total / 2) atHalf = (await live()) - before;
}
const reading: Reading = {
  read: read / MB,
  inPause: inPause / MB,
  atHalf: atHalf / MB,
  atEnd: ((await live()) - before) / MB,
  peak: peak / MB,
};
process.send?.(reading);
process.disconnect();

/** Returns the growth of the process while its reader pauses. */
async function pause(): Promise<number> {
  const rss = process.memoryUsage.rss();
  await sleep(Number(pauseMs));
  return process.memoryUsage.rss() - rss;
}

/**
 * Returns the live memory: everything that survives a full collection. Buffers are given back a
 * little after it.
 */
async function live(): Promise<number> {
  for (let round = 0; round < 3; round += 1) {
    globalThis.gc?.();
    await sleep(50);
  }
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

async function* lengths(): AsyncGenerator<number, void, undefined> {
  if (reader === 'floor') {
    const { body } = await httpFetch()(`${origin}/${megabytes}/completions`);
    for await (const bytes of body ?? []) yield bytes.length;
    return;
  }
  const request = { messages: [{ role: 'user' as const, content: 'Go on.' }], tools: [] };
  for await (const event of modelOf(reader).stream(request, new AbortController().signal))
    if (event.type === 'text-delta') yield event.text.length;
}

function modelOf(api: string): LanguageModel {
  const baseURL = `${origin}/${megabytes}`;
  if (api === 'messages') return anthropic('bench', { ...options, baseURL });
  return openai('bench', { ...options, baseURL, api: api === 'responses' ? 'responses' : 'chat' });
}
