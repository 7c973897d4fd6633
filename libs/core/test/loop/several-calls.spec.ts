import { describe, expect, it } from '@jest/globals';
import type { Policy } from '@toolloop/core';
import { call, calls, text } from '@toolloop/testing';
import { alice, asking, opens, read, shop, write } from '../fixtures/approval.shop.js';
import { resultsIn } from '../fixtures/played-run.js';

describe('several calls of one answer', () => {
  it('end where they read before a write that waits, wait behind it, and each write asks on its own', async () => {
    const { run, done, waiting } = await shop([
      calls(read('q'), write('w1'), read('r'), write('w2')),
    ]);
    const { result } = await run();
    expect(done).toEqual(['q']);
    expect(await waiting()).toHaveLength(2);
    expect(result.toolCalls.map(({ status }) => status)).toEqual([
      'succeeded',
      'waiting',
      'waiting',
      'waiting',
    ]);
  });

  it('wait behind a read that waits where they change something, and finish where they read beside it', async () => {
    const policy: Policy = {
      ...asking(),
      requireApproval: [{ arguments: { properties: { key: { const: 'private' } } } }],
    };
    const { run, decide, resume, done } = await shop(
      [calls(read('private'), read('r'), write('w'), read('s')), text('Done.')],
      policy,
    );
    const { result: first } = await run();
    expect(done).toEqual(['r']);
    expect(first.toolCalls.map(({ status }) => status)).toEqual([
      'waiting',
      'succeeded',
      'waiting',
      'waiting',
    ]);
    await decide('approve');
    const result = await resume(first.runId);
    expect(done).toEqual(['r', 'private', 'w', 's']);
    expect(resultsIn(result.messages)).toEqual(['private done', 'r done', 'w done', 's done']);
  });

  it('are not refused for what a call that waits may still change', async () => {
    const { run, decide, resume, done } = await shop([
      calls(write('w'), call('vault__open', { key: 'later' })),
      text('Done.'),
    ]);
    const { result: first } = await run();
    expect(first.toolCalls.map(({ status }) => status)).toEqual(['waiting', 'waiting']);
    opens.add('later');
    await decide('approve');
    expect(await resume(first.runId)).toMatchObject({ finishReason: 'waiting' });
    await decide('approve');
    expect(await resume(first.runId)).toMatchObject({
      finishReason: 'stop',
      toolCalls: [{ status: 'succeeded' }, { status: 'succeeded' }],
    });
    expect(done).toEqual(['w']);
  });

  it('are counted once, though the run waited between them', async () => {
    const { run, decide, resume, done } = await shop([calls(write('w'), read('r')), text('Done.')]);
    const limits = { identicalCalls: 1, callsPerTool: 1 };
    const { result: first } = await run({ limits });
    await decide('approve');
    expect(await resume(first.runId, { limits })).toMatchObject({
      finishReason: 'stop',
      text: 'Done.',
    });
    expect(done).toEqual(['w', 'r']);
  });

  it('are refused as they were for a limit, though the run waited between them', async () => {
    const { run, decide, resume, done } = await shop([
      calls(write('w'), write('w')),
      text('Done.'),
    ]);
    const limits = { identicalCalls: 1 };
    const { result: first } = await run({ limits });
    expect(first.toolCalls.map(({ status }) => status)).toEqual(['waiting', 'failed']);
    await decide('approve');
    expect(await resume(first.runId, { limits })).toMatchObject({ finishReason: 'no_progress' });
    expect(done).toEqual(['w']);
  });

  it('are made in the order of the model, each once, whatever is decided first', async () => {
    const { run, decide, resume, done } = await shop([
      calls(write('w1'), read('r'), write('w2')),
      text('Done.'),
    ]);
    const { result: first } = await run();
    await decide('approve', alice, 1);
    expect(await resume(first.runId)).toMatchObject({ finishReason: 'waiting' });
    expect(done).toEqual([]);
    await decide('approve');
    const result = await resume(first.runId);
    expect(done).toEqual(['w1', 'r', 'w2']);
    expect(resultsIn(result.messages)).toEqual(['w1 done', 'r done', 'w2 done']);
  });

  it('do not overtake one that waits, though they need no yes', async () => {
    const { run, decide, resume, done } = await shop(
      [calls(write('large'), write('small')), text('Done.')],
      asking({ arguments: { properties: { key: { const: 'large' } } } }),
    );
    const { result: first } = await run();
    expect(done).toEqual([]);
    await decide('approve');
    await resume(first.runId);
    expect(done).toEqual(['large', 'small']);
  });
});
