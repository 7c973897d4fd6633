import { describe, expect, it } from '@jest/globals';
import { type Policy, subRunTool, ToolCatalog, ToolLoopService } from '@toolloop/core';
import { toolSearch } from '@toolloop/core/strategies';
import { ScriptedModel, call, calls, eventsOf, text } from '@toolloop/testing';
import { IsString } from 'class-validator';
import { resultsIn } from '../../fixtures/played-run.js';
import { Customer } from '../../fixtures/shop.js';
import {
  alice,
  expectSoundWithin,
  innerEvents,
  read,
  research,
  stage,
  toldOf,
  write,
} from './stage.js';

class Verdict {
  @IsString() verdict!: string;
}

const toolsOf = ({ requests }: ScriptedModel) => requests[0]?.toolIds;
const find = (name: string) => calls(call('crm__searchCustomers', { name }));

describe('a sub-run', () => {
  it('runs a loop as a tool, of which the model reads a summary first', async () => {
    const { play, done, inner } = await stage({
      inner: [calls(read('r1'), read('r2')), text('There are two.')],
    });
    const { result } = await play();
    expect(done).toEqual(['r1', 'r2']);
    expect(toldOf(result)).toEqual({
      summary: 'There are two.',
      finishReason: 'stop',
      steps: 2,
      toolCalls: 2,
    });
    expect(Object.keys(toldOf(result) as object)[0]).toBe('summary');
    expect(inner.requests[0]?.messages).toMatchObject([{ role: 'user', content: 'Find out.' }]);
  });

  it('tells its events within those of the run around it, and both are numbered without a gap', async () => {
    const { play } = await stage({ inner: [calls(read()), text('So.')] });
    const { events, result } = await play();
    expectSoundWithin(events);
    const [told] = eventsOf(events, 'sub-run');
    const { runId = '' } = result.toolCalls[0]?.subRun ?? {};
    expect(told?.path).toEqual([result.runId, runId]);
    expect(told?.event).toMatchObject({
      type: 'run-start',
      runId,
      model: 'inner',
      within: { runId: result.runId, tool: 'research' },
    });
    expect(innerEvents(events).map(({ type }) => type)).toEqual(
      expect.arrayContaining(['tool-result', 'text-delta', 'run-end']),
    );
  });

  it('keeps its records in that of its call, and tells them once', async () => {
    const { play } = await stage({ inner: [calls(read('r')), text('So.')] });
    const { events, result } = await play();
    expect(result.toolCalls).toMatchObject([
      {
        id: 'research',
        subRun: {
          finishReason: 'stop',
          steps: 2,
          toolCalls: [{ id: 'probe__read', args: { key: 'r' } }],
        },
      },
    ]);
    expect(eventsOf(events, 'tool-result')[0]?.record.subRun).not.toHaveProperty('toolCalls');
  });

  it('gives an answer of a class, checked like any', async () => {
    const { play } = await stage({
      inner: [text('{"verdict":"guilty"}')],
      subRun: { output: Verdict },
    });
    expect(toldOf((await play()).result)).toMatchObject({
      output: { verdict: 'guilty' },
      finishReason: 'stop',
    });
  });

  it('may be asked by an input of its own', async () => {
    const input = {
      type: 'object',
      properties: { topic: { type: 'string' } },
      required: ['topic'],
      additionalProperties: false,
    } as const;
    const { play, inner } = await stage({
      outer: [calls(call('research', { topic: 'tea' })), text('Told.')],
      inner: [text('Hot.')],
      subRun: { input, prompt: ({ topic }: { topic: string }) => `All about ${topic}.` } as never,
    });
    await play();
    expect(inner.requests[0]?.messages).toMatchObject([{ content: 'All about tea.' }]);
  });

  it('cuts its summary to its bytes', async () => {
    const { play } = await stage({
      inner: [text('x'.repeat(5_000))],
      subRun: { summaryBytes: 500 },
    });
    const { summary } = toldOf((await play()).result) as { summary: string };
    expect(Buffer.byteLength(summary)).toBeLessThanOrEqual(500);
    expect(summary).toContain('5000 bytes in all');
  });

  it('is a failed call when it fails, of which nothing inside is told', async () => {
    const { play } = await stage({ inner: [() => Promise.reject(new Error('secret'))] });
    const { events, result } = await play();
    expect(result).toMatchObject({
      finishReason: 'stop',
      toolCalls: [{ status: 'failed', error: { code: 'execution_failed' } }],
    });
    expect(resultsIn(result.messages)[0]).toContain(
      'The sub-run failed. The model could not answer.',
    );
    expect(JSON.stringify([events, result, result.messages])).not.toContain('secret');
    expectSoundWithin(events);
  });

  it('says so when it fails behind a write', async () => {
    const { play } = await stage({
      inner: [calls(write('w')), () => Promise.reject(new Error('no'))],
    });
    expect(resultsIn((await play()).result.messages)[0]).toContain('do not repeat it; check first');
  });

  it('knows what the run around it knows, and keeps its state to itself', async () => {
    const { play } = await stage({
      inner: [calls(read('inner')), text('So.')],
      outer: [calls(read('before')), research(), calls(read('after')), text('Done.')],
    });
    const seen: unknown[] = [];
    await play({
      context: {
        act: (key: string, { runId, path, tenant, actor, state }: never) => {
          (state as Map<string, unknown>).set(key, key);
          seen.push({
            key,
            runId,
            path,
            tenant,
            actor,
            state: [...(state as Map<string, unknown>).keys()],
          });
        },
      },
    });
    const [before, inner, after] = seen as [
      Record<string, unknown>,
      Record<string, unknown>,
      Record<string, unknown>,
    ];
    expect(inner).toMatchObject({
      tenant: 'acme',
      actor: alice.actor,
      path: [before['runId'], inner['runId']],
      state: ['before', 'inner'],
    });
    expect(after).toMatchObject({ state: ['before', 'after'] });
    expect(after['path']).toBeUndefined();
  });

  it('has an effect of its own: the strongest of its tools, unless it says less', async () => {
    const { module } = await stage({ inner: [] });
    const effectOf = (id: string) => module.get(ToolCatalog).resolve(id).spec.effect;
    expect(effectOf('research')).toBe('external_side_effect');
    const reading = await stage({
      inner: [],
      subRun: { tools: ['crm__searchCustomers', 'probe__read', Customer] },
    });
    expect(reading.module.get(ToolCatalog).resolve('research').spec.effect).toBe('read_only');
  });
});

describe('what a sub-run may use', () => {
  it('is what it lists of what the run around it may', async () => {
    const { play, inner } = await stage({
      inner: [text('So.')],
      subRun: { tools: ['probe__*'], exclude: ['probe__send'] },
    });
    await play({ tools: ['research', 'probe__read', 'probe__send', 'crm__*'] });
    expect(toolsOf(inner)).toEqual(['probe__read']);
  });

  it('is nothing that the run excludes, that its policy denies, or that it may not call', async () => {
    const policy: Policy = { allow: ['research', 'probe__read', 'probe__write'] };
    const { play, inner, done } = await stage({
      inner: [calls(call('probe__customer', { key: 'x' }), write('w'), read('r')), text('So.')],
    });
    const { result } = await play({ policy, exclude: ['probe__write'] });
    expect(toolsOf(inner)).toEqual(['probe__read']);
    expect(result.toolCalls[0]?.subRun?.toolCalls?.map(({ status }) => status)).toEqual([
      'denied',
      'failed',
      'succeeded',
    ]);
    expect(done).toEqual(['r']);
  });

  it('is narrowed by a policy of its own, and never widened', async () => {
    const subRun = { policy: { allow: ['probe__read', 'probe__write'] } };
    const { play, inner } = await stage({ inner: [text('So.')], subRun });
    await play({ policy: { allow: ['research', 'probe__read'] } });
    expect(toolsOf(inner)).toEqual(['probe__read']);
  });

  it('is no stronger than the effect it says', async () => {
    const { play, inner } = await stage({ inner: [text('So.')], subRun: { effect: 'read_only' } });
    await play();
    expect(toolsOf(inner)).not.toContain('probe__write');
    expect(toolsOf(inner)).toContain('probe__read');
  });

  it('are tools of entities too, those that the run has and those that the sub-run finds, where it lists them', async () => {
    const { play, inner } = await stage({
      outer: [find('Ann'), research(), text('Done.')],
      inner: [calls(call('customer_c-1_getRecentOrders')), text('So.')],
      subRun: { tools: ['crm__searchCustomers', 'customer_*_getRecentOrders', 'order_*_describe'] },
    });
    await play();
    expect(inner.requests.map(({ toolIds }) => toolIds)).toEqual([
      ['crm__searchCustomers', 'customer_c-1_getRecentOrders'],
      [
        'crm__searchCustomers',
        'customer_c-1_getRecentOrders',
        'order_c-1-1_describe',
        'order_c-1-2_describe',
      ],
    ]);
  });

  it('holds at execution: a hostile model gains nothing by a tool that is not listed', async () => {
    const { play, done } = await stage({
      inner: [calls(write('w'), call('crm__openCart', { id: '1' })), text('So.')],
      subRun: { tools: ['probe__read'] },
    });
    const { result } = await play();
    expect(result.toolCalls[0]?.subRun?.toolCalls?.map(({ error }) => error?.code)).toEqual([
      'unknown_tool',
      'unknown_tool',
    ]);
    expect(done).toEqual([]);
  });

  it('is no sub-run, at the depth of 1', async () => {
    const { play, inner } = await stage({
      inner: [calls(call('research', { prompt: 'Deeper.' })), text('So.')],
      subRun: { tools: ['*'] },
    });
    const { result } = await play();
    expect(toolsOf(inner)).not.toContain('research');
    expect(result.toolCalls[0]?.subRun?.toolCalls).toMatchObject([
      { status: 'failed', error: { code: 'unknown_tool' } },
    ]);
  });

  it('is another sub-run, where the depth lets it, with one path for both', async () => {
    const deeper = calls(call('research', { prompt: 'Deeper.' }));
    const { play } = await stage({
      inner: [deeper, deeper, text('Here.'), text('There.')],
      subRun: { tools: ['*'] },
    });
    const { events, result } = await play({ limits: { subRunDepth: 2 } });
    const paths = new Set(eventsOf(events, 'sub-run').map(({ path }) => path.length));
    expect([...paths]).toEqual([2, 3]);
    expect(innerEvents(events).some(({ type }) => type === 'sub-run')).toBe(false);
    const inner = result.toolCalls[0]?.subRun?.toolCalls?.[0]?.subRun;
    expect(inner?.toolCalls).toMatchObject([{ error: { code: 'unknown_tool' } }]);
  });

  it('is never more than the one around it may, whatever a search could find', async () => {
    const deepest = new ScriptedModel([calls(write('w'), read('r')), text('There.')]);
    const deep = subRunTool({
      id: 'deep',
      description: 'Digs.',
      tools: ['probe__*'],
      model: deepest,
    });
    const { play, done } = await stage({
      inner: [calls(call('deep', { prompt: 'Dig.' })), text('Here.')],
      subRun: { tools: ['deep', 'probe__read'] },
      options: { tools: [deep] },
    });
    await play({ limits: { subRunDepth: 2 }, injection: [toolSearch({ always: ['research'] })] });
    expect(toolsOf(deepest)).toEqual(['probe__read']);
    expect(done).toEqual(['r']);
  });

  it('is not offered at all where no depth is left', async () => {
    const { loop, request } = await stage({ inner: [] });
    const listed = await loop.list(request());
    expect(listed.map(({ id }) => id)).toContain('research');
    const { play, outer } = await stage({ outer: [text('None.')], inner: [] });
    await play({ limits: { subRunDepth: 0 } });
    expect(outer.requests[0]?.toolIds).not.toContain('research');
  });

  it.each([
    [{ tools: ['probe__raed'] }, 'No tool is named "probe__raed"'],
    [{ exclude: ['crm__x'] }, 'No tool is named "crm__x"'],
    [{ model: 'smal' }, 'No model is named "smal"'],
    [{ limits: { stepz: 3 } }, 'There is no limit "stepz"'],
    [{ policy: { allow: ['nothing'] } }, 'The policy names "nothing"'],
  ])('keeps the application from starting where it says %j', async (subRun, problem) => {
    await expect(stage({ inner: [], subRun: subRun as never })).rejects.toThrow(`sub-run research`);
    await expect(stage({ inner: [], subRun: subRun as never })).rejects.toThrow(problem);
  });
});

describe('two tenants', () => {
  it('they never meet in their sub-runs', async () => {
    const { loop, request } = await stage({
      outer: [research(), research(), text('A.'), text('B.')],
      inner: [calls(read('x')), calls(read('x')), text('a'), text('b')],
    });
    const seen: string[][] = [];
    const act = async (
      _key: string,
      { tenant, path, runId }: { tenant: string; path?: readonly string[]; runId: string },
    ) => {
      await new Promise((resolve) => setTimeout(resolve, 5));
      seen.push([tenant, path?.[0] ?? '', runId]);
    };
    const [one, other] = await Promise.all(
      ['acme', 'globex'].map((tenant) => loop.run(request({ tenant, context: { act } }))),
    );
    expect(new Set(seen.map(([tenant, root]) => `${tenant} ${root}`))).toEqual(
      new Set([`acme ${one?.runId}`, `globex ${other?.runId}`]),
    );
    expect(loop).toBeInstanceOf(ToolLoopService);
  });
});
