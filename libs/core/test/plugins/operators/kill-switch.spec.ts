import { setTimeout as wait } from 'node:timers/promises';
import { describe, expect, it } from '@jest/globals';
import {
  type LoopEvent,
  LoopEventSink,
  type PendingService,
  type Policy,
  policies as presets,
  subRunTool,
  tool as rawTool,
  type ToolCallContext,
} from '@toolloop/core';
import { MemoryPolicyStore } from '@toolloop/core/stores';
import type { JSONSchema7 } from 'json-schema';
import { call, calls, expectTranscriptValid, text } from '@toolloop/testing';
import * as fc from 'fast-check';
import { cases } from '../../../../../test/cases.js';
import {
  mallory,
  OPEN,
  operatedShop,
  ops,
  opsOfGlobex,
  root,
} from '../../fixtures/operated-shop.js';
import { resultsIn } from '../../fixtures/played-run.js';
import { HOUR_MS, inAnHour } from '../../fixtures/time.js';

const read = call('probe__read', { key: 'r' });
const write = call('probe__write', { key: 'w' });
const why = { reason: 'It goes wrong.' };
const KEY: JSONSchema7 = {
  type: 'object',
  properties: { key: { type: 'string' } },
  required: ['key'],
  additionalProperties: false,
};
const alice = { actor: { id: 'alice' }, tenant: 'acme' };
const globex = { actor: { id: 'bob' }, tenant: 'globex' };
const ASKING: Policy = {
  ...OPEN,
  version: 'asking',
  requireApproval: [{ tools: ['probe__write'], expiresAfterMs: HOUR_MS }],
};

async function answer(
  approvals: PendingService,
  decision: 'approve' | 'deny' = 'approve',
): Promise<unknown> {
  const [request] = await approvals.list(alice);
  return approvals.decide({ approvalId: request?.approvalId ?? '', decision }, alice);
}

describe('a kill switch', () => {
  it.each<[string, object, readonly ('succeeded' | 'denied')[]]>([
    ['a tool', { tool: 'probe__write' }, ['succeeded', 'denied']],
    ['a source', { source: 'discovery' }, ['denied', 'denied']],
    ['a tool of a source', { tool: 'probe__read', source: 'discovery' }, ['denied', 'succeeded']],
    ['everything', {}, ['denied', 'denied']],
  ])(
    'stops %s, in the tenant of its operator alone, until it is released',
    async (_, target, statuses) => {
      const script = Array.from({ length: 3 }, () => [calls(read, write), text('Done.')]).flat();
      const { policies, run } = await operatedShop(script);
      const { stopId } = await policies.stop(target, ops, why);
      const { result } = await run();
      expect(result.toolCalls.map(({ status }) => status)).toEqual(statuses);
      expectTranscriptValid(result.messages);
      expect((await run(globex)).result.toolCalls).toMatchObject([
        { status: 'succeeded' },
        { status: 'succeeded' },
      ]);
      await policies.release(stopId, ops, why);
      expect((await run()).result.toolCalls).toMatchObject([
        { status: 'succeeded' },
        { status: 'succeeded' },
      ]);
    },
  );

  it('reads to a model like a tool that does not exist, and a model that calls on is ended', async () => {
    const { policies, run, model } = await operatedShop([
      calls(write),
      calls(write),
      calls(call('probe__send', { key: 's' })),
      calls(write),
    ]);
    await policies.stop({}, ops, why);
    const { result } = await run();
    expect(result).toMatchObject({ finishReason: 'forbidden' });
    expect(
      result.toolCalls.every(({ status, decision }) => status === 'denied' && decision?.isStopped),
    ).toBe(true);
    for (const told of resultsIn(result.messages)) {
      expect(told).toContain('No tool is named');
      expect(told).not.toContain('operator');
    }
    expect(model.requests[0]?.tools).toEqual([]);
  });

  it('lets no call begin in the run that is under way, and gives its tools back at the end of the list', async () => {
    const shop = await operatedShop([
      calls(read),
      calls(write),
      calls(read),
      calls(write),
      text('Done.'),
    ]);
    let stopId = '';
    const acts = [
      async () => void ({ stopId } = await shop.policies.stop({ tool: 'probe__write' }, ops, why)),
      () => shop.policies.release(stopId, ops, why),
    ];
    const act = async (key: string): Promise<string> => {
      if (key === 'r') await acts.shift()?.();
      return key;
    };
    const { result } = await shop.run({ context: { act } });
    expect(result.toolCalls.map(({ error }) => error?.code)).toEqual([
      undefined,
      'tool_gone',
      undefined,
      undefined,
    ]);
    const last = shop.model.requests.at(-1)?.tools.map(({ id }) => id);
    expect(last?.at(-1)).toBe('probe__write');
  });

  it('breaks off a read under way, and lets a change end as it would', async () => {
    const { policies, run } = await operatedShop([
      calls(read),
      text('Done.'),
      calls(write),
      text('Done.'),
    ]);
    let stoppedAt = 0;
    const stopped: string[] = [];
    const act = async (key: string, { signal }: ToolCallContext): Promise<string> => {
      const { stopId } = await policies.stop({}, ops, why);
      stoppedAt = performance.now();
      await wait(key === 'r' ? 60_000 : 30, undefined, { signal }).catch(() => stopped.push(key));
      await policies.release(stopId, ops, why);
      return 'done';
    };
    const { result } = await run({ context: { act } });
    // a read that is left alone takes a minute
    expect(performance.now() - stoppedAt).toBeLessThan(20_000);
    expect(stopped).toEqual(['r']);
    expect(result.toolCalls).toMatchObject([
      {
        status: 'failed',
        error: { code: 'aborted', safeMessage: 'An operator has stopped the tool.' },
      },
    ]);
    expect((await run({ context: { act } })).result.toolCalls).toMatchObject([
      { status: 'succeeded', result: 'done' },
    ]);
    expect(stopped).toEqual(['r']);
  });

  it.each([read, write])(
    'lets no call begin whose start was still being told when it was pulled: $name',
    async (wanted) => {
      const begun: string[] = [];
      const act = (key: string) => begun.push(key);
      class StoppingSink extends LoopEventSink {
        override readonly critical = true;

        override async write({ type }: LoopEvent): Promise<void> {
          if (type === 'tool-start') await shop.policies.stop({}, ops, why);
        }
      }
      const providers = [{ provide: 'stopping sink', useValue: new StoppingSink() }];
      const shop = await operatedShop([calls(wanted), text('Done.')], { providers });
      const { result } = await shop.run({ context: { act } });
      expect(result.toolCalls).toMatchObject([{ status: 'denied', decision: { isStopped: true } }]);
      expect(begun).toEqual([]);
    },
  );

  it('lets no change begin that waited for its turn or for another attempt, and gives its key back', async () => {
    const begun: string[] = [];
    let go!: () => void;
    const goes = new Promise<void>((resolve) => {
      go = resolve;
    });
    const execute = async ({ key }: { readonly key: string }): Promise<string> => {
      begun.push(key);
      await goes;
      if (key === 'again') throw new Error('Try again.');
      return key;
    };
    const bank = {
      description: 'Pays.',
      effect: 'external_side_effect',
      reveal: 'all',
      input: KEY,
      execute,
    } as const;
    const tools = [
      rawTool({ ...bank, id: 'bank__pay', concurrency: 1 }),
      rawTool({ ...bank, id: 'bank__again', idempotent: true }),
    ];
    const { policies, loop } = await operatedShop([], { tools });
    const pay = async (name: string, key: string): Promise<unknown> => {
      const { record } = await loop.call({
        ...alice,
        tool: name,
        args: { key },
        requestId: key,
        onToolError: 'retry',
      });
      return record.error?.code ?? record.status;
    };
    const made = [
      pay('bank__pay', 'first'),
      pay('bank__pay', 'second'),
      pay('bank__again', 'again'),
    ];
    while (begun.length < 2) await wait(1);
    const { stopId } = await policies.stop({}, ops, why);
    go();
    expect(await Promise.all(made)).toEqual(['succeeded', 'policy_denied', 'execution_failed']);
    expect(begun).toEqual(['first', 'again']);
    await policies.release(stopId, ops, why);
    expect(await pay('bank__pay', 'second')).toBe('succeeded');
  });

  it('does not break off the reads of another tenant', async () => {
    const { policies, run } = await operatedShop([calls(read), text('Done.')]);
    const act = async (_: string, { signal }: ToolCallContext): Promise<string> => {
      await policies.stop({}, ops, why);
      return signal.aborted ? 'aborted' : 'read';
    };
    expect((await run({ ...globex, context: { act } })).result.toolCalls).toMatchObject([
      { status: 'succeeded', result: 'read' },
    ]);
  });

  it('is off for what was decided before, once it is released: every decision is as it was', async () => {
    const policiesOf: readonly Policy[] = [
      OPEN,
      ASKING,
      presets.approveWrites,
      { ...OPEN, flow: 'trifecta' },
      { ...OPEN, deny: ['probe__send'] },
    ];
    const targets = [
      {},
      { tool: 'probe__write' },
      { source: 'discovery' },
      { tool: 'probe__read' },
    ];
    for (const [index, policy] of policiesOf.entries()) {
      const { policies, loop } = await operatedShop([], { policy });
      const outcomes = async () => {
        const made = [];
        for (const { name, arguments: args } of [read, write, call('probe__send', { key: 's' })])
          made.push(
            await loop.call({
              ...alice,
              tool: name,
              args: JSON.parse(args) as never,
              approvals: 'deny',
            }),
          );
        return made.map(({ record: { status, decision, error } }) => ({
          status,
          decision,
          code: error?.code,
        }));
      };
      const before = await outcomes();
      const stops = [];
      for (let count = 0; count <= index; count += 1)
        stops.push(
          await policies.stop(
            targets[(index + count) % targets.length] ?? {},
            count % 2 === 0 ? ops : root,
            why,
          ),
        );
      expect(await outcomes()).not.toEqual(before);
      for (const { stopId } of stops.toReversed()) await policies.release(stopId, root, why);
      expect(await outcomes()).toEqual(before);
      expect(await policies.stops(root, { everywhere: true })).toEqual([]);
    }
  });

  it('survives a restart, and is seen by every process', async () => {
    const store = new MemoryPolicyStore();
    const one = await operatedShop([], { store });
    await one.policies.stop({ tool: 'probe__write' }, root, { ...why, everywhere: true });
    await one.module.close();
    const other = await operatedShop([calls(write), text('Done.')], { store });
    expect((await other.run(globex)).result.toolCalls).toMatchObject([{ status: 'denied' }]);
    const [stop] = await other.policies.stops(opsOfGlobex);
    expect(stop).toMatchObject({ tool: 'probe__write', author: 'root', reason: 'It goes wrong.' });
  });

  it('is released by those alone who could have pulled it', async () => {
    const { policies } = await operatedShop();
    const { stopId } = await policies.stop({}, ops, why);
    const everywhere = await policies.stop({}, root, { ...why, everywhere: true });
    await expect(policies.release(stopId, opsOfGlobex, why)).rejects.toMatchObject({
      name: 'PolicyError',
      code: 'not_found',
    });
    await expect(policies.release(stopId, mallory, why)).rejects.toMatchObject({
      name: 'OperatorError',
    });
    await expect(policies.release(everywhere.stopId, ops, why)).rejects.toMatchObject({
      name: 'OperatorError',
    });
    expect(await policies.stops(opsOfGlobex)).toEqual([everywhere]);
    await policies.release(stopId, root, why);
    await expect(policies.release(stopId, root, why)).rejects.toMatchObject({ code: 'not_found' });
  });

  it.each([
    [{ tool: 'probe__wrte' }, 'Did you mean "probe__write"'],
    [{ source: 'discvery' }, 'Did you mean "discovery"'],
    [{ tool: 'nothing__like_it' }, 'No tool has the name "nothing__like_it".'],
  ])('is not pulled for %j, which would stop nothing', async (target, message) => {
    const { policies } = await operatedShop();
    await expect(policies.stop(target, ops, why)).rejects.toThrow(message);
    expect(await policies.stops(ops)).toEqual([]);
  });
});

type Act = 'stop' | 'release' | 'approve' | 'deny' | 'resume';

function outcomeOf(work: Promise<unknown>, word: string): Promise<string> {
  return work.then(
    () => word,
    () => 'refused',
  );
}

/**
 * A run whose write waits for an approval, and what people may do about it. Each act tells what
 * came of it.
 */
async function waitingCall(done: string[]): Promise<(act: Act) => Promise<string>> {
  const context = { act: (key: string) => done.push(key) };
  const { policies, approvals, run, resume } = await operatedShop([calls(write), text('Done.')], {
    policy: ASKING,
  });
  const { runId } = (await run({ context })).result;
  const stops: string[] = [];
  const acts: Record<Act, () => Promise<string>> = {
    stop: () =>
      outcomeOf(
        policies.stop({ tool: 'probe__write' }, ops, why).then(({ stopId }) => stops.push(stopId)),
        'stopped',
      ),
    release: () => outcomeOf(policies.release(stops.pop() ?? 'none', ops, why), 'released'),
    approve: () => outcomeOf(answer(approvals, 'approve'), 'answered'),
    deny: () => outcomeOf(answer(approvals, 'deny'), 'answered'),
    resume: () =>
      resume(runId, { context }).then(
        ({ finishReason }) => finishReason,
        () => 'refused',
      ),
  };
  return (act) => acts[act]();
}

/**
 * The same in a few words: an answer counts where nothing is stopped, and the call is made by a
 * resume where nothing is stopped.
 */
class ModelOfCall {
  private stops = 0;
  private said: Act | undefined;
  private isOver = false;

  after(act: Act): readonly [told: string, done: readonly string[]] {
    return [this.told(act), this.isOver && this.said === 'approve' ? ['w'] : []];
  }

  private told(act: Act): string {
    if (act === 'stop') return this.counted(1, 'stopped');
    if (act === 'release') return this.stops > 0 ? this.counted(-1, 'released') : 'refused';
    if (act === 'resume') return this.resumed();
    if (this.said !== undefined || this.stops > 0) return 'refused';
    this.said = act;
    return 'answered';
  }

  private counted(by: number, word: string): string {
    this.stops += by;
    return word;
  }

  private resumed(): string {
    if (this.isOver) return 'refused';
    this.isOver = this.said !== undefined && this.stops === 0;
    return this.isOver ? 'stop' : 'waiting';
  }
}

describe('an approval of what is stopped', () => {
  it('is held, and continues when it is released: releasing approves nothing', async () => {
    const done: string[] = [];
    const context = { act: (key: string) => done.push(key) };
    const { policies, approvals, run, resume } = await operatedShop([calls(write), text('Done.')], {
      policy: ASKING,
    });
    const { result: first } = await run({ context });
    const { stopId } = await policies.stop({ tool: 'probe__write' }, ops, why);
    await expect(answer(approvals)).rejects.toMatchObject({ name: 'PendingError', code: 'held' });
    await expect(answer(approvals, 'deny')).rejects.toMatchObject({ code: 'held' });
    expect(await resume(first.runId, { context })).toMatchObject({ finishReason: 'waiting' });
    await policies.release(stopId, ops, why);
    expect(await resume(first.runId, { context })).toMatchObject({ finishReason: 'waiting' });
    expect(done).toEqual([]);
    await answer(approvals);
    expect(await resume(first.runId, { context })).toMatchObject({
      finishReason: 'stop',
      toolCalls: [{ status: 'succeeded' }],
    });
    expect(done).toEqual(['w']);
  });

  it('is never given by a release, in whatever order people stop, release, answer and resume', async () => {
    const act = fc.constantFrom<Act>('stop', 'release', 'approve', 'deny', 'resume');
    const property = fc.asyncProperty(
      fc.array(act, { minLength: 3, maxLength: 12 }),
      async (acts) => {
        const done: string[] = [];
        const take = await waitingCall(done);
        const model = new ModelOfCall();
        for (const one of acts) expect([await take(one), [...done]]).toEqual(model.after(one));
      },
    );
    await fc.assert(property, { numRuns: cases(40) });
  });

  it('is used after the release, and not before, where it was given before the stop', async () => {
    const done: string[] = [];
    const context = { act: (key: string) => done.push(key) };
    const { policies, approvals, run, resume } = await operatedShop([calls(write), text('Done.')], {
      policy: ASKING,
    });
    const { result: first } = await run({ context });
    await answer(approvals);
    const { stopId } = await policies.stop({}, ops, why);
    expect(await resume(first.runId, { context })).toMatchObject({ finishReason: 'waiting' });
    expect(done).toEqual([]);
    await policies.release(stopId, ops, why);
    expect(await resume(first.runId, { context })).toMatchObject({ finishReason: 'stop' });
    expect(done).toEqual(['w']);
  });

  it('has expired where it expired meanwhile', async () => {
    const done: string[] = [];
    const context = { act: (key: string) => done.push(key) };
    const { policies, run, resume } = await operatedShop([calls(write), text('Done.')], {
      policy: ASKING,
    });
    const { result: first } = await run({ context });
    const { stopId } = await policies.stop({}, ops, why);
    await inAnHour(async () => {
      expect(await resume(first.runId, { context })).toMatchObject({ finishReason: 'waiting' });
      await policies.release(stopId, ops, why);
      const result = await resume(first.runId, { context });
      expect(result.toolCalls).toMatchObject([
        { status: 'denied', error: { code: 'approval_denied' } },
      ]);
    });
    expect(done).toEqual([]);
  });

  it('is held where a run waits for it in memory, and decided once it is released', async () => {
    const { policies, approvals, run } = await operatedShop([calls(write), text('Done.')], {
      policy: ASKING,
    });
    const running = run({ approvals: 'wait' });
    while ((await approvals.list(alice)).length === 0) await wait(5);
    const { stopId } = await policies.stop({}, ops, why);
    await expect(answer(approvals)).rejects.toMatchObject({ code: 'held' });
    await policies.release(stopId, ops, why);
    await answer(approvals);
    expect((await running).result).toMatchObject({
      finishReason: 'stop',
      toolCalls: [{ status: 'succeeded' }],
    });
  });

  it('is held in a sub-run, too', async () => {
    const helper = subRunTool({ id: 'helper', description: 'Helps.', tools: ['probe__write'] });
    const script = [
      calls(call('helper', { prompt: 'Write.' })),
      calls(write),
      text('Inner done.'),
      text('Done.'),
    ];
    const { policies, approvals, run, resume } = await operatedShop(script, {
      policy: ASKING,
      tools: [helper],
    });
    const { result: first } = await run();
    expect(first.finishReason).toBe('waiting');
    const { stopId } = await policies.stop({}, ops, why);
    expect(await resume(first.runId)).toMatchObject({ finishReason: 'waiting' });
    await policies.release(stopId, ops, why);
    await answer(approvals);
    expect(await resume(first.runId)).toMatchObject({
      finishReason: 'stop',
      toolCalls: [{ status: 'succeeded' }],
    });
  });
});
