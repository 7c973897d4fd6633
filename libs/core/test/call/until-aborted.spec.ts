import { describe, expect, it } from '@jest/globals';
import { getEventListeners } from 'node:events';
import { Interruption, untilAborted } from '../../src/contracts/interruption.js';

const listeners = (signal: AbortSignal): number => getEventListeners(signal, 'abort').length;

describe('untilAborted', () => {
  it.each([
    ['succeeded', () => Promise.resolve(1)],
    ['failed', () => Promise.reject(new Error('no'))],
  ])('leaves no listener behind once the work has %s', async (_, work) => {
    const { signal } = new AbortController();
    const pending = untilAborted(work(), signal);
    expect(listeners(signal)).toBe(1);
    await Promise.allSettled([pending]);
    expect(listeners(signal)).toBe(0);
  });

  it('rejects at once where the signal was aborted before, and puts up with work that fails later', async () => {
    const signal = AbortSignal.abort(new Interruption('aborted', 'Enough.'));
    const late = Promise.resolve().then(() => Promise.reject(new Error('late')));
    await expect(untilAborted(late, signal)).rejects.toThrow('Enough.');
    expect(listeners(signal)).toBe(0);
  });
});
