import { describe, expect, it } from '@jest/globals';
import type { LoopEvent, ToolInvocationRecord } from '@toolloop/protocol';
import { EMPTY_RUN, withEvent } from '@toolloop/react';
import { callsIn, pathOf } from '../page/runs/value-path.js';

const AT = new Date(0);

function called(
  sequence: number,
  toolCallId: string,
  record: Partial<ToolInvocationRecord>,
): LoopEvent {
  const common = {
    toolCallId,
    id: `tool_${toolCallId}`,
    step: sequence,
    index: 0,
    attempt: 1,
    startedAt: AT,
    endedAt: AT,
    durationMs: 0,
  };
  return {
    type: 'tool-result',
    runId: 'r',
    sequence,
    timestamp: AT.toISOString(),
    step: sequence,
    record: { ...common, status: 'succeeded', ...record },
    isOfOthers: true,
  };
}

const EVENTS: readonly LoopEvent[] = [
  called(1, 'search', {
    args: { name: 'Ada' },
    result: [{ id: 'c-123', mail: 'ada@example.org', orders: 7 }],
  }),
  called(2, 'orders', {
    args: { limit: 7 },
    entity: { provider: 'Customer', instanceId: 'c-123', depth: 1 },
    result: ['o-7'],
  }),
  called(3, 'send', { args: { to: { address: 'ADA@example.org' }, text: 'Hello c-123.' } }),
  {
    type: 'text-delta',
    runId: 'r',
    sequence: 4,
    timestamp: AT.toISOString(),
    step: 4,
    text: 'I wrote to ada@example.org.',
  },
];

const RUN = EVENTS.reduce(withEvent, EMPTY_RUN);

function places(value: string): Readonly<Record<'read' | 'reached', readonly string[]>> {
  const { read, reached } = pathOf(value, RUN);
  const told = (list: typeof read): readonly string[] =>
    list.map(({ call, at }) => `${call.toolCallId} ${at}`);
  return { read: told(read), reached: told(reached) };
}

describe('the path of a value', () => {
  it('names the results in which it stands, and the calls that it reached in an argument, in a text or as their entity', () => {
    expect(places('c-123')).toEqual({
      read: ['search /0/id'],
      reached: ['orders /instance', 'send /text'],
    });
    expect(places('ada@example.org')).toEqual({
      read: ['search /0/mail'],
      reached: ['send /to/address'],
    });
    expect(pathOf('ada@example.org', RUN).said.map(({ step }) => step)).toEqual([4]);
  });

  it('finds a short value only where it stands alone, since others hold it by chance', () => {
    expect(places('7')).toEqual({ read: ['search /0/orders'], reached: ['orders /limit'] });
    expect(pathOf('7', RUN).said).toEqual([]);
  });

  it('has no place for a value that no result holds', () => {
    expect(places('Ada')).toEqual({ read: [], reached: ['search /name'] });
  });

  it('goes through sub-runs, behind the call that started each', () => {
    const subRun = {
      runId: 's',
      finishReason: 'stop',
      steps: 1,
      usage: { inputTokens: 0, outputTokens: 0 },
    } as const;
    const inner = { ...called(1, 'inner', { result: { mail: 'bob@example.org' } }), runId: 's' };
    const outer: LoopEvent = {
      type: 'sub-run',
      runId: 'r',
      sequence: 5,
      timestamp: AT.toISOString(),
      path: ['s'],
      event: inner,
    };
    const run = [...EVENTS, outer, called(6, 'ask', { subRun })].reduce(withEvent, EMPTY_RUN);
    expect(callsIn(run).map(({ toolCallId }) => toolCallId)).toEqual([
      'search',
      'orders',
      'send',
      'ask',
      'inner',
    ]);
    expect(pathOf('bob@example.org', run).read.map(({ at }) => at)).toEqual(['/mail']);
  });
});
