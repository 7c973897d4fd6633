import { describe, expect, it } from '@jest/globals';
import type { LoopEvent } from '@toolloop/core';
import { call, calls, eventsOf, hangs, text } from '@toolloop/testing';
import { atOnce } from '../../fixtures/time.js';
import { resultOf } from '../../fixtures/played-run.js';
import { expectSoundWithin, innerEvents, read, research, stage, toldOf, write } from './stage.js';

const slow = () => new Promise((resolve) => setTimeout(resolve, 30));
const usage = { inputTokens: 10, outputTokens: 5, costUsd: 1 };
/** With it every built answer costs 0.6 USD. */
const PRICE = { inputPerMillion: 40_000, outputPerMillion: 40_000 };

describe('what a sub-run uses', () => {
  it('is used by the run around it: tokens and money are in its sum', async () => {
    const { play } = await stage({ inner: [calls(read()), text('So.', { usage })] });
    const { events, result } = await play();
    expect(result.usage).toMatchObject({ inputTokens: 40, outputTokens: 20, costUsd: 1 });
    expect(result.toolCalls[0]?.subRun?.usage).toMatchObject({ inputTokens: 20, outputTokens: 10 });
    expect(eventsOf(events, 'usage').at(-1)?.total).toMatchObject({ inputTokens: 40 });
    expect(result.steps).toBe(2);
  });

  it('counts once, however deep it is', async () => {
    const deeper = calls(call('research', { prompt: 'Deeper.' }));
    const { play } = await stage({
      inner: [deeper, text('Here.'), text('There.')],
      subRun: { tools: ['*'] },
    });
    expect((await play({ limits: { subRunDepth: 2 } })).result.usage).toMatchObject({
      inputTokens: 50,
      outputTokens: 25,
    });
  });

  it('ends it within the steps that are left, but for one to answer in', async () => {
    const { play, outer } = await stage({
      inner: [calls(read('1')), calls(read('2')), calls(read('3'))],
    });
    const { result } = await play({ limits: { steps: 4 } });
    expect(toldOf(result)).toMatchObject({ finishReason: 'max_steps', steps: 2, toolCalls: 2 });
    expect(result).toMatchObject({ finishReason: 'stop', text: 'Told.' });
    outer.assertComplete();
  });

  it('takes from the steps of the run around it', async () => {
    const { play } = await stage({
      outer: [research('a'), research('b'), text('Done.')],
      inner: [calls(read('1')), text('a'), text('b')],
    });
    const { result } = await play({ limits: { steps: 5 } });
    expect(result).toMatchObject({ finishReason: 'stop', text: 'Done.' });
    expect(result.toolCalls.map(({ subRun }) => subRun?.finishReason)).toEqual([
      'stop',
      'max_steps',
    ]);
  });

  it('keeps to limits of its own, and says which it reached', async () => {
    const { play } = await stage({ inner: [calls(read('1'))], subRun: { limits: { steps: 1 } } });
    const { result } = await play();
    expect(toldOf(result)).toMatchObject({
      finishReason: 'max_steps',
      summary: expect.stringContaining('max_steps'),
    });
    expect(result.finishReason).toBe('stop');
  });

  it('never raises a limit of the run around it', async () => {
    const { play, done } = await stage({
      inner: [calls(read('x'), read('x'), read('y')), text('So.')],
      subRun: { limits: { callsPerTool: 90, steps: 90 } },
    });
    await play({ limits: { callsPerTool: 2 } });
    expect(done).toHaveLength(2);
  });

  it('ends both where the tokens of the run are used up', async () => {
    const { play } = await stage({ inner: [calls(read('1'))] });
    const { result } = await play({ limits: { tokens: 20 } });
    expect(toldOf(result)).toMatchObject({ finishReason: 'budget' });
    expect(result).toMatchObject({
      finishReason: 'budget',
      finishDetail: expect.stringContaining('20 tokens'),
    });
  });

  it('may cost what it says of itself, whatever the run around it has cost', async () => {
    const inner = [calls(read('1')), calls(read('2'))];
    const { play } = await stage({
      inner,
      subRun: { limits: { usd: 1 } },
      options: { prices: { inner: PRICE, outer: PRICE } },
    });
    const { result } = await play();
    expect(toldOf(result)).toMatchObject({ finishReason: 'budget', steps: 2, toolCalls: 2 });
    expect(result).toMatchObject({
      finishReason: 'stop',
      text: 'Told.',
      usage: { costUsd: expect.closeTo(2.4) },
    });
  });

  it('may cost no more than what is left to the run around it, and ends both', async () => {
    const options = { prices: { inner: PRICE, outer: PRICE } };
    const { play } = await stage({
      inner: [calls(read('1'))],
      subRun: { limits: { usd: 50 } },
      options,
    });
    const { result } = await play({ limits: { usd: 1 } });
    expect(toldOf(result)).toMatchObject({ finishReason: 'budget', steps: 1 });
    expect(result).toMatchObject({
      finishReason: 'budget',
      finishDetail: 'The run may cost 1 USD.',
    });
  });

  it('ends it when its cost is unknown, and so does a run around it that has a limit', async () => {
    const script = {
      inner: [calls(read('1'))],
      subRun: { limits: { usd: 50 } },
      options: { prices: { outer: PRICE } },
    };
    const { result } = await (await stage(script)).play();
    expect(toldOf(result)).toMatchObject({ finishReason: 'budget', steps: 1 });
    expect(result.finishReason).toBe('stop');
    const { result: limited } = await (
      await stage({ ...script, subRun: {} })
    ).play({ limits: { usd: 90 } });
    expect(limited).toMatchObject({
      finishReason: 'budget',
      finishDetail: expect.stringContaining('is not known'),
    });
  });

  it('continues when only the run around it has an answer without a cost', async () => {
    const inner = [calls(read('1')), text('So.')];
    const { play } = await stage({
      inner,
      subRun: { limits: { usd: 50 } },
      options: { prices: { inner: PRICE } },
    });
    expect(toldOf((await play()).result)).toMatchObject({ finishReason: 'stop' });
  });

  it('takes from the calls that a policy lets a run make', async () => {
    const policy = {
      allow: ['*'],
      flow: 'off',
      runBudgets: [{ tools: ['probe__read'], calls: 2 }],
    } as const;
    const script = {
      outer: [calls(read('1')), research(), calls(read('4')), text('Done.')],
      inner: [calls(read('2'), read('3')), text('So.')],
    };
    const { play, done } = await stage({ ...script, options: { policy } });
    const { result } = await play();
    expect(done).toEqual(['1', '2']);
    expect(result.toolCalls.at(-1)?.error?.code).toBe('budget_exceeded');
  });

  it('takes from the calls per tool', async () => {
    const script = {
      outer: [calls(read('1')), research(), text('Done.')],
      inner: [calls(read('2'), read('3')), text('So.')],
    };
    const { play, done } = await stage(script);
    const { result } = await play({ limits: { callsPerTool: 2 } });
    expect(done).toEqual(['1', '2']);
    expect(toldOf(result)).toMatchObject({ finishReason: 'max_calls' });
  });

  it("takes from the tenant's quotas, call by call and token by token", async () => {
    const options = { quotas: [{ quantity: 'calls', most: 2, windowMs: 60_000 }] } as const;
    const { play, done } = await stage({
      inner: [calls(read('1'), read('2')), text('So.')],
      options,
    });
    const { result } = await play();
    expect(done).toEqual(['1']);
    expect(toldOf(result)).toMatchObject({ finishReason: 'budget' });
    const tokens = { quotas: [{ quantity: 'tokens', most: 20, windowMs: 60_000 }] } as const;
    const other = await stage({ inner: [calls(read('1')), text('So.')], options: tokens });
    expect(toldOf((await other.play()).result)).toMatchObject({ finishReason: 'budget', steps: 1 });
  });

  it('ends when its time is up, with what it has', async () => {
    const { play } = await stage({
      inner: [calls(write('w')), hangs('I was')],
      subRun: { limits: { runMs: 40 } },
    });
    const { events, result } = await play();
    expect(toldOf(result)).toMatchObject({ finishReason: 'timeout', toolCalls: 1 });
    expect(result).toMatchObject({ finishReason: 'stop', toolCalls: [{ status: 'succeeded' }] });
    expectSoundWithin(events);
  });

  it('may take longer than a call of a tool, as long as the run may', async () => {
    const { play } = await stage({ inner: [calls(read('1')), text('So.')] });
    const { result } = await play({ limits: { toolCallMs: 10 }, context: { act: slow } });
    expect(result.toolCalls[0]).toMatchObject({
      status: 'succeeded',
      subRun: { toolCalls: [{ error: { code: 'timeout' } }] },
    });
  });
});

describe('invariant 11: a sub-run', () => {
  it('invariant 11: ends with the run around it at once, and both say so once', async () => {
    const { loop, request, inner } = await stage({ inner: [calls(read('1')), hangs('I')] });
    const handle = loop.open(request());
    const events: unknown[] = [];
    let speak!: () => void;
    const spoken = new Promise<void>((resolve) => (speak = resolve));
    const ended = new Promise<void>((resolve) => {
      handle.events$.subscribe({
        next: (event) => {
          events.push(event);
          if (event.type === 'sub-run' && event.event.type === 'text-delta') speak();
        },
        complete: resolve,
      });
    });
    await spoken;
    expect([inner.openStreams, inner.requests.length]).toEqual([1, 2]);
    handle.cancel();
    await atOnce(ended);
    const result = await resultOf(handle);
    expect(inner.openStreams).toBe(0);
    expect(result).toMatchObject({
      finishReason: 'aborted',
      toolCalls: [{ error: { code: 'aborted' }, subRun: { finishReason: 'aborted' } }],
    });
    expectSoundWithin(events as never);
    expect(innerEvents(events as never).at(-1)).toMatchObject({
      type: 'run-end',
      finishReason: 'aborted',
    });
  });

  it('invariant 11: is an unknown outcome when it had changed things, and its records say what was done', async () => {
    const { loop, request } = await stage({ inner: [calls(write('w')), hangs('I')] });
    const handle = loop.open(request());
    for await (const event of handle)
      if (event.type === 'sub-run' && event.event.type === 'text-delta') handle.cancel();
    const result = await resultOf(handle);
    expect(result.toolCalls).toMatchObject([
      {
        error: { code: 'unknown_outcome' },
        subRun: { toolCalls: [{ id: 'probe__write', status: 'succeeded' }] },
      },
    ]);
  });

  it('waits for a slow reader of the run around it', async () => {
    const { loop, request, inner } = await stage({ inner: [text('a b c d e f'), text('never')] });
    const iterator = loop.open(request())[Symbol.asyncIterator]();
    for (;;) {
      const next: IteratorResult<LoopEvent, undefined> = await iterator.next();
      if (next.value?.type === 'sub-run' && next.value.event.type === 'text-delta') break;
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(inner.openStreams).toBe(1);
    await iterator.return?.();
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(inner.openStreams).toBe(0);
  });
});

describe('several sub-runs of one answer', () => {
  it('run together where they only read, and each is told apart', async () => {
    const { play } = await stage({
      outer: [
        calls(call('research', { prompt: 'a' }), call('research', { prompt: 'b' })),
        text('Done.'),
      ],
      inner: [text('one'), text('two')],
      subRun: { effect: 'read_only' },
    });
    const { events, result } = await play();
    const ids = result.toolCalls.map(({ subRun }) => subRun?.runId);
    expect(new Set(ids).size).toBe(2);
    for (const id of ids) {
      const own = innerEvents(events).filter(({ runId }) => runId === id);
      expect(own.map(({ sequence }) => sequence)).toEqual(own.map((_, index) => index + 1));
    }
    const started = innerEvents(events).flatMap(({ type, runId }) =>
      type === 'run-start' || type === 'run-end' ? [`${type} ${ids.indexOf(runId)}`] : [],
    );
    expect(started.slice(0, 2)).toEqual(['run-start 0', 'run-start 1']);
  });
});
