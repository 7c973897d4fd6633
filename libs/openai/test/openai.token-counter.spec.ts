import { describe, expect, it } from '@jest/globals';
import { OpenAiTokenCounter } from '../src/openai-token-counter.js';

const counter = new OpenAiTokenCounter();

describe('the token counter', () => {
  it.each([
    ['', 0],
    ['hello world', 2],
    ['<|endoftext|>', 7],
    ['\ud800', 1],
  ])('counts %j as %i', (text, tokens) => {
    expect(counter.count(text)).toBe(tokens);
  });

  it('knows the vocabulary of older models too', () => {
    const text = 'Ελληνικά και ქართული';
    expect(new OpenAiTokenCounter('cl100k_base').count(text)).toBeGreaterThan(counter.count(text));
  });

  it.each([1_000, 10_000])('counts a text of %i sentences to within a few hundredths', (times) => {
    const sentence = 'The quick brown fox jumps over the lazy dog. ';
    const share = counter.count(sentence.repeat(times)) / (counter.count(sentence) * times);
    expect(Math.abs(share - 1)).toBeLessThan(0.1);
  });

  it('takes no long time for a word that never ends', () => {
    const before = process.cpuUsage(); // others on the machine do not lengthen it
    for (const letter of ['x', ' ', '👧']) counter.count(letter.repeat(500_000));
    expect(process.cpuUsage(before).user / 1_000_000).toBeLessThan(5);
  });
});
