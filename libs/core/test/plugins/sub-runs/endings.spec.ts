import { describe, expect, it } from '@jest/globals';
import { type Policy, ToolCatalog } from '@toolloop/core';
import { DataPolicyEngine } from '@toolloop/core/policy';
import { MemoryRunLog, RunLog } from '@toolloop/core/stores';
import { calls, text } from '@toolloop/testing';
import { resultOf } from '../../fixtures/played-run.js';
import type { Act } from '../../fixtures/probe.tools.js';
import { read, stage, toldOf, write } from './stage.js';

const asking: Policy = {
  version: 'v1',
  allow: ['*'],
  flow: 'off',
  requireApproval: [{ tools: ['probe__write'] }],
};
const waits = { inner: [calls(read('r'), write('w')), text('So.')], options: { policy: asking } };

/** What of a finished run still says that it waits. */
const WAITING = /"waiting"/;

describe('a sub-run that waited', () => {
  it('is aborted in the record of a run that cannot wait, and so is what waited in it', async () => {
    const failing = new MemoryRunLog();
    failing.add = () => Promise.reject(new Error('disk full'));
    const providers = [{ provide: RunLog, useValue: failing }];
    const { loop, request, done } = await stage({
      ...waits,
      options: { policy: asking, providers },
    });
    const result = await resultOf(loop.open(request()));
    expect(done).toEqual(['r']);
    expect(result.toolCalls).toMatchObject([
      {
        status: 'failed',
        error: {
          code: 'aborted',
          safeMessage: 'The run ended before anybody decided, so the sub-run did not continue.',
        },
        subRun: {
          finishReason: 'aborted',
          toolCalls: [{ status: 'succeeded' }, { status: 'failed', error: { code: 'aborted' } }],
        },
      },
    ]);
    expect(JSON.stringify(result.toolCalls)).not.toMatch(WAITING);
  });

  it('says that it had changed things', async () => {
    const failing = new MemoryRunLog();
    failing.add = () => Promise.reject(new Error('disk full'));
    const policy: Policy = { ...asking, requireApproval: [{ tools: ['probe__send'] }] };
    const { loop, request } = await stage({
      inner: [calls(write('w')), calls({ name: 'probe__send', arguments: '{"key":"s"}' })],
      options: { policy, providers: [{ provide: RunLog, useValue: failing }] },
    });
    const result = await resultOf(loop.open(request()));
    expect(result.toolCalls[0]?.error?.safeMessage).toContain('It had changed things by then');
  });

  it('is aborted in the record of a run that continues without it', async () => {
    const { play, decide, resume, module } = await stage(waits);
    const { result: first } = await play();
    expect(first.toolCalls[0]?.subRun?.finishReason).toBe('waiting');
    await decide('approve');
    module.get(DataPolicyEngine).replace({ version: 'v2', allow: ['probe__*'] });
    const { result } = await resume(first.runId);
    expect(result.toolCalls).toMatchObject([
      {
        status: 'denied',
        subRun: {
          finishReason: 'aborted',
          toolCalls: [{ status: 'succeeded' }, { status: 'failed' }],
        },
      },
    ]);
    expect(JSON.stringify(result.toolCalls)).not.toMatch(WAITING);
  });
});

describe('a sub-run whose result cannot be told', () => {
  it('is a failed call, and its record is there', async () => {
    const { play, module } = await stage({ inner: [calls(write('w')), text('So.')] });
    const { subRun = {} } = module.get(ToolCatalog).resolve('research');
    Object.defineProperty(subRun, 'summaryBytes', {
      get: () => {
        throw new Error('secret');
      },
    });
    const { result } = await play();
    expect(result).toMatchObject({ finishReason: 'stop', text: 'Told.' });
    expect(result.toolCalls).toMatchObject([
      {
        status: 'failed',
        error: { code: 'execution_failed' },
        subRun: { finishReason: 'stop', steps: 2, toolCalls: [{ id: 'probe__write' }] },
      },
    ]);
    expect(result.toolCalls[0]?.error?.safeMessage).toContain('It had changed things by then');
    expect(JSON.stringify(result)).not.toContain('secret');
  });
});

describe('a sub-run without tools', () => {
  it('answers from its prompt alone, reads only, and can call nothing', async () => {
    const { play, inner, module, done } = await stage({
      inner: [calls(read('r')), text('So.')],
      subRun: { tools: [] },
    });
    const { result } = await play();
    expect(inner.requests.map(({ toolIds }) => toolIds)).toEqual([[], []]);
    expect(done).toEqual([]);
    expect(toldOf(result)).toMatchObject({ summary: 'So.' });
    expect(module.get(ToolCatalog).resolve('research').spec.effect).toBe('read_only');
  });
});

const hanging: Act = () => new Promise(() => undefined);

describe('a sub-run of which it is unknown whether a call took place', () => {
  const unknown = 'It is unknown whether probe__write took place: check before you call it again.';

  it('says so in what the model of the run around reads, though its own model does not', async () => {
    const { play } = await stage({ inner: [calls(write('w')), text('Done.')] });
    const { result } = await play({ context: { act: hanging }, limits: { toolCallMs: 20 } });
    expect(toldOf(result)).toMatchObject({ summary: `Done. ${unknown}` });
  });

  it('says so if it was ended by a limit', async () => {
    const { play } = await stage({
      inner: [calls(write('w')), text('Never.')],
      subRun: { limits: { steps: 1 } },
    });
    const { result } = await play({ context: { act: hanging }, limits: { toolCallMs: 20 } });
    expect(JSON.stringify(toldOf(result))).toContain(unknown);
  });

  it('says so in the end of the run around that is stopped with it', async () => {
    const { loop, request } = await stage({ inner: [calls(write('w'))] });
    const stop = new AbortController();
    const act: Act = (...given) => {
      stop.abort();
      return hanging(...given);
    };
    const result = await resultOf(loop.open(request({ context: { act }, signal: stop.signal })));
    expect(result).toMatchObject({
      finishReason: 'aborted',
      finishDetail: `The run was stopped. ${unknown}`,
      unknownOutcomes: ['probe__write'],
    });
  });
});
