import { describe, expect, it } from '@jest/globals';
import {
  PendingService,
  ConfigurationError,
  type LoopRequest,
  policies,
  ToolLoopService,
} from '@toolloop/core';
import { phases, type PhasesOptions } from '@toolloop/core/strategies';
import { ScriptedModel, call, calls, eventsOf, text, type ScriptedTurn } from '@toolloop/testing';
import * as fc from 'fast-check';
import { cases } from '../../../../../test/cases.js';
import { play, type PlayedRun } from '../../fixtures/played-run.js';
import { Cart } from '../../fixtures/shop.js';
import { ask, openModule, openShop } from '../../fixtures/shop.module.js';

const read = (key = 'a') => call('probe__read', { key });
const write = (key = 'a') => call('probe__write', { key });
const send = (key = 'a') => call('probe__send', { key });

/** Browse until something is written, pay until something is sent or the cart is read again. */
const shopping = () =>
  phases({
    start: 'browse',
    states: {
      browse: {
        tools: ['probe__read', 'probe__write', 'probe__customer'],
        to: [{ on: 'probe__write', phase: 'pay' }],
      },
      pay: {
        tools: ['probe__read', 'probe__send'],
        to: [{ on: 'probe__send', when: ({ args }) => args?.['key'] === 'back', phase: 'browse' }],
      },
    },
  });
const OURS = new Set(['probe__read', 'probe__write', 'probe__customer', 'probe__send']);

interface Played extends PlayedRun {
  /** What the model was offered of the phases' tools, step by step. */
  readonly phases: readonly (readonly string[])[];
  readonly offered: readonly (readonly string[])[];
}

async function playWith(
  script: readonly ScriptedTurn[],
  request: Partial<LoopRequest> = {},
): Promise<Played> {
  const model = new ScriptedModel([...script, text('Done.')]);
  const played = await play(await openShop(model), ask({ injection: [shopping()], ...request }));
  model.assertComplete();
  const offered = model.requests.map(({ toolIds }) => toolIds);
  return { ...played, offered, phases: offered.map((ids) => ids.filter((id) => OURS.has(id))) };
}

const BROWSE = ['probe__read', 'probe__write', 'probe__customer'];

describe('phases', () => {
  it('start with the tools of the first one, and with those that no phase names', async () => {
    const { phases: seen, offered } = await playWith([]);
    expect(seen).toEqual([BROWSE]);
    expect(offered[0]).toContain('crm__searchCustomers');
  });

  it('swap the tools, keep what both have in its place and its very object, and say so', async () => {
    const model = new ScriptedModel([calls(write()), text('Done.')]);
    const { events } = await play(await openShop(model), ask({ injection: [shopping()] }));
    const [before, after] = model.requests.map(({ tools }) => tools);
    const stayed =
      before?.filter(({ id }) => id !== 'probe__write' && id !== 'probe__customer') ?? [];
    expect(after?.map(({ id }) => id)).toEqual([...stayed.map(({ id }) => id), 'probe__send']);
    expect(stayed.every((spec, index) => after?.[index] === spec)).toBe(true);
    expect(eventsOf(events, 'tools-removed')).toMatchObject([
      { step: 1, tools: ['probe__write', 'probe__customer'], reason: 'phases' },
    ]);
    expect(eventsOf(events, 'tools-injected')).toMatchObject([
      { step: 1, provider: 'phases', tools: ['probe__send'] },
    ]);
  });

  it('tell a model that calls what is gone how to get it back, and it can', async () => {
    const { result, phases: seen } = await playWith([
      calls(write()),
      calls(write('b')),
      calls(send('back')),
      calls(write('c')),
    ]);
    expect(result.toolCalls.map(({ status }) => status)).toEqual([
      'succeeded',
      'failed',
      'succeeded',
      'succeeded',
    ]);
    expect(result.toolCalls[1]?.error).toMatchObject({
      code: 'tool_gone',
      safeMessage:
        'The tool "probe__write" is no longer available. It belongs to the phase "browse", which is over. probe__send leads back to it.',
    });
    expect(seen.at(-2)?.toSorted()).toEqual(BROWSE.toSorted());
  });

  it('do not name a way back that this tenant may not go', async () => {
    const policy = { allow: ['*'], deny: ['probe__send'] };
    const { result } = await playWith([calls(write()), calls(write('b'))], { policy });
    expect(result.toolCalls[1]?.error?.safeMessage).toMatch(
      /It belongs to the phase "browse", which is over\.$/,
    );
  });

  it('stay where they are when nothing holds', async () => {
    const { phases: seen, events } = await playWith([
      calls(read(), call('probe__customer', { key: 'x' })),
    ]);
    expect(seen[1]).toEqual(seen[0]);
    expect(eventsOf(events, 'tools-removed')).toEqual([]);
  });

  it('go through several in one step, result by result', async () => {
    const { phases: seen } = await playWith([calls(write()), calls(send('back'), send('b'))]);
    expect(seen.at(-1)?.toSorted()).toEqual(BROWSE.toSorted());
  });

  it('go by an artifact', async () => {
    const strategy = phases({
      start: 'empty',
      states: {
        empty: { tools: [], to: [{ found: (live) => live instanceof Cart, phase: 'open' }] },
        open: { tools: ['probe__write'] },
      },
    });
    const { phases: seen } = await playWith([calls(call('crm__openCart', { id: 'c' }))], {
      injection: [strategy],
    });
    expect(seen.map((ids) => ids.includes('probe__write'))).toEqual([false, true]);
  });

  it('hold in each of two runs at the same time, whose tenants share the strategy', async () => {
    const turns = {
      acme: [calls(write()), calls(read()), text('Done.')],
      globex: [calls(read()), calls(read('b')), text('Done.')],
    };
    const models = { acme: new ScriptedModel(turns.acme), globex: new ScriptedModel(turns.globex) };
    const loop = await openShop(models.acme, { injection: [shopping()] });
    await Promise.all(
      (['acme', 'globex'] as const).map((tenant) =>
        play(loop, ask({ tenant, model: models[tenant] })),
      ),
    );
    expect(models.acme.requests[2]?.toolIds).not.toContain('probe__write');
    expect(models.globex.requests[2]?.toolIds).toContain('probe__write');
  });

  it('begin anew in every run', async () => {
    const model = new ScriptedModel([calls(write()), text('Done.'), text('Done.')]);
    const loop = await openShop(model, { injection: [shopping()] });
    for (let run = 0; run < 2; run += 1) await play(loop, ask());
    expect(model.requests.at(-1)?.toolIds).toContain('probe__write');
  });

  it('give nothing that policy denies', async () => {
    const { phases: seen } = await playWith([calls(write())], {
      policy: { allow: ['*'], deny: ['probe__send', 'probe__customer'] },
    });
    expect(seen).toEqual([['probe__read', 'probe__write'], ['probe__read']]);
  });

  it.each(['the same strategy', 'another one, of another process'])(
    'are where they were when a run continues with %s',
    async (which) => {
      const first = shopping();
      const model = new ScriptedModel([calls(write()), calls(send()), text('Done.')]);
      const policy = {
        ...policies.allowAll,
        flow: 'off',
        requireApproval: [{ tools: ['probe__send'] }],
      } as const;
      const module = await openModule(model, { policy });
      const loop: ToolLoopService = module.get(ToolLoopService);
      const { runId } = await loop.run(ask({ injection: [first] }));
      const approvals: PendingService = module.get(PendingService);
      const who = { actor: { id: 'alice' }, tenant: 'acme' };
      const [approval] = await approvals.list(who);
      await approvals.decide({ approvalId: approval?.approvalId ?? '', decision: 'approve' }, who);
      const injection = [which === 'the same strategy' ? first : shopping()];
      const result = await (await loop.resume(runId, { ...who, injection })).result;
      expect(result.toolCalls.at(-1)).toMatchObject({ id: 'probe__send', status: 'succeeded' });
      expect(model.requests[2]?.toolIds.filter((id) => OURS.has(id)).toSorted()).toEqual([
        'probe__read',
        'probe__send',
      ]);
    },
  );

  it('remember in the same process what only an artifact told them', async () => {
    const strategy = phases({
      start: 'empty',
      states: {
        empty: {
          tools: ['probe__read'],
          to: [{ found: (live) => live instanceof Cart, phase: 'open' }],
        },
        open: { tools: ['probe__write'] },
      },
    });
    const model = new ScriptedModel([
      calls(call('crm__openCart', { id: 'c' })),
      calls(send()),
      text('Done.'),
    ]);
    const policy = {
      ...policies.allowAll,
      flow: 'off',
      requireApproval: [{ tools: ['probe__send'] }],
    } as const;
    const module = await openModule(model, { policy, injection: [strategy] });
    const loop: ToolLoopService = module.get(ToolLoopService);
    const { runId } = await loop.run(ask());
    const approvals: PendingService = module.get(PendingService);
    const who = { actor: { id: 'alice' }, tenant: 'acme' };
    const [approval] = await approvals.list(who);
    await approvals.decide({ approvalId: approval?.approvalId ?? '', decision: 'approve' }, who);
    await (
      await loop.resume(runId, who)
    ).result;
    expect(model.requests[2]?.toolIds).toContain('probe__write');
    expect(model.requests[2]?.toolIds).not.toContain('probe__read');
  });

  it('offer the tools of exactly one phase in every step, whatever a model calls', async () => {
    const anyCall = fc.constantFrom(
      read(),
      write(),
      send(),
      send('back'),
      call('probe__customer', { key: 'x' }),
      call('nothing', {}),
    );
    const steps = fc.array(fc.array(anyCall, { minLength: 1, maxLength: 3 }), { maxLength: 6 });
    const limits = { refusalsInARow: 100, identicalCalls: 100 };
    const loop = await openShop(new ScriptedModel([]), { injection: [shopping()], limits });
    await fc.assert(
      fc.asyncProperty(steps, async (all) => {
        const model = new ScriptedModel([...all.map((one) => calls(...one)), text('Done.')]);
        await play(loop, ask({ model }));
        const seen = model.requests.map(({ toolIds }) =>
          toolIds
            .filter((id) => OURS.has(id))
            .toSorted()
            .join(),
        );
        const allowed = new Set([BROWSE.toSorted().join(), 'probe__read,probe__send']);
        expect(seen.filter((ids) => !allowed.has(ids))).toEqual([]);
      }),
      { numRuns: cases(40) },
    );
  });
});

const one = (states: PhasesOptions['states'], start = 'a') => phases({ start, states });

describe('phases that cannot work', () => {
  it.each<[string, () => unknown, RegExp]>([
    [
      'start in none',
      () => one({ browse: { tools: [] } }, 'browze'),
      /There is no phase "browze"\.\n.*Did you mean browse\?/,
    ],
    [
      'lead to none',
      () => one({ a: { tools: [], to: [{ on: 'x', phase: 'b' }] } }),
      /There is no phase "b"/,
    ],
    [
      'lead to a name that objects have',
      () => one({ a: { tools: [], to: [{ on: 'x', phase: 'constructor' }] } }),
      /There is no phase "constructor"/,
    ],
    [
      'are never reached',
      () => one({ a: { tools: [] }, b: { tools: [], to: [{ on: 'x', phase: 'a' }] } }),
      /The phase "b" is never reached/,
    ],
    [
      'wait for nothing',
      () => one({ a: { tools: [], to: [{ phase: 'a' }] } }),
      /from "a" to "a" has no trigger/,
    ],
  ])('%s are refused where they are written', (_, make, problem) => {
    expect(make).toThrow(problem);
    expect(make).toThrow(ConfigurationError);
  });

  it('say everything at once', () => {
    const states = { a: { tools: [], to: [{ phase: 'c' }] }, b: { tools: [] } };
    expect(() => one(states)).toThrow(/found 3 problems/);
  });

  it('name tools that do not exist keep the application from starting, in a named loop too', async () => {
    const strategy = one({
      a: { tools: ['probe__raed'], to: [{ on: 'probe__wriet', phase: 'a' }] },
    });
    await expect(openShop(new ScriptedModel([]), { injection: [strategy] })).rejects.toThrow(
      /"probe__raed"[^]*"probe__wriet"/,
    );
  });
});
