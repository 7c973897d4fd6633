import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { HttpException } from '@nestjs/common';
import { ToolError } from '@toolloop/core';
import { retryDelay } from '../../src/call/retry-delay.js';

afterEach(() => {
  jest.restoreAllMocks();
});

const lucky = (share: number) => jest.spyOn(Math, 'random').mockReturnValue(share);

describe('retryDelay', () => {
  it.each([
    [1, 200],
    [2, 400],
    [3, 800],
    [5, 3200],
    [6, 5000],
    [2000, 5000],
  ])('is, after attempt %i, any time up to %i ms', (attempt, most) => {
    lucky(0);
    expect(retryDelay(new Error('x'), attempt)).toBe(0);
    lucky(0.5);
    expect(retryDelay(new Error('x'), attempt)).toBe(most / 2);
  });

  it.each<[string, unknown, number]>([
    ['a ToolError', new ToolError('x', { retryAfterMs: 1200 }), 1200],
    ['a ToolError that is in no hurry', new ToolError('x', { retryAfterMs: 60_000 }), 5000],
    ['a 429, in seconds', new HttpException({ retryAfter: 2 }, 429), 2000],
    ['a 503, as the header has it', new HttpException({ 'Retry-After': '3' }, 503), 3000],
    [
      'a date long gone',
      new HttpException({ 'retry-after': 'Wed, 21 Oct 2015 07:28:00 GMT' }, 503),
      0,
    ],
    [
      'a date far ahead',
      new HttpException({ 'retry-after': 'Wed, 21 Oct 2099 07:28:00 GMT' }, 503),
      5000,
    ],
  ])('is what the error asks for: %s', (_, error, ms) => {
    expect(retryDelay(error, 1)).toBe(ms);
  });

  it.each<[string, unknown]>([
    ['a ToolError', new ToolError('x', { retryable: true, retryAfterMs: -5 })],
    [
      'a ToolError, with no number',
      new ToolError('x', { retryable: true, retryAfterMs: Number.NaN }),
    ],
    ['a 429, with no time', new HttpException({ retryAfter: 'soon' }, 429)],
    ['a 429, with a list', new HttpException({ retryAfter: [1] }, 429)],
    ['a 500, which has none', new HttpException({ retryAfter: 2 }, 500)],
    ['a text', new HttpException('Later.', 503)],
  ])('is a time of its own where the error asks for nothing sensible: %s', (_, error) => {
    lucky(0.25);
    expect(retryDelay(error, 1)).toBe(50);
  });

  it('is none after a ToolError that names a time and cannot be tried again', () => {
    expect(
      retryDelay(new ToolError('x', { retryable: false, retryAfterMs: 5 }), 1),
    ).toBeUndefined();
  });
});
