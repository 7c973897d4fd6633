import { describe, expect, it } from '@jest/globals';
import type { Provider } from '@nestjs/common';
import {
  type LoopRequest,
  PendingService,
  type Policy,
  tool,
  ToolLoopService,
} from '@toolloop/core';
import {
  type CallOutcome,
  type CallRuling,
  type CheckedCall,
  type OpenedCall,
  type Plugin,
  type ResultChange,
} from '@toolloop/core/plugin';
import { eventsOf, ScriptedModel, type ScriptedTurn, call, calls, text } from '@toolloop/testing';
import { alice, read, write } from '../fixtures/approval.shop.js';
import { fail, hang, having } from '../fixtures/plugins.js';
import { play, resultOf, resultsIn } from '../fixtures/played-run.js';
import { ask, openModule } from '../fixtures/shop.module.js';

const look = tool({
  id: 'desk__look',
  description: 'Looks.',
  effect: 'read_only',
  reveal: 'all',
  labels: { returns: 'trusted' },
  input: { type: 'object', properties: {} },
  execute: () => 'Nothing is there.',
});

/** A shop with plugins, and what its tools did. */
async function shop(
  script: readonly ScriptedTurn[],
  plugins: readonly Provider[],
  policy: Policy = { version: 'v1', allow: ['*'], flow: 'off' },
) {
  const model = new ScriptedModel(script);
  const module = await openModule(model, {
    policy,
    tools: [look],
    audit: { key: 'k'.repeat(32) },
    providers: plugins,
    limits: { pluginMs: 50, resultBytes: 200 },
  });
  const loop: ToolLoopService = module.get(ToolLoopService);
  const pending: PendingService = module.get(PendingService);
  const done: string[] = [];
  const act = (key: string): string => {
    done.push(key);
    return `card 4111 of ${key}`;
  };
  const request = (more: Partial<LoopRequest> = {}): LoopRequest =>
    ask({ context: { act }, ...more });
  return { model, loop, pending, done, request };
}

/** The same request, for a run that continues. */
const again = ({ prompt: _asked, ...request }: LoopRequest) => request;

const ruling = (one: unknown) => (): CallRuling => one as CallRuling;

const FRIDAY: CallRuling = { kind: 'require_approval', reason: 'It is Friday.' };

const closed = ruling({ kind: 'deny', reason: 'The shop is closed.' });

const onWrites =
  (given: CallRuling) =>
  ({ tool: { spec } }: CheckedCall): CallRuling | undefined =>
    spec.effect === 'read_only' ? undefined : given;

describe('a plugin that judges calls', () => {
  it('denies a call, which reads like one of no tool', async () => {
    const { loop, done, request } = await shop(
      [calls(write()), text('Sorry.')],
      [having('acme.a', { judge: closed })],
    );
    const { result } = await play(loop, request());
    expect(done).toEqual([]);
    expect(result.toolCalls[0]).toMatchObject({
      status: 'denied',
      error: { code: 'policy_denied' },
      decision: { kind: 'deny', rule: 'plugin acme.a', reason: 'The shop is closed.' },
    });
    expect(resultsIn(result.messages)[0]).toContain('unknown_tool');
    expect(resultsIn(result.messages)[0]).not.toContain('closed');
  });

  it('has a person asked, on whose yes the call is made', async () => {
    const { loop, pending, done, request } = await shop(
      [calls(read(), write()), text('Done.')],
      [having('acme.a', { judge: onWrites(FRIDAY) })],
    );
    const result = await resultOf(loop.open(request()));
    expect(result).toMatchObject({ finishReason: 'waiting', waitingFor: 'approval' });
    expect(done).toEqual(['a']);
    const [asked] = await pending.list(alice);
    expect(asked).toMatchObject({ reason: 'It is Friday.', mayRemember: false });
    await pending.decide({ approvalId: asked?.approvalId ?? '', decision: 'approve' }, alice);
    const resumed = await loop.resume(result.runId, again(request()));
    expect((await resumed.result).finishReason).toBe('stop');
    expect(done).toEqual(['a', 'a']);
  });

  it('names the people who must be asked', async () => {
    const judge = onWrites({ ...FRIDAY, approval: [{ roles: ['manager'] }] });
    const { loop, pending, request } = await shop(
      [calls(write()), text('Done.')],
      [having('acme.a', { judge })],
    );
    await resultOf(loop.open(request()));
    const [asked] = await pending.list(alice);
    const approve = { approvalId: asked?.approvalId ?? '', decision: 'approve' } as const;
    await expect(pending.decide(approve, alice)).rejects.toThrow(/manager|may/);
    const mia = { actor: { id: 'mia', roles: ['manager'] }, tenant: 'acme' };
    await expect(pending.decide(approve, mia)).resolves.toBeDefined();
  });

  it('is overruled by a stricter one, in whatever order they are', async () => {
    const { loop, done, request } = await shop(
      [calls(write()), text('Sorry.')],
      [having('acme.b', { judge: closed }), having('acme.a', { judge: ruling(FRIDAY) })],
    );
    const { result } = await play(loop, request());
    expect(done).toEqual([]);
    expect(result.toolCalls[0]?.decision).toMatchObject({ kind: 'deny', rule: 'plugin acme.b' });
  });

  it('cannot let in what policy denies', async () => {
    const { loop, done, request } = await shop(
      [calls(write()), text('Sorry.')],
      [having('acme.a', { judge: ruling({ kind: 'allow', reason: 'Please.' }) })],
      { version: 'v1', allow: ['probe__read'], flow: 'off' },
    );
    const { result } = await play(loop, request());
    expect(done).toEqual([]);
    expect(result.toolCalls[0]?.error?.code).toBe('policy_denied');
    expect(result.toolCalls[0]?.decision?.rule).toBe('default');
  });

  it.each([
    ['throws', fail],
    ['answers later', () => Promise.resolve(FRIDAY)],
    ['allows', ruling({ kind: 'allow', reason: 'Please.' })],
    ['gives no reason', ruling({ kind: 'deny' })],
    ['gives terms that are none', ruling({ ...FRIDAY, approval: [{ roles: 'manager' }] })],
    ['adds what a ruling has not', ruling({ ...FRIDAY, isStopped: true })],
    ['returns nonsense', ruling(7)],
  ])('denies the call if it %s', async (_how, judge) => {
    const { loop, done, request } = await shop(
      [calls(write()), text('Sorry.')],
      [having('acme.a', { judge: judge as Required<Plugin>['judge'] })],
    );
    const { result } = await play(loop, request());
    expect(done).toEqual([]);
    expect(result.toolCalls[0]?.decision).toMatchObject({
      kind: 'deny',
      rule: 'plugin acme.a',
      reason: 'The plugin failed.',
    });
  });
});

const refusal = { code: 'budget_exceeded', safeMessage: 'Three mails are enough.' } as const;

describe('a plugin that is asked before an effect', () => {
  it('refuses the call, whose result the refusal is', async () => {
    const { loop, done, request } = await shop(
      [calls(write()), text('Sorry.')],
      [having('acme.a', { beforeEffect: () => refusal })],
    );
    const { result } = await play(loop, request());
    expect(done).toEqual([]);
    expect(result.toolCalls[0]).toMatchObject({ status: 'failed', error: refusal });
    expect(result.finishReason).toBe('stop');
  });

  it('is asked once a person has said yes', async () => {
    const seen: string[] = [];
    const beforeEffect = ({ decision }: CheckedCall): void =>
      void seen.push(decision?.kind ?? 'none');
    const { loop, pending, done, request } = await shop(
      [calls(write()), text('Done.')],
      [having('acme.a', { beforeEffect, judge: onWrites(FRIDAY) })],
    );
    const result = await resultOf(loop.open(request()));
    expect(seen).toEqual([]);
    const [asked] = await pending.list(alice);
    await pending.decide({ approvalId: asked?.approvalId ?? '', decision: 'approve' }, alice);
    await (
      await loop.resume(result.runId, again(request()))
    ).result;
    expect([seen, done]).toEqual([['require_approval'], ['a']]);
  });

  it('is not asked in a rehearsal, which has no effect', async () => {
    const { loop, request } = await shop(
      [calls(write()), text('Done.')],
      [having('acme.a', { beforeEffect: () => refusal })],
    );
    const { result } = await play(loop, request({ rehearse: true }));
    expect(result.toolCalls[0]?.error).toBeUndefined();
  });

  it.each([
    ['throws', fail],
    ['rejects', () => Promise.reject(new Error('It is broken.'))],
    ['hangs', hang],
    ['returns nonsense', () => 7],
  ])('keeps the call from being made if it %s', async (_how, beforeEffect) => {
    const { loop, done, request } = await shop(
      [calls(write()), text('Sorry.')],
      [having('acme.a', { beforeEffect: beforeEffect as Required<Plugin>['beforeEffect'] })],
    );
    const { result } = await play(loop, request());
    expect(done).toEqual([]);
    expect(result.toolCalls[0]?.error).toMatchObject({
      code: 'execution_failed',
      safeMessage: 'The call could not be checked, so it was not made.',
    });
  });
});

const mask = <Value>(value: Value): Value =>
  JSON.parse(JSON.stringify(value).replaceAll('4111', '****')) as Value;

/** Masks the numbers of cards wherever a result shows them. */
const masked = (_call: OpenedCall, { content, record: { result } }: CallOutcome): ResultChange => ({
  content: mask(content),
  ...(result !== undefined && { result: mask(result) }),
});

const changing = (change: unknown) => (): ResultChange => change as ResultChange;

describe('a plugin that changes results', () => {
  it('masks them for the model, the application and its events', async () => {
    const { loop, model, request } = await shop(
      [calls(write('ann')), text('Done.')],
      [having('acme.a', { result: masked })],
    );
    const { events, result } = await play(loop, request());
    expect(resultsIn(result.messages)[0]).toContain('card **** of ann');
    expect(result.toolCalls[0]?.result).toBe('card **** of ann');
    expect(JSON.stringify([events, model.requests, result])).not.toContain('4111');
    expect(eventsOf(events, 'tool-result')).toHaveLength(1);
  });

  it('reads them as the plugin before it has left them', async () => {
    const seen: unknown[] = [];
    const result = (_call: OpenedCall, { record }: CallOutcome): void =>
      void seen.push(record.result);
    const { loop, request } = await shop(
      [calls(write('ann')), text('Done.')],
      [having('acme.b', { result }), having('acme.a', { result: masked })],
    );
    await play(loop, request());
    expect(seen).toEqual(['card **** of ann']);
  });

  it('says that a part is from outside, which a policy of flow takes into account', async () => {
    const policy: Policy = { version: 'v1', allow: ['*'], flow: 'taint' };
    const madeWith = async (plugins: readonly Provider[]): Promise<readonly string[]> => {
      const script = [calls(call('desk__look', {})), calls(write('w')), text('Done.')];
      const { loop, done, request } = await shop(script, plugins, policy);
      await resultOf(loop.open(request({ labels: { reads: 'public' } })));
      return done;
    };
    expect(await madeWith([having('acme.a', { result: changing({}) })])).toEqual(['w']);
    const fromOutside = changing({ isFromOutside: true });
    expect(await madeWith([having('acme.a', { result: fromOutside })])).toEqual([]);
  });

  it('changes the words of a failure, and gives it no result', async () => {
    const told = { result: changing({ content: 'It did not work.' }) };
    const { loop, request } = await shop(
      [calls(write()), text('Sorry.')],
      [having('acme.a', { ...told, beforeEffect: () => refusal })],
    );
    const { result } = await play(loop, request());
    expect(resultsIn(result.messages)).toEqual(['It did not work.']);
    const wrong = await shop(
      [calls(write()), text('Sorry.')],
      [having('acme.a', { result: changing({ result: 1 }), beforeEffect: () => refusal })],
    );
    const failed = await play(wrong.loop, wrong.request());
    expect(failed.result.toolCalls[0]?.result).toBeUndefined();
  });

  it('gives a failure other words, for the model and the application', async () => {
    const words = { safeMessage: 'The shop is closed.' };
    const { loop, request } = await shop(
      [calls(write()), text('Sorry.')],
      [
        having('acme.a', {
          result: changing({ error: words }),
          beforeEffect: () => ({ ...refusal, problems: [{ pointer: '/key', message: 'of ann' }] }),
        }),
        having('acme.b', {
          result: (_call, { record }) => ({
            error: { safeMessage: `${record.error?.safeMessage}!` },
          }),
        }),
      ],
    );
    const { result } = await play(loop, request());
    expect(result.toolCalls[0]?.error).toEqual({
      code: refusal.code,
      safeMessage: 'The shop is closed.!',
    });
    expect(resultsIn(result.messages)[0]).toContain('The shop is closed.!');
    expect(JSON.stringify(result.messages)).not.toContain('of ann');
  });

  it('writes no more than a result may have', async () => {
    const { loop, request } = await shop(
      [calls(write()), text('Done.')],
      [having('acme.a', { result: changing({ content: 'x'.repeat(5_000) }) })],
    );
    const { result } = await play(loop, request());
    expect(Buffer.byteLength(resultsIn(result.messages)[0] ?? '')).toBeLessThanOrEqual(300);
  });

  it.each([
    ['throws', fail],
    ['hangs', hang],
    ['returns a content that is none', changing({ content: 7 })],
    ['returns a result that cannot be copied', changing({ result: () => 7 })],
  ])('has nothing of them read if it %s', async (_how, result) => {
    const { loop, model, done, request } = await shop(
      [calls(write('ann')), text('Done.')],
      [having('acme.a', { result })],
    );
    const played = await play(loop, request());
    expect(done).toEqual(['ann']);
    expect(JSON.stringify([played, model.requests])).not.toContain('4111');
    expect(played.result.toolCalls[0]?.error?.safeMessage).toContain('Its effect took place');
  });
});
