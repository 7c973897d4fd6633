import { describe, expect, it } from '@jest/globals';
import type { Provider } from '@nestjs/common';
import type { TestingModule } from '@nestjs/testing';
import {
  PendingService,
  type LoopResult,
  type Policy,
  type ResumeRequest,
  subRunTool,
  ToolLoopService,
} from '@toolloop/core';
import { RunOpener } from '@toolloop/core/internal';
import {
  assumeRoles,
  phases,
  type ToolInjectionStrategy,
  toolSearch,
  unlock,
  type UnlockOptions,
} from '@toolloop/core/strategies';
import {
  ScriptedModel,
  call,
  calls,
  text,
  type ScriptedCall,
  type ScriptedTurn,
} from '@toolloop/testing';
import { sharedStores } from '../../fixtures/accounts.js';
import { Cart, Customer } from '../../fixtures/shop.js';
import { ask, openModule, type ShopOptions } from '../../fixtures/shop.module.js';
import { KeptJournal } from '../sub-runs/kept-journal.js';

const alice = { actor: { id: 'alice' }, tenant: 'acme' };
const policy: Policy = {
  version: 'v1',
  allow: ['*'],
  flow: 'off',
  requireApproval: [{ tools: ['probe__send'] }],
};
const openCart = calls(call('crm__openCart', { id: 'c' }));
const send = calls(call('probe__send', { key: 's' }));
const write = calls(call('probe__write', { key: 'w' }));
const read = calls(call('probe__read', { key: 'r' }));
const isCart = (live: unknown): boolean => live instanceof Cart;

const unlocking = (options: Partial<UnlockOptions> = {}) =>
  unlock({ found: isCart, tools: ['probe__write'], ...options });

const loopOf = (module: TestingModule): ToolLoopService => module.get(ToolLoopService);

async function approve(module: TestingModule): Promise<void> {
  const approvals: PendingService = module.get(PendingService);
  const [{ approvalId } = { approvalId: '' }] = await approvals.list(alice);
  await approvals.decide({ approvalId, decision: 'approve' }, alice);
}

interface Told {
  readonly result: LoopResult;
  /** Of the last step before the run waited, and of the first one after. */
  readonly before: readonly string[];
  readonly after: readonly string[];
}

interface Play {
  /** Of the application. */
  readonly injection?: readonly ToolInjectionStrategy[];
  readonly goesOn?: readonly ScriptedTurn[];
  readonly request?: Partial<ResumeRequest>;
  readonly resume?: Partial<ResumeRequest>;
  readonly where?: 'here' | 'elsewhere';
}

/** A run that waits in one process and goes on in the same or in another one. */
async function play({
  request,
  resume,
  where,
  goesOn = [text('Done.')],
  injection = [],
}: Play): Promise<Told> {
  const options = { policy, injection, providers: sharedStores() };
  const [first, second] = [new ScriptedModel([openCart, send]), new ScriptedModel(goesOn)];
  const one = await openModule(first, options);
  const other = where === 'here' ? one : await openModule(second, options);
  const { runId } = await loopOf(one).run(ask(request));
  await approve(other);
  const result = await (
    await loopOf(other).resume(runId, { ...alice, ...request, model: second, ...resume })
  ).result;
  return { result, before: lastOf(first), after: second.requests[0]?.toolIds ?? [] };
}

const lastOf = ({ requests }: ScriptedModel): readonly string[] => requests.at(-1)?.toolIds ?? [];

describe('what an artifact has unlocked', () => {
  it.each(['here', 'elsewhere'] as const)(
    'is offered, in its place, where the run continues %s',
    async (where) => {
      const { result, before, after } = await play({
        request: { injection: [unlocking()] },
        goesOn: [write, text('Done.')],
        where,
      });
      expect(before).toContain('probe__write');
      // the cart went with its process
      expect(after).toEqual(
        where === 'here' ? before : before.filter((id) => !id.startsWith('cart_')),
      );
      expect(result.toolCalls.at(-1)).toMatchObject({ id: 'probe__write', status: 'succeeded' });
    },
  );

  it('is offered in whatever process takes over what was written down', async () => {
    const options: Partial<ShopOptions> = { policy, providers: sharedStores() };
    const request = ask({ injection: [unlocking()] });
    const journal = new KeptJournal();
    const first = await openModule(new ScriptedModel([openCart, send]), options);
    await first
      .get<RunOpener>(RunOpener)
      .openDurable(request, { runId: 'run-1', loop: undefined, journal }).result;
    await approve(first);
    const model = new ScriptedModel([text('Done.')]);
    const second = await openModule(model, options);
    const kept = {
      runId: 'run-1',
      loop: undefined,
      journal: new KeptJournal(),
      entries: journal.flush(),
    };
    await second.get<RunOpener>(RunOpener).openDurable(request, kept).result;
    expect(model.requests[0]?.toolIds).toContain('probe__write');
  });

  it.each<[string, Partial<ResumeRequest>]>([
    ['a policy denies it', { policy: { allow: ['*'], flow: 'off', deny: ['probe__write'] } }],
    ['it is excluded', { exclude: ['probe__write'] }],
    ['it is not selected', { tools: ['probe__read', 'probe__send', 'crm__*'] }],
    ['injection is turned off', { injection: false }],
  ])('stays away where by then %s', async (_, resume) => {
    const { after } = await play({ resume, injection: [unlocking()] });
    expect(after).not.toContain('probe__write');
    expect(after).toContain('probe__send');
  });

  it('leaves out a tool that was not unlocked, and that another strategy withholds by then', async () => {
    const resume = { injection: [unlock({ after: 'probe__read', tools: ['probe__write'] })] };
    const { before, after } = await play({ request: { injection: [] }, resume });
    expect(before).toContain('probe__write');
    expect(after).not.toContain('probe__write');
  });

  it.each(['here', 'elsewhere'] as const)(
    'is gone, once removed, where the run continues %s',
    async (where) => {
      const injection = [unlocking({ tools: [], remove: ['probe__read'] })];
      const { result, after } = await play({
        request: { injection },
        goesOn: [read, text('Done.')],
        where,
      });
      expect(after).not.toContain('probe__read');
      expect(result.toolCalls.at(-1)?.error).toMatchObject({
        code: 'tool_gone',
        safeMessage: expect.stringContaining('taken away after crm__openCart'),
      });
    },
  );
});

const isFirst = (live: unknown): boolean => live instanceof Cart && live.id === 'c';

it('a removed tool stays away in another process, though neither a search nor an entity had brought it yet', async () => {
  const options = {
    policy,
    providers: sharedStores(),
    injection: [
      toolSearch({ tools: ['probe__read'] }),
      unlocking({ found: isFirst, tools: [], remove: ['probe__read', 'cart_*_add'] }),
    ],
  };
  const first = await openModule(new ScriptedModel([openCart, send]), options);
  const { runId } = await loopOf(first).run(ask());
  await approve(first);
  const model = new ScriptedModel([
    calls(call('tools__search', { query: 'read' }), call('crm__openCart', { id: 'd' })),
    text('Done.'),
  ]);
  await (
    await loopOf(await openModule(model, options)).resume(runId, alice)
  ).result;
  expect(model.requests[1]?.toolIds.filter((id) => /^cart_d|read/.test(id))).toEqual([
    'cart_d_list',
  ]);
});

const openAnd = (other: ScriptedCall) => calls(call('crm__openCart', { id: 'c' }), other);
/** One of each kind, anew for each process, and one of the name of another that finds nothing. */
const finding = (): readonly ToolInjectionStrategy[] => [
  unlocking({ remove: ['probe__read'] }),
  unlocking({ found: (live) => live === 'w', tools: [], remove: ['probe__write'] }),
  assumeRoles({ start: [], to: [{ found: isCart, roles: ['clerk'] }] }),
  phases({
    start: 'browse',
    states: {
      browse: { tools: ['probe__customer'], to: [{ found: isCart, phase: 'pay' }] },
      pay: { tools: ['probe__orders'] },
    },
  }),
];
const foundBy = ({ requests: [first] }: ScriptedModel) =>
  first?.toolIds.filter((id) => id.startsWith('probe')).toSorted();

describe('an artifact found in a step that ends in another process changes what it would have changed', () => {
  const allow = [
    'crm__openCart',
    'probe__read',
    'probe__write',
    'probe__send',
    'probe__customer',
    'probe__orders',
  ];
  const clerks: Policy = { ...policy, allow, roles: { clerk: { allow: ['probe__show'] } } };
  const begin = async (model: ScriptedModel, providers: readonly Provider[] = []) =>
    openModule(model, {
      policy: clerks,
      providers,
      injection: finding(),
      actorRoles: () => ['clerk'],
    });
  const FOUND = ['probe__orders', 'probe__send', 'probe__show', 'probe__write'];

  it('waits, with its step, for another call', async () => {
    const stores = sharedStores();
    const first = await begin(
      new ScriptedModel([openAnd(call('probe__send', { key: 's' }))]),
      stores,
    );
    const { runId } = await loopOf(first).run(ask());
    await approve(first);
    const model = new ScriptedModel([text('Done.')]);
    const second = await begin(model, stores);
    await (
      await loopOf(second).resume(runId, alice)
    ).result;
    expect(foundBy(model)).toEqual(FOUND);
  });

  it('ends with its process behind the call', async () => {
    const journal = new KeptJournal();
    const first = await begin(
      new ScriptedModel([openAnd(call('probe__read', { key: 'x' })), text('Done.')]),
    );
    await first
      .get<RunOpener>(RunOpener)
      .openDurable(ask(), { runId: 'run-1', loop: undefined, journal }).result;
    const all = journal.flush();
    const entries = all.slice(
      0,
      all.findIndex(
        (entry) =>
          entry.type === 'tool' && JSON.stringify(entry.value['record'] ?? '').includes('openCart'),
      ) + 1,
    );
    const model = new ScriptedModel([text('Done.')]);
    const second = await begin(model);
    const kept = { runId: 'run-1', loop: undefined, journal: new KeptJournal(), entries };
    await second.get<RunOpener>(RunOpener).openDurable(ask(), kept).result;
    expect(foundBy(model)).toEqual(FOUND);
  });
});

const thousand = (key: string) =>
  Array.from({ length: 1_000 }, (_, index) => new Customer(`${key}-${index}`, 'Ann'));
const actWithMany = (key: string) => (key.startsWith('many') ? thousand(key) : key);
const showMany = (key: string) => calls(call('probe__customers', { key }));

it('a removed tool is gone in another process, however many entities made room for others since', async () => {
  const injection = [
    unlocking({ found: (live) => live === 'w', tools: [], remove: ['probe__read'] }),
  ];
  const options = { policy, injection, providers: sharedStores() };
  const first = await openModule(
    new ScriptedModel([write, showMany('many1'), showMany('many2'), showMany('many3'), send]),
    options,
  );
  const { runId } = await loopOf(first).run(ask({ context: { act: actWithMany } }));
  await approve(first);
  const model = new ScriptedModel([read, text('Done.')]);
  const result = await (await loopOf(await openModule(model, options)).resume(runId, alice)).result;
  expect(model.requests[0]?.toolIds).not.toContain('probe__read');
  expect(result.toolCalls.at(-1)?.error).toMatchObject({ code: 'tool_gone' });
});

const shopping = (): ToolInjectionStrategy =>
  phases({
    start: 'browse',
    states: {
      browse: { tools: ['probe__customer'], to: [{ found: isCart, phase: 'pay' }] },
      pay: { tools: ['probe__write'], to: [{ on: 'probe__write', phase: 'paid' }] },
      paid: { tools: ['probe__read'] },
    },
  });
const ours = (ids: readonly string[] = []) =>
  ids.filter((id) => ['probe__customer', 'probe__write', 'probe__read'].includes(id));

describe('a phase that an artifact has led to', () => {
  it('is the phase in which the run continues in another process, and from which it moves on', async () => {
    const goesOn = [write, read, text('Done.')];
    const { result, before, after } = await play({
      request: { injection: [shopping()] },
      resume: { injection: [shopping()] },
      goesOn,
    });
    expect([ours(before), ours(after)]).toEqual([['probe__write'], ['probe__write']]);
    expect(result.toolCalls.slice(-2)).toMatchObject([
      { id: 'probe__write', status: 'succeeded' },
      { id: 'probe__read', status: 'succeeded' },
    ]);
  });
});

describe('what was unlocked in a sub-run that waits', () => {
  it.each<[string, UnlockOptions]>([
    ['by an artifact', { found: isCart, tools: ['probe__write'], remove: ['probe__read'] }],
    ['by a tool', { after: 'crm__openCart', tools: ['probe__write'], remove: ['probe__read'] }],
  ])(
    '%s is offered there in another process, and what was taken away is not',
    async (_, options) => {
      const providers = sharedStores();
      const process = async (outer: readonly ScriptedTurn[], inner: ScriptedModel) => {
        const tools = [
          subRunTool({
            id: 'research',
            description: 'Finds out.',
            tools: ['probe__*', 'crm__*'],
            model: inner,
          }),
        ];
        return openModule(new ScriptedModel(outer), {
          policy,
          providers,
          tools,
          injection: [unlock(options)],
        });
      };
      const one = await process(
        [calls(call('research', { prompt: 'Go.' }))],
        new ScriptedModel([openCart, send]),
      );
      const { runId } = await loopOf(one).run(ask());
      await approve(one);
      const inner = new ScriptedModel([text('So.')]);
      const other = await process([text('Done.')], inner);
      await (
        await loopOf(other).resume(runId, alice)
      ).result;
      expect(inner.requests[0]?.toolIds).toContain('probe__write');
      expect(inner.requests[0]?.toolIds).not.toContain('probe__read');
    },
  );
});

const desk = (leadsOn: object) =>
  phases({
    start: 'browse',
    states: {
      browse: { tools: ['probe__customer'], to: [{ ...leadsOn, phase: 'pay' }] },
      pay: {
        tools: ['probe__write', 'crm__sendMail'],
        to: [{ on: 'probe__write', phase: 'paid' }],
      },
      paid: { tools: ['probe__orders'] },
    },
  });

describe('the phase of a sub-run that waits', () => {
  it.each([
    ['by a tool', { on: 'crm__openCart' }],
    ['by an artifact', { found: isCart }],
  ])(
    'is the phase, reached by %s, of the sub-run in another process, and moves on there',
    async (_, leadsOn) => {
      const providers = sharedStores();
      const process = async (outer: readonly ScriptedTurn[], inner: ScriptedModel) => {
        const tools = [
          subRunTool({
            id: 'research',
            description: 'Finds out.',
            tools: ['probe__*', 'crm__openCart'],
            model: inner,
          }),
        ];
        return openModule(new ScriptedModel(outer), {
          policy,
          providers,
          tools,
          injection: [desk(leadsOn)],
        });
      };
      const one = await process(
        [calls(call('research', { prompt: 'Go.' }))],
        new ScriptedModel([openCart, send]),
      );
      const { runId } = await loopOf(one).run(ask());
      await approve(one);
      const inner = new ScriptedModel([write, text('So.')]);
      const outer = new ScriptedModel([text('Done.')]);
      const other = await process([], inner);
      await (
        await loopOf(other).resume(runId, { ...alice, model: outer })
      ).result;
      const mayBe = new Set(['probe__customer', 'probe__write', 'probe__orders']);
      const offered = [...inner.requests, ...outer.requests].map(({ toolIds }) =>
        toolIds.filter((id) => mayBe.has(id)),
      );
      expect(offered).toEqual([['probe__write'], ['probe__orders'], ['probe__customer']]);
    },
  );
});
