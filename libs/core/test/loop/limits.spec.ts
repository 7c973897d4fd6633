import { describe, expect, it } from '@jest/globals';
import { ConfigurationError, DEFAULT_LIMITS, type Limits } from '@toolloop/core';
import { ScriptedModel, call, calls, eventsOf, hangs, text, type ScriptedTurn } from '@toolloop/testing';
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
  it('of steps asks no model', async () => {
    const model = new ScriptedModel([]);
    const { result, events } = await play(await openShop(model), ask({ limits: { steps: 0 } }));
    expect(result).toMatchObject({ finishReason: 'max_steps', steps: 0 });
    expect(events.map(({ type }) => type)).toEqual(['run-start', 'run-end']);
    expect(model.requests).toEqual([]);
  });

  it('of calls per tool makes none', async () => {
    const played = await playWith({ callsPerTool: 0 }, [calls(read())]);
    expect(played.result.finishReason).toBe('max_calls');
    expect(codes(played)).toEqual(['budget_exceeded']);
  });

  it('of identical calls makes none', async () => {
    const played = await playWith({ identicalCalls: 0 }, [calls(read())]);
    expect(played.result.finishReason).toBe('no_progress');
    expect(codes(played)).toEqual(['budget_exceeded']);
  });

  it('of parallel reads makes them one by one', async () => {
    const { result } = await playWith({ parallelReads: 0 }, [calls(read('a'), read('b')), text('Done.')]);
    expect(result).toMatchObject({ finishReason: 'stop', toolCalls: [{ status: 'succeeded' }, { status: 'succeeded' }] });
  });

  it('of refusals in a row ends the run with the first, and with no mere failure', async () => {
    const refused = await playWith({ refusalsInARow: 0 }, [calls(call('nothing', {}))]);
    expect(refused.result.finishReason).toBe('no_progress');
    const failed = await playWith({ refusalsInARow: 0 }, [calls(read()), text('Done.')], () => Promise.reject(new Error('no')));
    expect(failed.result.finishReason).toBe('stop');
  });

  it('of argument bytes takes empty arguments alone', async () => {
    expect(codes(await playWith({ argumentBytes: 0 }, [calls(read()), text('Done.')]))).toEqual(['invalid_args']);
  });

  it('of the length of call ids gives every call one of ours', async () => {
    const { result } = await playWith({ toolCallIdLength: 0 }, [calls(read()), text('Done.')]);
    expect(result.toolCalls).toMatchObject([{ toolCallId: 'call_1_0' }]);
  });

  it('of tokens ends with the first answer that is not the last', async () => {
    const { result } = await playWith({ tokens: 0 }, [calls(read())]);
    expect(result).toMatchObject({ finishReason: 'budget', toolCalls: [{ status: 'succeeded' }] });
  });

  it.each(['runMs', 'modelIdleMs'] as const)('of %s ends a run whose model is silent', async (name) => {
    const { result } = await playWith({ [name]: 0 }, [hangs()]);
    expect(result.finishReason).toBe('timeout');
  });

  it('of the time of a tool leaves a tool that waits', async () => {
    expect(codes(await playWith({ toolCallMs: 0 }, [calls(read()), text('Done.')], () => new Promise(() => undefined)))).toEqual([
      'timeout',
    ]);
  });
});

describe('a limit of 1', () => {
  it('of steps makes the calls of the one step', async () => {
    const { result } = await playWith({ steps: 1 }, [calls(read())]);
    expect(result).toMatchObject({ finishReason: 'max_steps', steps: 1, toolCalls: [{ status: 'succeeded' }] });
  });

  it('of calls per tool and of identical calls makes one', async () => {
    expect(codes(await playWith({ callsPerTool: 1 }, [calls(read('a'), read('b'))]))).toEqual([undefined, 'budget_exceeded']);
    expect(codes(await playWith({ identicalCalls: 1 }, [calls(read('a'), read('a'))]))).toEqual([undefined, 'budget_exceeded']);
  });

  it('of refusals in a row ends the run with the first', async () => {
    const { result } = await playWith({ refusalsInARow: 1 }, [calls(call('nothing', {}), read())]);
    expect(result).toMatchObject({ finishReason: 'no_progress', steps: 1 });
  });
});

const late = () => new Promise((resolve) => setTimeout(() => resolve('late'), 20));

describe('a limit without end', () => {
  it.each(['runMs', 'modelIdleMs', 'toolCallMs'] as const)('of %s is no time at all, and not the least one', async (name) => {
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
  });

  it.each(['steps', 'callsPerTool', 'identicalCalls', 'parallelReads', 'injectedTools', 'argumentBytes', 'resultBytes'] as const)(
    'of %s lets everything through',
    async (name) => {
      const { result } = await playWith({ [name]: Infinity }, [calls(read('a'), read('b')), text('Done.')]);
      expect(result).toMatchObject({ finishReason: 'stop', toolCalls: [{ status: 'succeeded' }, { status: 'succeeded' }] });
    },
  );
});

describe('limits', () => {
  it('of a request win over those of the module, which win over the defaults', async () => {
    const model = new ScriptedModel([calls(read('a')), calls(read('b')), calls(read('c'))]);
    const loop = await openShop(model, { limits: { steps: 1, callsPerTool: 1 } });
    const { result } = await play(loop, ask({ limits: { steps: 3 } }));
    expect(result).toMatchObject({ finishReason: 'max_calls', steps: 2 });
  });

  it.each([
    [{ steps: -1 }, 'The limit "steps" is -1.'],
    [{ runMs: Number.NaN }, 'The limit "runMs" is NaN.'],
    [{ tokens: '100' }, 'The limit "tokens" is 100.'],
    [{ step: 3 }, 'There is no limit "step".'],
    [{ toolCallsMs: 3 }, 'Did you mean toolCallMs?'],
  ])('%j are refused at once, with what is wrong', async (limits, message) => {
    const model = new ScriptedModel([]);
    const loop = await openShop(model);
    const wrong = ask({ limits: limits as Partial<Limits> });
    expect(() => loop.open(wrong)).toThrow(ConfigurationError);
    expect(() => loop.stream(wrong)).toThrow(message);
    await expect(loop.run(wrong)).rejects.toThrow(message);
  });

  it('of the module that are wrong stop the start', async () => {
    await expect(openShop(new ScriptedModel([]), { limits: { steps: -1 } })).rejects.toThrow('The limit "steps" is -1.');
  });

  it('have their defaults in one place', () => {
    expect(DEFAULT_LIMITS).toMatchObject({ steps: 20, callsPerTool: 40, identicalCalls: 3, parallelReads: 8, refusalsInARow: 3 });
  });

  it('end a run of 20 steps', async () => {
    const script = Array.from({ length: 20 }, (_, index) => calls(read(`${index}`)));
    const { result, events } = await playWith({}, script);
    expect(result).toMatchObject({ finishReason: 'max_steps', steps: 20 });
    expect(eventsOf(events, 'step-end')).toHaveLength(20);
  });
});
