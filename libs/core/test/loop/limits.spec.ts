import { describe, expect, it } from '@jest/globals';
import { ConfigurationError, DEFAULT_LIMITS, type Limits } from '@toolloop/core';
import {
  ScriptedModel,
  call,
  calls,
  eventsOf,
  hangs,
  text,
  type ScriptedTurn,
} from '@toolloop/testing';
import { play, type PlayedRun } from '../fixtures/played-run.js';
import { ask, openShop } from '../fixtures/shop.module.js';

async function playWith(
  limits: Partial<Limits>,
  script: readonly ScriptedTurn[],
  act: (key: string) => unknown = (key) => key,
): Promise<PlayedRun> {
  return play(await openShop(new ScriptedModel(script)), ask({ limits, context: { act } }));
}

const read = (key = 'a') => call('probe__read', { key });
const codes = ({ result }: PlayedRun) => result.toolCalls.map(({ error }) => error?.code);

describe('a limit of 0', () => {
  it('asks no model when it is of steps', async () => {
    const model = new ScriptedModel([]);
    const { result, events } = await play(await openShop(model), ask({ limits: { steps: 0 } }));
    expect(result).toMatchObject({ finishReason: 'max_steps', steps: 0 });
    expect(events.map(({ type }) => type)).toEqual(['run-start', 'run-end']);
    expect(model.requests).toEqual([]);
  });

  it('makes no call when it is of calls per tool', async () => {
    const played = await playWith({ callsPerTool: 0 }, [calls(read())]);
    expect(played.result.finishReason).toBe('max_calls');
    expect(codes(played)).toEqual(['budget_exceeded']);
  });

  it('makes no call when it is of identical calls', async () => {
    const played = await playWith({ identicalCalls: 0 }, [calls(read())]);
    expect(played.result.finishReason).toBe('no_progress');
    expect(codes(played)).toEqual(['budget_exceeded']);
  });

  it('makes parallel reads one by one', async () => {
    const { result } = await playWith({ parallelReads: 0 }, [
      calls(read('a'), read('b')),
      text('Done.'),
    ]);
    expect(result).toMatchObject({
      finishReason: 'stop',
      toolCalls: [{ status: 'succeeded' }, { status: 'succeeded' }],
    });
  });

  it('ends the run with the first refusal, and with no mere failure, when it is of refusals in a row', async () => {
    const refused = await playWith({ refusalsInARow: 0 }, [calls(call('nothing', {}))]);
    expect(refused.result.finishReason).toBe('no_progress');
    const failed = await playWith({ refusalsInARow: 0 }, [calls(read()), text('Done.')], () =>
      Promise.reject(new Error('no')),
    );
    expect(failed.result.finishReason).toBe('stop');
  });

  it('takes empty arguments alone when it is of argument bytes', async () => {
    expect(codes(await playWith({ argumentBytes: 0 }, [calls(read()), text('Done.')]))).toEqual([
      'invalid_args',
    ]);
  });

  it('gives every call one of our ids when it is of the length of call ids', async () => {
    const { result } = await playWith({ toolCallIdLength: 0 }, [calls(read()), text('Done.')]);
    expect(result.toolCalls).toMatchObject([{ toolCallId: 'call_1_0' }]);
  });

  it('ends with the first answer that is not the last when it is of tokens', async () => {
    const { result } = await playWith({ tokens: 0 }, [calls(read())]);
    expect(result).toMatchObject({ finishReason: 'budget', toolCalls: [{ status: 'succeeded' }] });
  });

  it('has modelIdleMs end a run whose model is silent', async () => {
    const { result } = await playWith({ modelIdleMs: 0 }, [hangs()]);
    expect(result.finishReason).toBe('timeout');
  });

  it('leaves a tool that waits when it is of the time of a tool', async () => {
    expect(
      codes(
        await playWith(
          { toolCallMs: 0 },
          [calls(read()), text('Done.')],
          () => new Promise(() => undefined),
        ),
      ),
    ).toEqual(['timeout']);
  });
});

describe('a limit of 1', () => {
  it('makes the calls of the one step when it is of steps', async () => {
    const { result } = await playWith({ steps: 1 }, [calls(read())]);
    expect(result).toMatchObject({
      finishReason: 'max_steps',
      steps: 1,
      toolCalls: [{ status: 'succeeded' }],
    });
  });

  it('makes one call when it is of calls per tool and of identical calls', async () => {
    expect(codes(await playWith({ callsPerTool: 1 }, [calls(read('a'), read('b'))]))).toEqual([
      undefined,
      'budget_exceeded',
    ]);
    expect(codes(await playWith({ identicalCalls: 1 }, [calls(read('a'), read('a'))]))).toEqual([
      undefined,
      'budget_exceeded',
    ]);
  });

  it('ends the run with the first when it is of refusals in a row', async () => {
    const { result } = await playWith({ refusalsInARow: 1 }, [calls(call('nothing', {}), read())]);
    expect(result).toMatchObject({ finishReason: 'no_progress', steps: 1 });
  });
});

const late = () => new Promise((resolve) => setTimeout(() => resolve('late'), 20));

describe('a limit without end', () => {
  it.each(['runMs', 'modelIdleMs', 'toolCallMs'] as const)(
    'has %s mean no limit of time, and not the shortest',
    async (name) => {
      const { result } = await playWith(
        { [name]: Infinity },
        [
          calls(read()),
          async () => {
            await late();
            return text('Done.');
          },
        ],
        late,
      );
      expect(result).toMatchObject({ finishReason: 'stop', toolCalls: [{ status: 'succeeded' }] });
    },
  );

  it.each([
    'steps',
    'callsPerTool',
    'identicalCalls',
    'parallelReads',
    'injectedTools',
    'argumentBytes',
    'resultBytes',
  ] as const)('lets everything through for %s', async (name) => {
    const { result } = await playWith({ [name]: Infinity }, [
      calls(read('a'), read('b')),
      text('Done.'),
    ]);
    expect(result).toMatchObject({
      finishReason: 'stop',
      toolCalls: [{ status: 'succeeded' }, { status: 'succeeded' }],
    });
  });
});

describe('limits', () => {
  it('are taken from the request before the module, and from the module before the defaults', async () => {
    const model = new ScriptedModel([calls(read('a')), calls(read('b')), calls(read('c'))]);
    const loop = await openShop(model, { limits: { steps: 1, callsPerTool: 1 } });
    const { result } = await play(loop, ask({ limits: { steps: 3 } }));
    expect(result).toMatchObject({ finishReason: 'max_calls', steps: 2 });
  });

  it.each([
    [{ steps: -1 }, 'The limit "steps" is -1.'],
    [{ runMs: Number.NaN }, 'The limit "runMs" is NaN.'],
    [{ runMs: 0 }, 'The limit "runMs" is 0.'],
    [{ tokens: '100' }, 'The limit "tokens" is "100".'],
    [{ step: 3 }, 'There is no limit "step".'],
    [{ toolCallsMs: 3 }, 'Did you mean "toolCallMs"?'],
  ])('%j are refused at once, with what is wrong', async (limits, message) => {
    const model = new ScriptedModel([]);
    const loop = await openShop(model);
    const wrong = ask({ limits: limits as Partial<Limits> });
    expect(() => loop.open(wrong)).toThrow(ConfigurationError);
    expect(() => loop.stream(wrong)).toThrow(message);
    await expect(loop.run(wrong)).rejects.toThrow(message);
  });

  it('stop the start when those of the module are wrong', async () => {
    await expect(openShop(new ScriptedModel([]), { limits: { steps: -1 } })).rejects.toThrow(
      'The limit "steps" is -1.',
    );
  });

  it('have their defaults in one place', () => {
    expect(DEFAULT_LIMITS).toMatchObject({
      steps: 20,
      callsPerTool: 40,
      identicalCalls: 3,
      parallelReads: 8,
      refusalsInARow: 3,
    });
  });

  it('end a run of 20 steps', async () => {
    const script = Array.from({ length: 20 }, (_, index) => calls(read(`${index}`)));
    const { result, events } = await playWith({}, script);
    expect(result).toMatchObject({ finishReason: 'max_steps', steps: 20 });
    expect(eventsOf(events, 'step-end')).toHaveLength(20);
  });
});
