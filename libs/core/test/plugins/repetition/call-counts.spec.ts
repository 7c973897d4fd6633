import { describe, expect, it } from '@jest/globals';
import { DEFAULT_LIMITS } from '@toolloop/core';
import { CallCounts } from '../../../src/plugins/repetition/call-counts.js';

const counting = () => new CallCounts({ limits: DEFAULT_LIMITS, facts: { approvals: 'suspend' } });

const callOf = (args: string) => ({ toolCallId: 'c', name: 'a', arguments: args });

describe('the calls of a run', () => {
  it('are told apart over the last thousand different ones, whatever their length', () => {
    const counts = counting();
    const same = (index: number, padding = ''): number =>
      counts.same(callOf(`"${index}${padding}"`));
    const long = 'x'.repeat(5_000);
    expect([same(0, long), same(0, long), same(1, long)]).toEqual([1, 2, 1]);
    for (let index = 2; index < 5_000; index += 1) same(index);
    expect([same(4_500), same(1, long)]).toEqual([2, 1]);
    expect(counts.kept).toBe(1_000);
  });

  it('are the same if their arguments are, in any order', () => {
    const counts = counting();
    expect([
      counts.same(callOf('{"a":1,"b":2}')),
      counts.same(callOf('{ "b": 2, "a": 1 }')),
      counts.same(callOf('{"a":1,"b":3}')),
    ]).toEqual([1, 2, 1]);
  });

  it('are counted for the tools that there are, and for a thousand names that a client makes up', () => {
    const counts = counting();
    for (let index = 0; index < 5_000; index += 1) counts.ofTool(undefined, `guess__${index}`);
    expect([1, 2, 3].map(() => counts.ofTool('a', 'a'))).toEqual([1, 2, 3]);
    expect(counts.kept).toBe(1_001);
  });
});
