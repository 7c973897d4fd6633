import { describe, expect, it } from '@jest/globals';
import type { LoopEvent, Message } from '@toolloop/core';
import {
  ExpectationError,
  collect,
  eventsOf,
  expectDenied,
  expectInjected,
  expectRunEndsOnce,
  expectTranscriptValid,
} from '@toolloop/testing';
import { from, throwError } from 'rxjs';
import {
  RUN_END,
  RUN_START,
  STEP_START,
  answers,
  asks,
  record,
  result,
  spec,
  stamped,
} from './run-samples.js';

describe('collect', () => {
  const events = stamped(RUN_START, RUN_END);

  it('reads an Observable to its end', async () => {
    expect(await collect(from(events))).toEqual(events);
    expect(await collect(from([]))).toEqual([]);
  });

  it('reads an AsyncIterable to its end', async () => {
    async function* iterate(): AsyncGenerator<LoopEvent> {
      yield* await Promise.resolve(events);
    }
    expect(await collect(iterate())).toEqual(events);
  });

  it('rejects with what the source failed with', async () => {
    const failure = new Error('no such tool');
    await expect(collect(throwError(() => failure))).rejects.toBe(failure);
  });
});

describe('eventsOf', () => {
  it('keeps the events of one type, with the fields of that type', () => {
    const events = stamped(RUN_START, { type: 'tool-result', step: 1, record: record() }, RUN_END);
    expect(eventsOf(events, 'tool-result').map((event) => event.record.toolCallId)).toEqual(['c1']);
    expect(eventsOf(events, 'warning')).toEqual([]);
  });
});

describe('expectInjected', () => {
  const tools = ['customer_c123_getAverageSpend', 'customer_c123_getRecentOrders'];
  const injected = stamped(
    RUN_START,
    { type: 'tools-injected', step: 1, provider: 'Customer', instanceId: 'c123', tools },
    RUN_END,
  );
  const resulted = result({
    injectedTools: [
      spec('customer_c-1_getAverageSpend', 'customer_*_getAverageSpend'),
      spec('order_getLines', 'order_*_getLines'),
      spec('crm__refund'),
    ],
  });

  it.each([
    { provider: 'Customer' },
    { provider: 'Customer', instanceId: 'c123' },
    { provider: 'Customer', instanceId: 'c123', tools: ['customer_c123_getRecentOrders'] },
  ])('finds %j in events', (expected) => {
    expect(() => expectInjected(injected, expected)).not.toThrow();
  });

  it.each([
    [{ provider: 'customer' }, 'Nothing was injected for customer.'],
    [
      { provider: 'Customer', instanceId: 'c124' },
      `Nothing was injected for Customer c124. Injected: Customer c123 (${tools.join(', ')})`,
    ],
    [
      { provider: 'Customer', tools: ['customer_c123_delete'] },
      'Customer was injected without customer_c123_delete. Injected: Customer c123',
    ],
  ])('does not find %j in events, and says what was there', (expected, message) => {
    expect(() => expectInjected(injected, expected)).toThrow(message);
  });

  it.each([
    { provider: 'Customer' },
    { provider: 'customer', instanceId: 'c-1', tools: ['customer_c-1_getAverageSpend'] },
    { provider: 'Order' },
  ])('finds %j in a result', (expected) => {
    expect(() => expectInjected(resulted, expected)).not.toThrow();
  });

  it.each([
    { provider: 'Customer', instanceId: '1' },
    { provider: 'Order', instanceId: '' },
    { provider: 'crm__refund' },
  ])('does not find %j in a result, and says what was there', (expected) => {
    expect(() => expectInjected(resulted, expected)).toThrow(
      'Injected: customer c-1 (customer_c-1_getAverageSpend); order (order_getLines); a strategy (crm__refund)',
    );
  });

  it('says so when there was none', () => {
    expect(() => expectInjected([], { provider: 'Customer' })).toThrow(
      new ExpectationError('Nothing was injected for Customer. The run injected no tools.'),
    );
  });
});

describe('expectDenied', () => {
  const denied = record({
    id: 'customer_c1_erase',
    declaredId: 'customer_*_erase',
    status: 'denied',
    error: { code: 'policy_denied', safeMessage: 'No.' },
  });
  const records = [record(), denied];
  const evidence = [
    stamped(...records.map((one) => ({ type: 'tool-result' as const, step: 1, record: one }))),
    result({ toolCalls: records }),
  ];

  it.each(evidence)('finds a refused call by either id and its code (%#)', (...[events]) => {
    expect(() => expectDenied(events, 'customer_*_erase')).not.toThrow();
    expect(() => expectDenied(events, 'customer_c1_erase', 'policy_denied')).not.toThrow();
  });

  it.each(evidence)('says what became of the calls of the tool (%#)', (...[events]) => {
    expect(() => expectDenied(events, 'crm__find')).toThrow(
      'No call of crm__find was denied. Its calls: crm__find c1 succeeded',
    );
    expect(() => expectDenied(events, 'customer_*_erase', 'forbidden')).toThrow(
      'No call of customer_*_erase was denied with forbidden. Its calls: customer_c1_erase c1 denied with policy_denied',
    );
  });

  it('says which other tools were called', () => {
    expect(() => expectDenied(result({ toolCalls: records }), 'crm__fin')).toThrow(
      'crm__fin was not called, so no call of it was denied. Called: crm__find c1',
    );
    expect(() => expectDenied([], 'crm__find')).toThrow('The run called no tool.');
  });
});

describe('expectRunEndsOnce', () => {
  it('accepts the whole events of a run', () => {
    expect(() => expectRunEndsOnce(stamped(RUN_START, STEP_START, RUN_END))).not.toThrow();
  });

  const whole = stamped(RUN_START, STEP_START, RUN_END);
  const [start, ...rest] = whole;
  const ofAnotherRun = rest.toSpliced(-1, 1, { ...rest[1], runId: 'r2' } as LoopEvent);
  it.each<[string, LoopEvent[], string]>([
    ['no events', [], '0 run-end events instead of one. The last events: none.'],
    [
      'no end',
      stamped(RUN_START, STEP_START),
      '0 run-end events instead of one. The last events: 1 run-start, 2 step-start.',
    ],
    ['two ends', stamped(RUN_START, RUN_END, RUN_END), '2 run-end events'],
    [
      'an event after the end',
      stamped(RUN_START, RUN_END, STEP_START),
      'The run-end is not the last event.',
    ],
    ['a gap', whole.toSpliced(1, 1), 'events[1] (run-end) has the sequence 3 instead of 2.'],
    [
      'a repeated event',
      whole.toSpliced(1, 0, ...whole.slice(0, 1)),
      'events[1] (run-start) has the sequence 1 instead of 2.',
    ],
    [
      'a sequence that does not begin with 1',
      rest,
      'events[0] (step-start) has the sequence 2 instead of 1.',
    ],
    [
      'two runs',
      [start, ...ofAnotherRun] as LoopEvent[],
      'events[2] (run-end) belongs to the run r2',
    ],
  ])('refuses %s', (_, events, message) => {
    expect(() => expectRunEndsOnce(events)).toThrow(message);
  });
});

describe('expectTranscriptValid', () => {
  const user: Message = { role: 'user', content: 'Hello' };

  it.each<[string, Message[]]>([
    ['an empty one', []],
    [
      'words only',
      [{ role: 'system', content: 'Be short.' }, user, { role: 'assistant', content: 'Hi' }],
    ],
    [
      'results in another order than the calls',
      [user, asks(['a'], ['b']), answers('b'), answers('a'), asks(['c']), answers('c')],
    ],
    [
      'a failed call with malformed arguments',
      [user, asks(['a', '{']), answers('a', { isError: true })],
    ],
    ['calls without arguments', [user, asks(['a', ''], ['b', 'null']), answers('a'), answers('b')]],
  ])('accepts %s', (_, messages) => {
    expect(() => expectTranscriptValid(messages)).not.toThrow();
    expect(() => expectTranscriptValid(result({ messages }))).not.toThrow();
  });

  it.each<[string, Message[], string]>([
    [
      'a call without a result',
      [user, asks(['a'], ['b']), answers('a')],
      'messages[1]: the call b (crm__find) has no result right after it. There: a (crm__find)',
    ],
    [
      'a result that comes late',
      [asks(['a']), user, answers('a')],
      'messages[0]: the call a (crm__find) has no result right after it. There: no result',
    ],
    [
      'two results of one call',
      [asks(['a']), answers('a'), answers('a')],
      'messages[0]: the call a (crm__find) has 2 results.',
    ],
    [
      'the same id twice in one message',
      [asks(['a'], ['a']), answers('a')],
      'messages[0]: the call a (crm__find) has the id of an earlier call.',
    ],
    [
      'the same id in two messages',
      [asks(['a']), answers('a'), asks(['a']), answers('a')],
      'messages[2]: the call a (crm__find) has the id of an',
    ],
    [
      'a second result, later on',
      [asks(['a']), answers('a'), user, answers('a')],
      'messages[3]: the result a (crm__find) is an orphan.',
    ],
    [
      'a result of no call',
      [user, answers('a')],
      'messages[1]: the result a (crm__find) is an orphan. The message before it has no calls.',
    ],
    [
      'a result of another message’s call',
      [asks(['a']), answers('a'), asks(['b']), answers('b'), answers('a')],
      'messages[4]: the result a (crm__find) is an orphan. The message before it has b (crm__find).',
    ],
    [
      'a result of another tool',
      [asks(['a']), answers('a', { toolName: 'crm__erase' })],
      'messages[0]: the call a (crm__find) has a result of another tool',
    ],
    [
      'a success with malformed arguments',
      [asks(['a', '{"x":']), answers('a')],
      'messages[0]: the call a (crm__find) succeeded with arguments that are not a JSON object',
    ],
    [
      'a success with a list for arguments',
      [asks(['a', '[]']), answers('a')],
      'not a JSON object: "[]"',
    ],
    [
      'a success with arguments encoded twice',
      [asks(['a', '"{}"']), answers('a')],
      'not a JSON object',
    ],
  ])('refuses %s', (_, messages, breach) => {
    expect(() => expectTranscriptValid(messages)).toThrow(breach);
    expect(() => expectTranscriptValid(result({ messages }))).toThrow(ExpectationError);
  });

  it('refuses a result with a recorded call that its transcript lacks', () => {
    const messages = [asks(['a']), answers('a')];
    expect(() =>
      expectTranscriptValid(result({ messages, toolCalls: [record({ toolCallId: 'a' })] })),
    ).not.toThrow();
    expect(() =>
      expectTranscriptValid(result({ messages, toolCalls: [record({ toolCallId: 'b' })] })),
    ).toThrow('toolCalls[0]: the call b (crm__find) is not in the transcript.');
  });
});
