import { describe, expect, it } from '@jest/globals';
import { LanguageModel, ModelError } from '@toolloop/core';
import type { ModelEvent, ModelFinishReason } from '@toolloop/protocol';
import {
  SCRIPTED_USAGE,
  ScriptedModel,
  call,
  calls,
  cut,
  events,
  eventsOf,
  fails,
  text,
  textAndCalls,
  type ScriptedTurn,
} from '@toolloop/testing';
import { play, resultsIn, type PlayedRun } from '../fixtures/played-run.js';
import { ask, openShop } from '../fixtures/shop.module.js';

async function playScript(
  script: readonly ScriptedTurn[],
  request: Parameters<typeof ask>[0] = {},
): Promise<PlayedRun> {
  const model = new ScriptedModel(script);
  const played = await play(await openShop(model), ask(request));
  model.assertComplete();
  return played;
}

const read = (key = 'a') => call('probe__read', { key });

describe('invariant 5: a model that repeats itself', () => {
  it('ends with no_progress at the fourth identical call, which is answered and not made', async () => {
    let count = 0;
    const act = () => (count += 1);
    const { result } = await playScript(
      Array.from({ length: 4 }, () => calls(read())),
      { context: { act } },
    );
    expect(result.finishReason).toBe('no_progress');
    expect(count).toBe(3);
    expect(result.toolCalls.map(({ error }) => error?.code)).toEqual([
      undefined,
      undefined,
      undefined,
      'budget_exceeded',
    ]);
  });

  it('is not fooled by other spaces or another order of the arguments', async () => {
    const same = ['{"name":"a"}', ' { "name" : "a" } ', '{"name":\n"a"}', '{"na\\u006de":"a"}'];
    const { result } = await playScript(
      same.map((args) => calls(call('crm__searchCustomers', args))),
    );
    expect(result.finishReason).toBe('no_progress');
  });

  it('does not count calls with other arguments as the same', async () => {
    const { result } = await playScript([
      ...['a', 'b', 'c', 'd'].map((key) => calls(read(key))),
      text('Done.'),
    ]);
    expect(result.finishReason).toBe('stop');
  });

  it('counts malformed arguments that are the same', async () => {
    const { result } = await playScript(
      Array.from({ length: 4 }, () => calls(call('probe__read', '{"key"'))),
    );
    expect(result.finishReason).toBe('no_progress');
  });
});

describe('invariant 5: a model that calls one tool 1,000 times', () => {
  const thousand = Array.from({ length: 1000 }, (_, index) => read(`k${index}`));

  it('gets 40 results and 960 refusals in one answer, and the run ends with max_calls', async () => {
    let count = 0;
    const { result, events: seen } = await playScript([calls(...thousand)], {
      context: { act: () => (count += 1) },
    });
    expect(result.finishReason).toBe('max_calls');
    expect(count).toBe(40);
    expect(result.toolCalls.filter(({ error }) => error?.code === 'budget_exceeded')).toHaveLength(
      960,
    );
    expect(eventsOf(seen, 'tool-result')).toHaveLength(1000);
    expect(resultsIn(result.messages)).toHaveLength(1000);
  });

  it('is stopped at the 41st call when it calls step by step', async () => {
    const script = thousand.slice(0, 41).map((one) => calls(one));
    const { result } = await playScript(script, { limits: { steps: 1000 } });
    expect(result).toMatchObject({ finishReason: 'max_calls', steps: 41 });
    expect(result.toolCalls.filter(({ status }) => status === 'succeeded')).toHaveLength(40);
  });

  it('makes the other calls of the answer that goes beyond the limit', async () => {
    const { result } = await playScript(
      [calls(read('a'), read('b'), call('probe__write', { key: 'c' }))],
      { limits: { callsPerTool: 1 } },
    );
    expect(result.finishReason).toBe('max_calls');
    expect(result.toolCalls.map(({ status }) => status)).toEqual([
      'succeeded',
      'failed',
      'succeeded',
    ]);
  });
});

describe('invariant 5: a model that says nothing', () => {
  it.each(['', ' ', '\n\n\t'])(
    'is asked once more when it answers %j, and then answers',
    async (nothing) => {
      const { result, events: seen } = await playScript([text(nothing), text('Done.')]);
      expect(result).toMatchObject({ finishReason: 'stop', text: 'Done.', steps: 2 });
      expect(eventsOf(seen, 'warning')).toMatchObject([{ code: 'empty_answer', step: 1 }]);
      expect(result.messages).toEqual([
        { role: 'user', content: 'Go on.' },
        { role: 'assistant', content: 'Done.' },
      ]);
    },
  );

  it('ends the run with no_progress after two empty answers and leaves nothing empty in the transcript', async () => {
    const { result } = await playScript([text(''), text('')]);
    expect(result).toMatchObject({ finishReason: 'no_progress', text: '' });
    expect(result.messages).toEqual([{ role: 'user', content: 'Go on.' }]);
  });

  it('is asked once more, too, when it says that it calls tools, and calls none', async () => {
    const silent: ModelEvent[] = [{ type: 'finish', finishReason: 'tool_calls' }];
    const { result } = await playScript([events(silent), text('Done.')]);
    expect(result.finishReason).toBe('stop');
  });

  it('is asked once more, too, when it only thinks', async () => {
    const { result } = await playScript([text('', { reasoning: 'Hm.' }), text('Done.')]);
    expect(result).toMatchObject({ finishReason: 'stop', text: 'Done.' });
  });
});

describe('invariant 5: a model that is cut off', () => {
  it('keeps its text and ends with error when it is cut in the middle of a text', async () => {
    const { result } = await playScript([cut('Half a sen')]);
    expect(result).toMatchObject({
      finishReason: 'error',
      text: 'Half a sen',
      error: { code: 'model_incomplete' },
    });
    expect(result.messages.at(-1)).toEqual({ role: 'assistant', content: 'Half a sen' });
  });

  const half: ModelEvent = {
    type: 'tool-call-delta',
    toolCallId: 'c1',
    name: 'probe__read',
    argumentsDelta: '{"ke',
  };
  const whole: ModelEvent = {
    type: 'tool-call',
    toolCallId: 'c1',
    name: 'probe__read',
    arguments: '{"key":"a"}',
  };

  it.each<[string, readonly ModelEvent[]]>([
    ['in the middle of a call', [half]],
    ['after a call', [half, whole]],
    ['before anything', []],
  ])('%s runs nothing and leaves no call without a result', async (_, cutOff) => {
    let count = 0;
    const { result, events: seen } = await playScript([events(cutOff)], {
      context: { act: () => (count += 1) },
    });
    expect(count).toBe(0);
    expect(result.messages).toEqual([{ role: 'user', content: 'Go on.' }]);
    expect(eventsOf(seen, 'tool-call')).toEqual([]);
    expect(seen.at(-1)).toMatchObject({ finishReason: 'error' });
  });

  it.each<ModelFinishReason>(['length', 'content_filter'])(
    'runs, cut by %s, no call of that answer and sends back none of its opaque parts',
    async (reason) => {
      const answer: ModelEvent[] = [
        { type: 'text-delta', text: 'I will read.' },
        whole,
        { type: 'usage', usage: SCRIPTED_USAGE },
        {
          type: 'finish',
          finishReason: reason,
          providerData: { openai: { extraContent: { c1: 'signature' } } },
        },
      ];
      const { result } = await playScript([events(answer)]);
      expect(result).toMatchObject({ finishReason: reason, text: 'I will read.', toolCalls: [] });
      expect(result.messages.at(-1)).toEqual({ role: 'assistant', content: 'I will read.' });
    },
  );

  it('keeps its text when its stream throws in the middle of it, and the cause is in the rejection only', async () => {
    const { result, events: seen } = await playScript([
      fails(new ModelError('key sk-123 is wrong'), 'So far'),
    ]);
    expect(result).toMatchObject({
      finishReason: 'error',
      text: 'So far',
      error: { code: 'model_error', message: 'The model could not answer.' },
    });
    expect(JSON.stringify([seen, result, result.messages])).not.toContain('sk-123');
  });

  it('runs nothing when its stream throws after a call', async () => {
    const script = [textAndCalls('Reading.', read()), fails(new ModelError('gone'), 'And')];
    const { result } = await playScript(script);
    expect(result.messages.map(({ role }) => role)).toEqual([
      'user',
      'assistant',
      'tool',
      'assistant',
    ]);
  });
});

/** A model made by hand, with whatever is wrong with it. */
class OddModel extends LanguageModel {
  readonly provider = 'odd';
  readonly modelId = 'odd';

  constructor(private readonly answer: () => AsyncIterable<ModelEvent>) {
    super();
  }

  stream(): AsyncIterable<ModelEvent> {
    return this.answer();
  }
}

async function playOdd(answer: () => unknown): Promise<PlayedRun> {
  return play(await openShop(new OddModel(answer as () => AsyncIterable<ModelEvent>)), ask());
}

/** An iterator over a whole answer, as somebody would write it who knows no generators. */
function answering(extra: object): unknown {
  const rest: ModelEvent[] = [
    { type: 'text-delta', text: 'Done.' },
    { type: 'finish', finishReason: 'stop' },
  ];
  const next = () => {
    const value = rest.shift();
    return Promise.resolve(value ? { done: false, value } : { done: true, value: undefined });
  };
  return { [Symbol.asyncIterator]: () => ({ next, ...extra }) };
}

describe('invariant 5: a model that keeps no contract', () => {
  it.each<[string, () => unknown]>([
    [
      'throws instead of streaming',
      () => {
        throw new Error('no');
      },
    ],
    ['streams nothing', () => undefined],
    ['streams a list', () => [{ type: 'text-delta', text: 'a' }]],
    [
      'has an iterator that throws',
      () => ({
        [Symbol.asyncIterator]: () => ({
          next: () => {
            throw new Error('no');
          },
        }),
      }),
    ],
    [
      'has an iterator that returns no promise',
      () => ({ [Symbol.asyncIterator]: () => ({ next: () => ({ done: true }) }) }),
    ],
    [
      'streams null',
      async function* () {
        yield await Promise.resolve(null);
      },
    ],
    [
      'calls a tool without arguments and name',
      async function* () {
        yield await Promise.resolve({ type: 'tool-call', toolCallId: 'c1' });
        yield { type: 'finish', finishReason: 'tool_calls' };
      },
    ],
  ])('ends the run with error when it %s', async (_, answer) => {
    const { result } = await playOdd(answer);
    expect(result.finishReason).toBe('error');
  });

  it.each<[string, object]>([
    ['has no return()', {}],
    [
      'has a return() that throws',
      {
        return: () => {
          throw new Error('no');
        },
      },
    ],
    [
      'has a return() that is not asynchronous',
      { return: () => ({ done: true, value: undefined }) },
    ],
    ['has a return() that rejects', { return: () => Promise.reject(new Error('no')) }],
    ['has a return() that hangs', { return: () => new Promise(() => undefined) }],
  ])('is read to its end all the same when its iterator %s', async (_, extra) => {
    const { result } = await playOdd(() => answering(extra));
    expect(result).toMatchObject({ finishReason: 'stop', text: 'Done.' });
  });
});
