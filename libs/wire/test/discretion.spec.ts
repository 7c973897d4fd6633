import { describe, expect, it } from '@jest/globals';
import { ModelError } from '@toolloop/core';
import type { Message } from '@toolloop/protocol';
import { withDiscretion } from '@toolloop/wire';
import { setImmediate } from 'node:timers/promises';
import { ask } from './requests.js';

const KEY = 'sk-own-secret';

async function told(message: string, texts: readonly string[], apiKey = KEY): Promise<string> {
  const messages = texts.map((content): Message => ({ role: 'user', content }));
  return (await withDiscretion(new ModelError(message), { apiKey, request: ask('', { messages }) }))
    .message;
}

/** The message without what it quotes, found place by place. */
function expected(message: string, texts: readonly string[]): string {
  const isQuoted = (at: number): boolean =>
    at + 16 <= message.length && texts.some((text) => text.includes(message.slice(at, at + 16)));
  let rest = '';
  for (let at = 0; at < message.length;) {
    if (!isQuoted(at)) rest += message.charAt(at++);
    else {
      while (isQuoted(at + 1)) at += 1;
      rest += '[…]';
      at += 16;
    }
  }
  return rest;
}

/**
 * A text of `length` characters of which many pieces occur again and again; the same for the same
 * seed.
 */
function textOf(length: number, seed: number): string {
  let state = seed + 1;
  return Array.from({ length }, () => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff;
    return 'ab\u{1F600}'.charAt((state >> 16) % 4) || 'b';
  }).join('');
}

describe('an error that quotes its request', () => {
  it('loses what is quoted, whatever lies around it', async () => {
    for (let seed = 0; seed < 300; seed += 1) {
      const texts = [textOf(200, seed), textOf(17, seed + 1_000), textOf(3_000, seed + 2_000)];
      const [first = '', , third = ''] = texts;
      const message = `no ${first.slice(seed % 90, 100)} or ${textOf(40, seed + 5_000)} or ${third.slice(-30)}`;
      expect(await told(message, texts)).toBe(expected(message, texts));
    }
  });

  it('loses a quotation at the border of two stretches that are read', async () => {
    const quoted = 'the card number 4111 1111';
    for (let before = 262_144 - 30; before <= 262_144 + 2; before += 1) {
      expect(
        await told(`Wrong: ${quoted}!`, [`${'x'.repeat(before)}${quoted}${'y'.repeat(9)}`]),
      ).toBe('Wrong: […]!');
    }
  });

  it('loses short texts as a whole, and its key', async () => {
    expect(await told(`Wrong key ${KEY} for "  my secret "`, ['my secret'])).toBe(
      'Wrong key [api key] for "  […] "',
    );
  });

  it.each<[string, string]>([
    ['of the error’s own words', 'It says why the model could not answer this request of yours. '],
    ['of one character', 'a'],
    ['of other words', 'Nothing of it stands in there, and it is long. '],
  ])(
    'leaves the event loop to others while a long transcript %s is read once',
    async (_what, words) => {
      const texts = [words.repeat(Math.ceil((16 * 1024 * 1024) / words.length))];
      const message =
        'It says why the model could not answer this request of yours. '.repeat(8) +
        'a'.repeat(100);
      let ticks = 0;
      const end = new AbortController();
      const watching = (async () => {
        while (!end.signal.aborted) {
          await setImmediate();
          ticks += 1;
        }
      })();
      await told(message, texts);
      const whileItWasRead = ticks;
      end.abort();
      await watching;
      expect(whileItWasRead).toBeGreaterThanOrEqual(16 * 4 - 1); // a turn for each 256 K characters
    },
  );
});
