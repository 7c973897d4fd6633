import { describe, expect, it, jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import {
  PendingService,
  ConfigurationError,
  type LoopResult,
  subRunTool,
  tool,
  ToolLoopService,
  toolLoopToken,
} from '@toolloop/core';
import type { LoopHooks, ToolEnd, ToolStart } from '@toolloop/core/contracts';
import { PendingStore, MemoryPendingStore, MemoryRunLog, RunLog } from '@toolloop/core/stores';
import { ScriptedModel, call, calls, collect, text, type ScriptedTurn } from '@toolloop/testing';
import { Expose } from 'class-transformer';
import { IsString } from 'class-validator';
import { alice as refunder, desk, once } from '../directives/bench.js';
import { alice, asking, read, write } from '../../fixtures/approval.shop.js';
import { play, resultOf } from '../../fixtures/played-run.js';
import { ask, openModule, openShop, type ShopOptions } from '../../fixtures/shop.module.js';

type Told = readonly [hook: string, tool: string, toolCallId: string, status?: string];

class Letter {
  @IsString() to!: string;
  @IsString() @Expose({ groups: ['model'] }) code!: string;
}

const sending = tool({
  id: 'raw_send',
  description: 'Sends.',
  effect: 'state_change',
  reveal: [],
  input: Letter,
  execute: () => undefined,
});

const bob = { actor: { id: 'bob' }, tenant: 'globex' };

/** Hooks that note what they are told. */
function noted(): {
  readonly hooks: LoopHooks;
  readonly told: Told[];
  readonly starts: ToolStart[];
  readonly ends: ToolEnd[];
} {
  const [told, starts, ends]: [Told[], ToolStart[], ToolEnd[]] = [[], [], []];
  const hooks: LoopHooks = {
    onToolStart: (event) => {
      starts.push(event);
      told.push(['start', event.tool.declaredId, event.call.toolCallId]);
    },
    onToolEnd: (event) => {
      ends.push(event);
      told.push(['end', event.tool.declaredId, event.call.toolCallId, event.record.status]);
    },
  };
  return { hooks, told, starts, ends };
}

/** A process with a shop; two of them over the same stores are one application. */
async function shop(script: readonly ScriptedTurn[], options: ShopOptions = {}) {
  const module = await openModule(new ScriptedModel(script), { policy: asking(), ...options });
  const [loop, approvals]: [ToolLoopService, PendingService] = [
    module.get(ToolLoopService),
    module.get(PendingService),
  ];
  return {
    loop,
    decide: async (decision: 'approve' | 'deny') => {
      const [open] = await approvals.list(alice);
      await approvals.decide({ approvalId: open?.approvalId ?? '', decision }, alice);
    },
    resume: async (runId: string, hooks: LoopHooks): Promise<LoopResult> =>
      resultOf(await loop.resume(runId, { ...alice, hooks })),
  };
}

const later = () => new Promise<void>((resolve) => setTimeout(resolve, 20));

const fails = () => {
  throw new Error('hook');
};

describe('the hooks of a call', () => {
  it('are told once that it begins, and once what became of it', async () => {
    const { hooks, told, starts, ends } = noted();
    const { result } = await play(
      await openShop(new ScriptedModel([calls(read()), text('Done.')])),
      ask({ hooks }),
    );
    expect(told).toEqual([
      ['start', 'probe__read', 'call_1'],
      ['end', 'probe__read', 'call_1', 'succeeded'],
    ]);
    const { runId } = result;
    const event = {
      runId,
      step: 1,
      ...alice,
      effect: 'read_only',
      call: { name: 'probe__read', arguments: '{"key":"a"}' },
    };
    expect(starts).toMatchObject([event]);
    expect(ends).toMatchObject([{ ...event, record: { status: 'succeeded', result: 'a' } }]);
  });

  it('are not told of one that never begins: no such tool, arguments that are wrong, a denial', async () => {
    const { hooks, told } = noted();
    const script = [
      calls(call('probe__raed', {}), call('probe__read', {}), call('probe__write', { key: 'w' })),
      text('Done.'),
    ];
    const policy = { version: '1', allow: ['*'], flow: 'off' } as const;
    await play(
      await openShop(new ScriptedModel(script), { policy: { ...policy, deny: ['probe__write'] } }),
      ask({ hooks }),
    );
    expect(told).toEqual([]);
  });

  it('are those of the application, the loop and the request, in this order', async () => {
    const order: string[] = [];
    const named = (name: string): LoopHooks => ({ onToolStart: () => void order.push(name) });
    const model = new ScriptedModel([calls(read()), text('Done.')]);
    const module = await openModule(
      model,
      { hooks: named('application') },
      { support: { hooks: named('loop') } },
    );
    const support: ToolLoopService = module.get(toolLoopToken('support'));
    await support.run(ask({ hooks: named('request') }));
    expect(order).toEqual(['application', 'loop', 'request']);
  });

  it('are told alike for a call without a model', async () => {
    const { hooks, told } = noted();
    const loop = await openShop(new ScriptedModel([]), { hooks });
    await loop.call({ tool: 'probe__read', args: { key: 'a' }, ...alice });
    expect(told).toEqual([
      ['start', 'probe__read', 'call_1_0'],
      ['end', 'probe__read', 'call_1_0', 'succeeded'],
    ]);
  });

  it('are told alike for the calls of a sub-run, with its path', async () => {
    const { hooks, told, starts } = noted();
    const inner = new ScriptedModel([calls(read('inner')), text('Found.')]);
    const research = subRunTool({
      id: 'research',
      description: 'Finds out.',
      tools: ['probe__*'],
      model: inner,
    });
    const loop = await openShop(
      new ScriptedModel([calls(call('research', { prompt: 'Find.' })), text('Done.')]),
      {
        tools: [research],
        hooks,
      },
    );
    const { result } = await play(loop, ask());
    expect(told.map(([hook, id]) => `${hook} ${id}`)).toEqual([
      'start research',
      'start probe__read',
      'end probe__read',
      'end research',
    ]);
    expect(starts[1]).toMatchObject({
      path: [result.runId, result.toolCalls[0]?.subRun?.runId],
      ...alice,
    });
  });

  it('are told alike for the effect of a directive, once it happens, and not for its request', async () => {
    const { hooks, told, starts } = noted();
    const { run, until } = await desk(once, { hooks });
    const { runId } = await run();
    await until('succeeded');
    expect(told.map(([hook, id]) => `${hook} ${id}`)).toEqual([
      'start bank__refund',
      'end bank__refund',
    ]);
    expect(starts).toMatchObject([{ runId, tenant: 'acme', effect: 'external_side_effect' }]);
    expect(starts[0]?.actor).toBe(refunder.actor);
  });

  it('keep apart the runs that two tenants have at once', async () => {
    const { hooks, starts, ends } = noted();
    const loop = await openShop(new ScriptedModel([]), { hooks });
    const made = Array.from({ length: 40 }, (_, index) =>
      loop.call({ tool: 'probe__read', args: { key: `k${index}` }, ...(index % 2 ? bob : alice) }),
    );
    const ofRuns = new Map(
      (await Promise.all(made)).map(({ runId }, index) => [runId, index % 2 ? bob : alice]),
    );
    for (const { runId, actor, tenant } of [...starts, ...ends])
      expect({ actor, tenant }).toEqual(ofRuns.get(runId));
    expect([starts.length, ends.length]).toEqual([40, 40]);
  });

  it('are a finding at start where they are no functions', async () => {
    await expect(
      openShop(new ScriptedModel([]), { hooks: { onToolStart: 'log' } as never }),
    ).rejects.toThrow(ConfigurationError);
    await expect(
      openShop(new ScriptedModel([]), { hooks: { onToolstart: fails } as never }),
    ).rejects.toThrow('onToolStart');
  });
});

/** What two processes share. */
const stores = () => ({
  providers: [
    { provide: RunLog, useValue: new MemoryRunLog() },
    { provide: PendingStore, useValue: new MemoryPendingStore() },
  ],
});

describe('the hooks of a call that is held', () => {
  it('are told once it is performed, in the process that performs it, however often it was looked at', async () => {
    const { hooks, told } = noted();
    const shared = stores();
    const here = await shop([calls(write('w'), read('r'))], shared);
    const { runId } = await here.loop.run(ask({ hooks }));
    await here.resume(runId, hooks);
    expect(told).toEqual([]);
    const there = await shop([text('Done.')], shared);
    await there.decide('approve');
    expect((await there.resume(runId, hooks)).finishReason).toBe('stop');
    expect(told).toEqual([
      ['start', 'probe__write', 'call_1'],
      ['end', 'probe__write', 'call_1', 'succeeded'],
      ['start', 'probe__read', 'call_2'],
      ['end', 'probe__read', 'call_2', 'succeeded'],
    ]);
  });

  it('are told nothing where it was denied', async () => {
    const { hooks, told } = noted();
    const { loop, decide, resume } = await shop([calls(write('w')), text('Done.')]);
    const { runId } = await loop.run(ask({ hooks }));
    await decide('deny');
    await resume(runId, hooks);
    expect(told).toEqual([]);
  });

  it('are told once of a sub-run that waited: when it began, and when it ended', async () => {
    const { hooks, told } = noted();
    const inner = new ScriptedModel([calls(write('w')), text('Written.')]);
    const research = subRunTool({
      id: 'research',
      description: 'Finds out.',
      tools: ['probe__*'],
      model: inner,
    });
    const { loop, decide, resume } = await shop(
      [calls(call('research', { prompt: 'Find.' })), text('Done.')],
      {
        tools: [research],
        policy: asking({ tools: ['probe__write'] }),
      },
    );
    const { runId } = await loop.run(ask({ hooks }));
    await resume(runId, hooks);
    expect(told.map(([hook, id]) => `${hook} ${id}`)).toEqual(['start research']);
    await decide('approve');
    await resume(runId, hooks);
    expect(told.map(([hook, id]) => `${hook} ${id}`)).toEqual([
      'start research',
      'start probe__write',
      'end probe__write',
      'end research',
    ]);
  });
});

describe('invariant 10: the arguments that a hook is told', () => {
  it('are those that the method receives, without the hidden ones', async () => {
    const { hooks, starts, ends } = noted();
    const model = new ScriptedModel([
      calls(call('raw_send', { to: 'ann', code: 's3cret' })),
      text('Done.'),
    ]);
    await play(await openShop(model, { tools: [sending] }), ask({ hooks }));
    expect(starts.map((event) => event.call.arguments)).toEqual([
      '{"to":"ann","code":"[redacted]"}',
    ]);
    expect(JSON.stringify([...starts, ...ends])).not.toContain('s3cret');
  });

  it.each([
    ['cut off', '{"to":"ann","code":"s3cret"'],
    ['no object', '["s3cret"]'],
    ['too long', `{"code":"s3cret","to":"${'x'.repeat(9_000)}"}`],
  ])('are none where they are %s: such a call never begins', async (_, args) => {
    const { hooks, told } = noted();
    const model = new ScriptedModel([
      calls({ ...call('raw_send', {}), arguments: args }),
      text('Done.'),
    ]);
    await play(await openShop(model, { tools: [sending] }), ask({ hooks }));
    expect(told).toEqual([]);
  });
});

describe('invariant 5: a hook of calls', () => {
  it.each<[string, () => void | Promise<void>, number]>([
    ['throws', fails, 1],
    ['rejects', () => Promise.reject(new Error('hook')), 1],
    ['rejects late', () => later().then(fails), 1],
    ['throws what is no error', () => Promise.reject(undefined), 1],
    ['hangs', () => new Promise(() => undefined), 0],
    ['is slow', later, 0],
    ['returns no promise', () => 'ok' as unknown as undefined, 0],
  ])('changes nothing about a call when it %s, and is logged once a run', async (_, hook, logs) => {
    const warned = jest.spyOn(Logger.prototype, 'warn').mockReturnValue();
    try {
      const script = [calls(read('a'), read('b'), write('c')), text('Done.')];
      const eventsWith = async (hooks?: LoopHooks) => {
        const loop = await openShop(new ScriptedModel(script), { ...(hooks && { hooks }) });
        const { events, result } = await play(loop, ask({ limits: { runMs: 2_000 } }));
        return [
          events.map(({ type }) => type),
          result.finishReason,
          result.toolCalls.map(({ status }) => status),
        ];
      };
      expect(await eventsWith({ onToolStart: hook })).toEqual(await eventsWith());
      await later();
      await later();
      const told = warned.mock.calls.filter(([message]) => String(message).includes('onToolStart'));
      expect(told).toHaveLength(logs);
    } finally {
      warned.mockRestore();
    }
  });

  it('is not waited for', async () => {
    const hooks = {
      onToolStart: () => new Promise<void>(() => undefined),
      onToolEnd: () => new Promise<void>(() => undefined),
    };
    const loop = await openShop(new ScriptedModel([]), { hooks });
    const { record } = await loop.call({
      tool: 'probe__write',
      args: { key: 'w' },
      ...alice,
      limits: { runMs: 1_500 },
    });
    expect(record.status).toBe('succeeded');
  });

  it('is called no more once 1,000 of its calls in a run have not answered, and that is logged once', async () => {
    const warned = jest.spyOn(Logger.prototype, 'warn').mockReturnValue();
    const onToolStart = jest.fn(() => new Promise<void>(() => undefined));
    const script = [
      calls(...Array.from({ length: 1_100 }, (_, index) => read(`k${index}`))),
      text('Done.'),
    ];
    const loop = await openShop(new ScriptedModel(script));
    const { result } = await play(
      loop,
      ask({ hooks: { onToolStart }, limits: { callsPerTool: Infinity } }),
    );
    expect(result.toolCalls.every(({ status }) => status === 'succeeded')).toBe(true);
    expect(onToolStart).toHaveBeenCalledTimes(1_000);
    expect(
      warned.mock.calls.filter(([message]) => String(message).includes('onToolStart')),
    ).toHaveLength(1);
    warned.mockRestore();
  });

  it('keeps no other from being told when it fails', async () => {
    const { hooks, told } = noted();
    const loop = await openShop(new ScriptedModel([calls(read()), text('Done.')]), {
      hooks: { onToolStart: fails, onToolEnd: fails },
    });
    await collect(loop.open(ask({ hooks })).events$);
    expect(told).toHaveLength(2);
  });
});
