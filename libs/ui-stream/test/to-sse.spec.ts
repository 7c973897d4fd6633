import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import type { MessageEvent } from '@nestjs/common';
import type { LoopEvent } from '@toolloop/core';
import { toSse } from '@toolloop/ui-stream';
import { Subject, of, throwError } from 'rxjs';

function delta(sequence: number): LoopEvent {
  return {
    type: 'text-delta',
    step: 1,
    text: 'a',
    runId: 'r1',
    sequence,
    timestamp: '2026-01-01T00:00:00.000Z',
  };
}

function read(source = new Subject<LoopEvent>(), options: Parameters<typeof toSse>[0] = {}) {
  const frames: MessageEvent[] = [];
  const subscription = source.pipe(toSse(options)).subscribe((frame) => frames.push(frame));
  return { source, frames, subscription };
}

describe('toSse', () => {
  beforeEach(() => {
    jest.useFakeTimers();
  });

  afterEach(() => {
    jest.useRealTimers();
  });

  it('puts the event in data and its sequence in id, and gives it no type', () => {
    const { source, frames } = read();
    source.next(delta(7));
    expect(frames).toEqual([{ id: '7', data: delta(7) }]);
  });

  it('sends a comment after every 25 s of silence', () => {
    const { source, frames } = read();
    jest.advanceTimersByTime(24_999);
    source.next(delta(1));
    jest.advanceTimersByTime(24_999);
    expect(frames).toHaveLength(1);
    jest.advanceTimersByTime(1);
    expect(frames.slice(1)).toEqual([{ comment: '' }]);
    jest.advanceTimersByTime(50_000);
    expect(frames.slice(1)).toEqual([{ comment: '' }, { comment: '' }, { comment: '' }]);
  });

  it('sends the comment as often as it is told', () => {
    const { frames } = read(new Subject(), { keepAliveMs: 100 });
    jest.advanceTimersByTime(250);
    expect(frames).toHaveLength(2);
  });

  it.each([0, -1, Number.NaN])('sends no comment for keepAliveMs %d', (keepAliveMs) => {
    read(new Subject(), { keepAliveMs });
    expect(jest.getTimerCount()).toBe(0);
  });

  it('does not take an endless silence for none at all', () => {
    const { frames } = read(new Subject(), { keepAliveMs: Number.POSITIVE_INFINITY });
    jest.advanceTimersByTime(3_600_000);
    expect(frames).toEqual([]);
  });

  it('leaves no timer when it is unsubscribed, and unsubscribes the run', () => {
    const { source, subscription } = read();
    expect(jest.getTimerCount()).toBe(1);
    subscription.unsubscribe();
    expect(jest.getTimerCount()).toBe(0);
    expect(source.observed).toBe(false);
  });

  it('leaves no timer when the run ends, at once or later', () => {
    const { source } = read();
    source.complete();
    of(delta(1)).pipe(toSse()).subscribe();
    expect(jest.getTimerCount()).toBe(0);
  });

  it('passes an error on and leaves no timer', () => {
    const errors: unknown[] = [];
    const failure = new Error('invalid request');
    throwError(() => failure)
      .pipe(toSse())
      .subscribe({ error: (error) => errors.push(error) });
    expect(errors).toEqual([failure]);
    expect(jest.getTimerCount()).toBe(0);
  });
});
