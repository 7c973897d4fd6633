import { describe, expect, it } from '@jest/globals';
import {
  PendingService,
  calledTool,
  type LoopRequest,
  maxSteps,
  type Policy,
  RunError,
  type StopCondition,
  ToolLoopService,
} from '@toolloop/core';
import { ScriptedModel, call, calls, eventsOf, text, type ScriptedTurn } from '@toolloop/testing';
import { callIdsIn, play, resultOf, type PlayedRun } from '../fixtures/played-run.js';
import { ask, openModule, openShop, type ShopOptions } from '../fixtures/shop.module.js';

const read = (key = 'a') => call('probe__read', { key });
const write = (key = 'a') => call('probe__write', { key });

async function playWith(
  script: readonly ScriptedTurn[],
  request: Partial<LoopRequest>,
  options: ShopOptions = {},
): Promise<PlayedRun> {
  const model = new ScriptedModel(script);
  const played = await play(await openShop(model, options), ask(request));
  model.assertComplete();
  return played;
}

const act = (key: string) => (key === 'bad' ? Promise.reject(new Error('no')) : key);
const silent: StopCondition = () => new Promise(() => undefined);
const never: StopCondition = () => false;
const broken: StopCondition = () => {
  throw new Error('secret');
};

describe('a stop condition', () => {
  it('ends a run with `stop` after the step in which a tool was called, and says which it was', async () => {
    const { events, result } = await playWith([calls(read('1')), calls(write('2'), read('3'))], {
      stopWhen: calledTool('probe__write'),
    });
    expect(result).toMatchObject({
      finishReason: 'stop',
      steps: 2,
      finishDetail: 'The stop condition calledTool(probe__write) held after step 2.',
    });
    expect(callIdsIn(result.messages)).toHaveLength(3);
    expect(eventsOf(events, 'run-end')[0]?.finishDetail).toContain('calledTool');
    expect(result.toJSON()).toMatchObject({ finishDetail: expect.stringContaining('step 2') });
  });

  it.each(['write', 'probe__write', 'probe__w*'])('knows the tool as %s', async (name) => {
    expect(
      (await playWith([calls(write())], { stopWhen: calledTool(name) })).result.finishReason,
    ).toBe('stop');
  });

  it('does not hold of a call that failed', async () => {
    const { result } = await playWith([calls(write('bad')), calls(write('good'))], {
      stopWhen: calledTool('write'),
      context: { act },
    });
    expect(result.steps).toBe(2);
  });

  it('may be a number of steps, which is no limit', async () => {
    expect(
      (await playWith([calls(read('1')), calls(read('2'))], { stopWhen: maxSteps(2) })).result,
    ).toMatchObject({
      finishReason: 'stop',
      steps: 2,
    });
    expect(() => maxSteps(0)).toThrow('whole number');
  });

  it('may be any function of the step that has just ended', async () => {
    const seen: unknown[] = [];
    const stopWhen: StopCondition = async ({ step, text: said, toolCalls, usage, run }) => {
      seen.push({
        step,
        said,
        calls: toolCalls.map(({ args }) => args?.['key']),
        usage,
        tenant: run.tenant,
      });
      return Promise.resolve(step === 2);
    };
    await playWith([calls(read('1')), calls(read('2'))], { stopWhen });
    expect(seen).toMatchObject([
      { step: 1, calls: ['1'], tenant: 'acme', usage: { inputTokens: 10 } },
      { step: 2, calls: ['2'] },
    ]);
  });

  it('is one of several, of which any ends the run: of the application, the loop and the request', async () => {
    const { result } = await playWith(
      [calls(read('1')), calls(read('2'))],
      { stopWhen: [never, maxSteps(3)] },
      { stopWhen: maxSteps(2) },
    );
    expect(result).toMatchObject({ finishReason: 'stop', steps: 2 });
  });

  it('is not asked of the step that ends the run by itself, or waits', async () => {
    const asked: number[] = [];
    const stopWhen: StopCondition = ({ step }) => asked.push(step) > 9;
    await playWith([calls(read('1')), text('Done.')], { stopWhen });
    expect(asked).toEqual([1]);
  });

  it('comes before a limit', async () => {
    const { result } = await playWith([calls(read('1'))], {
      stopWhen: maxSteps(1),
      limits: { steps: 1 },
    });
    expect(result.finishReason).toBe('stop');
  });

  it('holds though a person has said something meanwhile, which is in the transcript', async () => {
    const model = new ScriptedModel([calls(read('1'))]);
    const loop = await openShop(model);
    const handle = loop.open(
      ask({ stopWhen: maxSteps(1), context: { act: () => handle.addInput('And this?') } }),
    );
    const result = await resultOf(handle);
    expect(result.finishReason).toBe('stop');
    expect(result.messages.at(-1)).toMatchObject({ role: 'user', content: 'And this?' });
  });

  it('ends the run with an error that names it when it throws, and keeps the results', async () => {
    const { result } = await playWith([calls(read('1'))], { stopWhen: [never, broken] });
    expect(result).toMatchObject({
      finishReason: 'error',
      error: { code: 'stop_condition', message: 'The stop condition broken failed.' },
    });
    expect(result.toolCalls).toHaveLength(1);
    expect(JSON.stringify(result)).not.toContain('secret');
  });

  it('is the cause of the rejection when it throws', async () => {
    const loop = await openShop(new ScriptedModel([calls(read('1'))]));
    const error: unknown = await loop
      .run(ask({ stopWhen: broken }))
      .catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(RunError);
    expect((error as RunError).cause).toMatchObject({ message: 'secret' });
  });

  it('never keeps the run from ending when it does not answer', async () => {
    const { result } = await playWith([calls(read('1'))], {
      stopWhen: silent,
      limits: { toolCallMs: 20 },
    });
    expect(result.error).toMatchObject({
      code: 'stop_condition',
      message: 'The stop condition silent failed.',
    });
  });

  it('is asked once the step that waited has ended', async () => {
    const policy: Policy = {
      allow: ['*'],
      flow: 'off',
      requireApproval: [{ tools: ['probe__write'] }],
    };
    const model = new ScriptedModel([calls(write('w'))]);
    const module = await openModule(model, { policy });
    const loop = module.get(ToolLoopService);
    const request = ask({ stopWhen: calledTool('write') });
    const first = await loop.run(request);
    expect(first.finishReason).toBe('waiting');
    const approvals = module.get(PendingService);
    const who = { actor: { id: 'alice' }, tenant: 'acme' };
    const [{ approvalId } = { approvalId: '' }] = await approvals.list(who);
    await approvals.decide({ approvalId, decision: 'approve' }, who);
    const { prompt: _prompt, ...again } = request;
    expect(await (await loop.resume(first.runId, again)).result).toMatchObject({
      finishReason: 'stop',
      steps: 1,
    });
  });
});
