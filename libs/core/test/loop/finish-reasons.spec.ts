import { describe, expect, it, jest } from '@jest/globals';
import { ForbiddenException } from '@nestjs/common';
import { type FinishReason, type LoopRequest, ModelError, RunError } from '@toolloop/core';
import {
  ScriptedModel,
  call,
  calls,
  events,
  fails,
  hangs,
  text,
  textAndCalls,
  type ScriptedAnswer,
  type ScriptedTurn,
} from '@toolloop/testing';
import { play, resultsIn, type PlayedRun } from '../fixtures/played-run.js';
import { ask, openShop } from '../fixtures/shop.module.js';

async function playScript(
  script: readonly ScriptedTurn[],
  request: Partial<LoopRequest> = {},
): Promise<PlayedRun> {
  const model = new ScriptedModel(script);
  const played = await play(await openShop(model), ask(request));
  model.assertComplete();
  return played;
}

const read = (key = 'a') => call('probe__read', { key });
const write = (key = 'a') => call('probe__write', { key });
const unknown = (index = 0) => call(`unknown_${index}`, {});
const boom = () => {
  throw new Error('no');
};

describe('the end of a run', () => {
  const reasons: [FinishReason, readonly ScriptedTurn[], Partial<LoopRequest>][] = [
    ['stop', [text('Done.')], {}],
    ['length', [text('Half a', { reason: 'length' })], {}],
    ['content_filter', [text('', { reason: 'content_filter' })], {}],
    ['max_steps', [calls(read('a')), calls(read('b'))], { limits: { steps: 2 } }],
    ['max_calls', [calls(read('a'), read('b'))], { limits: { callsPerTool: 1 } }],
    ['no_progress', [calls(read(), read())], { limits: { identicalCalls: 1 } }],
    ['timeout', [hangs()], { limits: { runMs: 10 } }],
    ['budget', [calls(read())], { limits: { tokens: 14 } }],
    [
      'forbidden',
      [calls(write())],
      {
        onForbidden: 'halt',
        approvals: 'deny',
        policy: { allow: ['probe__*'], requireApproval: [{ effects: ['state_change'] }] },
      },
    ],
    ['tool_error', [calls(read())], { onToolError: 'halt', context: { act: boom } }],
    ['aborted', [], { signal: AbortSignal.abort() }],
    ['error', [fails(new ModelError('no'))], {}],
  ];

  it.each(reasons)(
    'has the reason %s, in its run-end and in its result alike',
    async (reason, script, request) => {
      const { events: seen, result } = await playScript(script, request);
      expect(result.finishReason).toBe(reason);
      expect(seen.at(-1)).toMatchObject({ type: 'run-end', finishReason: reason });
    },
  );

  it.each<[FinishReason, readonly ScriptedTurn[], Partial<LoopRequest>, string]>([
    ['max_steps', [calls(read('a'))], { limits: { steps: 1 } }, 'The limit "steps" is 1.'],
    ['timeout', [hangs()], { limits: { runMs: 10 } }, 'The run took longer than 10 ms.'],
  ])('says which limit was reached: %s', async (reason, script, request, finishDetail) => {
    const { events: seen, result } = await playScript(script, request);
    expect(result).toMatchObject({ finishReason: reason, finishDetail });
    expect(seen.at(-1)).toMatchObject({ type: 'run-end', finishDetail });
  });

  it('keeps the prompt of a run that fails before its first step', async () => {
    const { result } = await playScript([], { prompt: 'Go on.', instructions: boom });
    expect(result).toMatchObject({ finishReason: 'error', steps: 0 });
    expect(result.messages).toEqual([{ role: 'user', content: 'Go on.' }]);
  });

  it.each(reasons)(
    '%s, and `run()` rejects for error and aborted alone',
    async (reason, script, request) => {
      const running = (await openShop(new ScriptedModel(script))).run(ask(request));
      const rejects = reason === 'error' || reason === 'aborted';
      const error: unknown = await running.then(
        () => undefined,
        (cause: unknown) => cause,
      );
      expect(error instanceof RunError).toBe(rejects);
      expect(error === undefined).toBe(!rejects);
    },
  );
});

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** Says something after 600 ms, and then no more. */
async function speaksLate(): Promise<ScriptedAnswer> {
  await pause(600);
  return hangs('I see');
}

describe('timeout', () => {
  it('comes when the whole run takes too long, though every step is quick', async () => {
    const script = Array.from({ length: 40 }, (_, index) => calls(read(`${index}`)));
    const loop = await openShop(new ScriptedModel(script));
    jest.useFakeTimers({ doNotFake: ['nextTick', 'queueMicrotask'] });
    const playing = play(
      loop,
      ask({ limits: { runMs: 60, steps: 100 }, context: { act: () => pause(5) } }),
    );
    await jest.advanceTimersByTimeAsync(60);
    jest.useRealTimers();
    const { result } = await playing;
    expect(result.finishReason).toBe('timeout');
    expect(result.toolCalls.length).toBeGreaterThan(0);
  });

  it('comes when the model falls silent, and keeps what it said', async () => {
    const { result } = await playScript([textAndCalls('Looking.', read()), hangs('I see')], {
      limits: { modelIdleMs: 15 },
    });
    expect(result).toMatchObject({ finishReason: 'timeout', text: 'I see' });
    expect(result.messages.at(-1)).toEqual({ role: 'assistant', content: 'I see' });
  });

  it('comes as late after the last sign of the model as the limit says, and no later', async () => {
    const loop = await openShop(new ScriptedModel([speaksLate]));
    jest.useFakeTimers({ doNotFake: ['nextTick', 'queueMicrotask'] });
    let reason: string | undefined;
    const running = loop
      .run(ask({ limits: { modelIdleMs: 1000 } }))
      .then(({ finishReason }) => (reason = finishReason));
    await jest.advanceTimersByTimeAsync(1590);
    expect(reason).toBeUndefined();
    await jest.advanceTimersByTimeAsync(20);
    jest.useRealTimers();
    expect(reason).toBe('timeout');
    await running;
  });

  it('is a result of the tool, and not the end, when one tool takes too long', async () => {
    const { result } = await playScript([calls(read()), text('Done.')], {
      limits: { toolCallMs: 10 },
      context: { act: () => new Promise(() => undefined) },
    });
    expect(result).toMatchObject({
      finishReason: 'stop',
      toolCalls: [{ error: { code: 'timeout', retryable: true } }],
    });
  });
});

describe('length and content_filter', () => {
  it('run none of the calls of the answer that was cut', async () => {
    const cutOff = events([
      { type: 'text-delta', text: 'I will' },
      { type: 'tool-call', toolCallId: 'c1', name: 'probe__write', arguments: '{"key":"a"}' },
      { type: 'finish', finishReason: 'length' },
    ]);
    const { result } = await playScript([cutOff], { context: { act: boom } });
    expect(result).toMatchObject({ finishReason: 'length', toolCalls: [], text: 'I will' });
    expect(result.messages).toEqual([
      { role: 'user', content: 'Go on.' },
      { role: 'assistant', content: 'I will' },
    ]);
  });
});

describe('budget', () => {
  it('counts the tokens of the whole run, in and out, and lets the step come to its end', async () => {
    const script = [calls(read('a')), calls(read('b')), calls(read('c'))];
    const { result } = await playScript(script, { limits: { tokens: 30 } });
    expect(result).toMatchObject({
      finishReason: 'budget',
      steps: 3,
      usage: { inputTokens: 30, outputTokens: 15 },
    });
    expect(result.toolCalls).toHaveLength(3);
  });

  it('does not take a final answer away', async () => {
    const { result } = await playScript([text('Done.')], { limits: { tokens: 1 } });
    expect(result.finishReason).toBe('stop');
  });
});

function boomOrGuarded(key: string): string {
  return key === 'bad' ? boom() : guarded(key);
}

function guarded(key: string): string {
  if (key.startsWith('secret')) throw new ForbiddenException('Not yours.');
  return key;
}

describe('three refusals in a row', () => {
  const approval = { allow: ['*'], requireApproval: [{ effects: ['state_change' as const] }] };

  it('end the run with forbidden', async () => {
    const { result } = await playScript([calls(write('a')), calls(write('b')), calls(write('c'))], {
      policy: approval,
      approvals: 'deny',
    });
    expect(result).toMatchObject({ finishReason: 'forbidden', steps: 3 });
  });

  it('end it in one answer too, once the others of the answer were made', async () => {
    const { result } = await playScript([calls(write('a'), write('b'), write('c'), read('d'))], {
      policy: approval,
      approvals: 'deny',
    });
    expect(result.finishReason).toBe('forbidden');
    expect(result.toolCalls.map(({ status }) => status)).toEqual([
      'denied',
      'denied',
      'denied',
      'succeeded',
    ]);
  });

  it('are not in a row where a call between them succeeds', async () => {
    const script = [
      calls(write('a'), write('b'), read('c'), write('d')),
      calls(write('e'), read('f')),
      text('Done.'),
    ];
    const { result } = await playScript(script, { policy: approval, approvals: 'deny' });
    expect(result.finishReason).toBe('stop');
  });

  it('end the run with no_progress when the tools do not exist', async () => {
    const { result } = await playScript([0, 1, 2].map((index) => calls(unknown(index))));
    expect(result).toMatchObject({ finishReason: 'no_progress', steps: 3 });
  });

  it('end the run with forbidden when a tool answers 403', async () => {
    const { result } = await playScript(
      ['secret a', 'secret b', 'secret c'].map((key) => calls(read(key))),
      { context: { act: guarded } },
    );
    expect(result.finishReason).toBe('forbidden');
    expect(resultsIn(result.messages)[0]).toContain('Not yours.');
  });

  it('are not three failures: a tool may fail as often as it likes', async () => {
    const { result } = await playScript(
      [...['a', 'b', 'c', 'd'].map((key) => calls(read(key))), text('Done.')],
      {
        context: { act: boom },
      },
    );
    expect(result.finishReason).toBe('stop');
  });
});

describe('`onToolError: halt`', () => {
  it('ends the run with the first failure; calls behind it are answered and not made', async () => {
    const made: string[] = [];
    const act = (key: string) => {
      made.push(key);
      return key === 'bad' ? boom() : key;
    };
    const script = [calls(write('a'), write('bad'), write('c'), read('d'))];
    const { result } = await playScript(script, { onToolError: 'halt', context: { act } });
    expect(result.finishReason).toBe('tool_error');
    expect(made).toEqual(['a', 'bad']);
    expect(result.toolCalls.map(({ error }) => error?.code)).toEqual([
      undefined,
      'execution_failed',
      'aborted',
      'aborted',
    ]);
  });

  it('does not halt for a refusal', async () => {
    const policy = { allow: ['*'], requireApproval: [{ effects: ['state_change' as const] }] };
    const { result } = await playScript([calls(write()), text('Done.')], {
      onToolError: 'halt',
      approvals: 'deny',
      policy,
    });
    expect(result.finishReason).toBe('stop');
  });
});

describe('`onForbidden: halt`', () => {
  it('makes no write behind a refused read', async () => {
    const { result } = await playScript([calls(read('secret'), write('b'))], {
      onForbidden: 'halt',
      context: { act: guarded },
    });
    expect(result.finishReason).toBe('forbidden');
    expect(result.toolCalls.map(({ error }) => error?.code)).toEqual(['forbidden', 'aborted']);
  });

  it.each([
    ['forbidden', 'secret'],
    ['tool_error', 'bad'],
  ])(
    '`onForbidden: halt` and `onToolError: halt` end the run as the first call that halted it says: %s',
    async (reason, key) => {
      const script = [calls(read('a'), read(key), write('b'), read('secret'), write('bad'))];
      const { result } = await playScript(script, {
        onForbidden: 'halt',
        onToolError: 'halt',
        context: { act: boomOrGuarded },
      });
      expect(result.finishReason).toBe(reason);
      expect(result.toolCalls.map(({ error }) => error?.code)).toEqual([
        undefined,
        key === 'bad' ? 'execution_failed' : 'forbidden',
        'aborted',
        'aborted',
        'aborted',
      ]);
    },
  );
});
