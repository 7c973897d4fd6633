import { describe, expect, it } from '@jest/globals';
import { type FlowLevel, type LoopResult, tool } from '@toolloop/core';
import { phases, toolSearch, unlock } from '@toolloop/core/strategies';
import { call, calls, text } from '@toolloop/testing';
import { read, research, send, stage, toldOf, write } from './stage.js';

/** The application itself vouches for what it returns. */
const catalogue = tool({
  id: 'shop__price',
  description: 'A price.',
  effect: 'read_only',
  reveal: 'all',
  labels: { returns: 'trusted', reads: 'public' },
  execute: () => 'KX-77',
});

const breaks = (): never => {
  throw new Error('broken');
};

const subRun = { tools: ['probe__*', 'shop__price'] };
const under = (flow: FlowLevel) => ({
  options: { policy: { allow: ['*'], flow }, tools: [catalogue] },
  subRun,
});
const statuses = ({ toolCalls }: LoopResult) => toolCalls.map(({ status }) => status);
const innerStatuses = ({ toolCalls }: LoopResult) =>
  statuses({ toolCalls: toolCalls.flatMap((one) => one.subRun?.toolCalls ?? []) } as never);
const labelsOf = ({ messages }: LoopResult) =>
  messages.find((message) => message.role === 'tool' && message.toolName === 'research');

describe('invariant 15: information', () => {
  it('invariant 15: taints the sub-run when the run had read it', async () => {
    const { play, done } = await stage({
      ...under('trifecta'),
      outer: [calls(read('r')), research(), text('Done.')],
      inner: [calls(send('s')), text('So.')],
    });
    const { result } = await play({ approvals: 'deny' });
    expect(innerStatuses(result)).toEqual(['denied']);
    expect(done).toEqual(['r']);
  });

  it('invariant 15: taints the run when a sub-run has read it', async () => {
    const { play, done } = await stage({
      ...under('trifecta'),
      outer: [research(), calls(send('s')), text('Done.')],
      inner: [calls(read('r')), text('So.')],
    });
    const { result } = await play({ approvals: 'deny' });
    expect(labelsOf(result)).toMatchObject({
      isModelText: true,
      labels: { returns: 'untrusted', reads: 'private' },
    });
    expect(statuses(result)).toEqual(['succeeded', 'denied']);
    expect(done).toEqual(['r']);
  });

  it('invariant 15: taints the run when a sub-run has read it, though the sub-run fails', async () => {
    const { play } = await stage({
      ...under('trifecta'),
      outer: [research(), calls(send('s')), text('Done.')],
      inner: [calls(read('r')), () => Promise.reject(new Error('no'))],
    });
    expect(statuses((await play({ approvals: 'deny' })).result)).toEqual(['failed', 'denied']);
  });

  it('invariant 15: leaves the run as it was when it is trusted', async () => {
    const { play, done } = await stage({
      ...under('trifecta'),
      outer: [research(), calls(send('s')), text('Done.')],
      inner: [calls(call('shop__price')), text('So.')],
    });
    const { result } = await play({ approvals: 'deny', labels: { reads: 'public' } });
    expect(labelsOf(result)).toMatchObject({ labels: { returns: 'trusted', reads: 'public' } });
    expect(done).toEqual(['s']);
  });

  it("invariant 15: proves nothing in a summary: it is a model's words", async () => {
    const script = {
      outer: [research('Look.'), calls(read('r')), calls(write('KX-77')), text('Done.')],
      inner: [calls(call('shop__price')), text('KX-77')],
    };
    const { play, done } = await stage({ ...under('taint'), ...script });
    const { result } = await play({ approvals: 'deny' });
    expect(toldOf(result)).toMatchObject({ summary: 'KX-77' });
    expect(statuses(result)).toEqual(['succeeded', 'succeeded', 'denied']);
    expect(done).toEqual(['r']);
  });
});

describe('a sub-run of a run whose tools come and go', () => {
  it('has what a large catalog hides from the run, where its list names it', async () => {
    const { play, inner } = await stage({
      inner: [text('So.')],
      subRun: { tools: ['probe__read', 'crm__*'] },
    });
    await play({ injection: [toolSearch({ always: ['research'] })] });
    expect(inner.requests[0]?.toolIds.toSorted()).toEqual([
      'crm__openCart',
      'crm__searchCustomers',
      'crm__sendMail',
      'probe__read',
    ]);
  });

  it('has no tool that is not unlocked yet, and unlocks it for itself', async () => {
    const { play, inner, outer } = await stage({ inner: [calls(read('r')), text('So.')] });
    await play({ injection: [unlock({ after: 'probe__read', tools: ['probe__write'] })] });
    expect(inner.requests.map(({ toolIds }) => toolIds.includes('probe__write'))).toEqual([
      false,
      true,
    ]);
    expect(outer.requests.map(({ toolIds }) => toolIds.includes('probe__write'))).toEqual([
      false,
      false,
    ]);
  });

  it('begins in the phase of the run, and leaves it there', async () => {
    const desk = phases({
      start: 'look',
      states: {
        look: { tools: ['probe__customer'], to: [{ on: 'probe__read', phase: 'act' }] },
        act: { tools: ['probe__write'], to: [{ on: 'probe__write', phase: 'look' }] },
      },
    });
    const { play, inner, outer } = await stage({
      outer: [calls(read('r')), research(), text('Done.')],
      inner: [calls(write('w')), text('So.')],
    });
    await play({ injection: [desk] });
    const phasesOf = (requests: typeof inner.requests) =>
      requests.map(({ toolIds }) => toolIds.filter((id) => /customer$|write$/.test(id)));
    expect(phasesOf(inner.requests)).toEqual([['probe__write'], ['probe__customer']]);
    expect(phasesOf(outer.requests)).toEqual([
      ['probe__customer'],
      ['probe__write'],
      ['probe__write'],
    ]);
  });

  it('has what prepareStep hides from the model of the run', async () => {
    const { play, inner, outer } = await stage({ inner: [calls(read('r')), text('So.')] });
    const { result } = await play({ prepareStep: () => ({ tools: ['research'] }) });
    expect(outer.requests[0]?.toolIds).toEqual(['research']);
    expect(inner.requests[0]?.toolIds).toContain('probe__read');
    expect(result.toolCalls[0]?.subRun?.toolCalls).toMatchObject([{ status: 'succeeded' }]);
  });
});

describe('a refused or halted sub-run', () => {
  it('is a denied call when it gives up for lack of permission', async () => {
    const { play } = await stage({
      inner: [calls(write('1')), calls(write('2')), calls(write('3'))],
      options: { policy: { allow: ['*'], requireApproval: [{ tools: ['probe__write'] }] } },
    });
    const { result } = await play({ approvals: 'deny' });
    expect(result.toolCalls).toMatchObject([
      { status: 'denied', error: { code: 'forbidden' }, subRun: { finishReason: 'forbidden' } },
    ]);
  });

  it('halts the run around it where failures do', async () => {
    const { play } = await stage({ inner: [calls(read('r'))] });
    const { result } = await play({ onToolError: 'halt', context: { act: breaks } });
    expect(result).toMatchObject({
      finishReason: 'tool_error',
      toolCalls: [{ status: 'failed', subRun: { finishReason: 'tool_error' } }],
    });
  });
});
