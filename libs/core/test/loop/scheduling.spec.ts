import { describe, expect, it } from '@jest/globals';
import type { LoopRequest, ToolCallContext } from '@toolloop/core';
import { ScriptedModel, call, calls, eventsOf, text, type ScriptedCall } from '@toolloop/testing';
import { play, resultsIn, type PlayedRun } from '../fixtures/played-run.js';
import { ask, openShop } from '../fixtures/shop.module.js';

const read = (key: string) => call('probe__read', { key });
const write = (key: string) => call('probe__write', { key });
const send = (key: string) => call('probe__send', { key });

interface Played extends PlayedRun {
  /** `+a` when a began, `-a` when it ended. */
  readonly log: readonly string[];
  readonly mostAtOnce: number;
}

/** Lets calls end in the order of the numbers behind their colons, whatever the clock says. */
class Turns {
  private readonly waiting: { readonly turn: number; readonly go: () => void }[] = [];

  wait(turn: number): Promise<void> {
    return new Promise((go) => {
      this.waiting.push({ turn, go });
      setImmediate(() => this.next());
    });
  }

  private next(): void {
    this.waiting.sort((one, other) => one.turn - other.turn);
    this.waiting.shift()?.go();
  }
}

/** One step; of calls that run together, the one with the smallest number ends first. */
async function playStep(
  wanted: readonly ScriptedCall[],
  limits: LoopRequest['limits'] = {},
): Promise<Played> {
  const log: string[] = [];
  const turns = new Turns();
  let running = 0;
  let mostAtOnce = 0;
  const act = async (key: string) => {
    log.push(`+${key}`);
    running += 1;
    mostAtOnce = Math.max(mostAtOnce, running);
    await turns.wait(Number(key.split(':')[1] ?? 1));
    running -= 1;
    log.push(`-${key}`);
    return key;
  };
  const model = new ScriptedModel([calls(...wanted), text('Done.')]);
  const played = await play(await openShop(model), ask({ context: { act }, limits }));
  return { ...played, log, mostAtOnce };
}

describe('the calls of a step', () => {
  it('read together when they only read', async () => {
    const { log } = await playStep([read('a:20'), read('b:1'), read('c:10')]);
    expect(log).toEqual(['+a:20', '+b:1', '+c:10', '-b:1', '-c:10', '-a:20']);
  });

  it('read at most 8 at once', async () => {
    const { mostAtOnce, result } = await playStep(
      Array.from({ length: 20 }, (_, index) => read(`${index}:2`)),
    );
    expect(mostAtOnce).toBe(8);
    expect(result.toolCalls).toHaveLength(20);
  });

  it.each([1, 2, 5])(
    'read at most as many at once as the limit says: %i',
    async (parallelReads) => {
      const { mostAtOnce } = await playStep(
        Array.from({ length: 10 }, (_, index) => read(`${index}:2`)),
        { parallelReads },
      );
      expect(mostAtOnce).toBe(parallelReads);
    },
  );

  it('run one by one, in the order of the model, when they change something', async () => {
    const { log } = await playStep([write('a:9'), send('b:1'), write('c:5')]);
    expect(log).toEqual(['+a:9', '-a:9', '+b:1', '-b:1', '+c:5', '-c:5']);
  });

  it('wait for every call before them when they change something, and every call behind them waits for them', async () => {
    const { log } = await playStep([
      read('p:2'),
      read('q:1'),
      write('w:1'),
      read('r:9'),
      send('s:1'),
      read('t:3'),
    ]);
    expect(log).toEqual([
      '+p:2',
      '+q:1',
      '-q:1',
      '-p:2',
      '+w:1',
      '-w:1',
      '+r:9',
      '-r:9',
      '+s:1',
      '-s:1',
      '+t:3',
      '-t:3',
    ]);
  });

  it('read the changes of a call before them', async () => {
    let name = 'old';
    const act = (key: string) => (key === 'get' ? name : (name = key));
    const model = new ScriptedModel([calls(read('get'), write('new'), read('get')), text('Done.')]);
    const { result } = await play(await openShop(model), ask({ context: { act } }));
    expect(resultsIn(result.messages)).toEqual(['old', 'new', 'new']);
  });

  it('leave reads together when they name no tool', async () => {
    const { log } = await playStep([read('a:2'), call('nothing', {}), read('b:1')]);
    expect(log).toEqual(['+a:2', '+b:1', '-b:1', '-a:2']);
  });

  it('have their results in the order of the calls, in the transcript and in the records', async () => {
    const { result } = await playStep([
      write('w:1'),
      read('r:9'),
      call('nothing', {}),
      read('q:1'),
    ]);
    expect(result.toolCalls.map(({ id, index }) => [id, index])).toEqual([
      ['probe__write', 0],
      ['probe__read', 1],
      ['nothing', 2],
      ['probe__read', 3],
    ]);
    const [first, second, third, fourth] = resultsIn(result.messages);
    expect([first, second, fourth]).toEqual(['w:1', 'r:9', 'q:1']);
    expect(third).toContain('unknown_tool');
  });

  it('have their events when they happen', async () => {
    const { events } = await playStep([read('a:20'), read('b:1')]);
    expect(eventsOf(events, 'tool-result').map(({ record }) => record.index)).toEqual([1, 0]);
  });

  it('do not wait for a reader that is pushed to', async () => {
    const { events } = await playStep([read('a'), write('b')]);
    const types = events
      .map(({ type }) => type)
      .filter((type) => type.startsWith('tool-') && type !== 'tool-call-delta');
    expect(types).toEqual([
      'tool-call',
      'tool-start',
      'tool-result',
      'tool-call',
      'tool-start',
      'tool-result',
    ]);
  });
});

async function* stream(): AsyncGenerator<string> {
  yield 'one';
  await Promise.resolve();
  yield 'two';
  yield 'three';
}

const reporting = (_: string, context: ToolCallContext) => {
  context.progress({ percent: 50 });
  return 'done';
};

describe('a tool that streams', () => {
  it('shows every value but the last as progress, and the last is the result', async () => {
    const model = new ScriptedModel([calls(read('a')), text('Done.')]);
    const { events, result } = await play(await openShop(model), ask({ context: { act: stream } }));
    expect(eventsOf(events, 'tool-progress').map(({ value }) => value)).toEqual(['one', 'two']);
    expect(resultsIn(result.messages)).toEqual(['three']);
  });

  it('may say how far it is by its context', async () => {
    const model = new ScriptedModel([calls(read('a')), text('Done.')]);
    const { events } = await play(await openShop(model), ask({ context: { act: reporting } }));
    expect(eventsOf(events, 'tool-progress')).toMatchObject([
      { value: { percent: 50 }, tool: 'probe__read', toolCallId: 'call_1' },
    ]);
  });
});
