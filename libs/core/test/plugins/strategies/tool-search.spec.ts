import { describe, expect, it } from '@jest/globals';
import {
  PendingService,
  type LoopRequest,
  type Policy,
  type RawTool,
  tool,
  type Tool,
  ToolLoopService,
  ToolSource,
} from '@toolloop/core';
import { PendingStore, MemoryPendingStore, MemoryRunLog, RunLog } from '@toolloop/core/stores';
import { phases, toolSearch, type ToolSearchOptions, unlock } from '@toolloop/core/strategies';
import { ScriptedModel, call, calls, eventsOf, text, type ScriptedTurn } from '@toolloop/testing';
import { play, resultsIn, type PlayedRun } from '../../fixtures/played-run.js';
import { Customer } from '../../fixtures/shop.js';
import { ask, openModule, openShop, type ShopOptions } from '../../fixtures/shop.module.js';
import { SEARCH_TOOL } from '../../../src/plugins/strategies/search-tool.js';

const ALICE = { actor: { id: 'alice' }, tenant: 'acme' };
const search = (query: string) => call('tools__search', { query });

function toolOf(id: string, description: string): RawTool {
  return tool({
    id,
    description,
    effect: 'read_only',
    reveal: 'all',
    execute: () => `this is ${id}`,
  });
}

/** Ten tools about invoices, and two about taxes. */
const INVOICES = Array.from({ length: 10 }, (_, index) =>
  toolOf(`invoice__step${index}`, `Handles an invoice, stage ${index}.`),
);
const TAXES = [
  toolOf('tax__rate', 'The rate of a tax.'),
  toolOf('tax__secret', 'The tax of the management.'),
];

interface Played extends PlayedRun {
  readonly model: ScriptedModel;
  readonly offered: readonly (readonly string[])[];
}

async function playWith(
  options: ToolSearchOptions,
  script: readonly ScriptedTurn[],
  { request = {}, ...shop }: ShopOptions & { readonly request?: Partial<LoopRequest> } = {},
): Promise<Played> {
  const model = new ScriptedModel([...script, text('Done.')]);
  const loop = await openShop(model, {
    injection: [toolSearch(options)],
    tools: [...INVOICES, ...TAXES],
    ...shop,
  });
  const played = await play(loop, ask(request));
  model.assertComplete();
  return { ...played, model, offered: model.requests.map(({ toolIds }) => toolIds) };
}

describe('tool search', () => {
  it('offers the search alone, and what it finds from the next step on', async () => {
    const { offered, result, events } = await playWith({}, [
      calls(search('tax rates')),
      calls(call('tax__rate')),
    ]);
    expect(offered[0]).toEqual(['tools__search']);
    expect(offered[1]).toEqual(['tools__search', 'tax__rate', 'tax__secret']);
    expect(JSON.parse(resultsIn(result.messages)[0] ?? '')).toEqual({
      tools: [
        { id: 'tax__rate', description: 'The rate of a tax.' },
        { id: 'tax__secret', description: 'The tax of the management.' },
      ],
    });
    expect(resultsIn(result.messages)[1]).toBe('this is tax__rate');
    expect(eventsOf(events, 'tools-injected')).toMatchObject([
      { step: 1, provider: 'tool search', tools: ['tax__rate'] },
      { step: 1, provider: 'tool search', tools: ['tax__secret'] },
    ]);
  });

  it('offers from the start what is always there', async () => {
    const { offered } = await playWith({ always: ['tax__rate', 'crm__*'] }, []);
    expect(offered[0]).toEqual(
      [
        'tax__rate',
        'crm__searchCustomers',
        'crm__openCart',
        'crm__sendMail',
        'tools__search',
      ].toSorted(byCatalog(offered[0])),
    );
  });

  it('finds nothing that another strategy took away, whether it was found before or not', async () => {
    const away = unlock({ after: 'probe__read', remove: ['tax__*'] });
    const options = { always: ['probe__read'], tools: ['*'] };
    const script = [
      calls(search('secret management')),
      calls(call('probe__read', { key: 'r' })),
      calls(search('tax rates')),
    ];
    const { offered, result } = await playWith(options, [...script, calls(call('tax__secret'))], {
      injection: [toolSearch(options), away],
    });
    expect(offered[1]).toContain('tax__secret');
    expect(
      offered
        .slice(2)
        .flat()
        .filter((id) => id.startsWith('tax')),
    ).toEqual([]);
    expect(JSON.parse(resultsIn(result.messages)[2] ?? '')).toEqual({ tools: [] });
    expect(result.toolCalls.at(-1)?.error).toMatchObject({
      code: 'tool_gone',
      safeMessage: expect.stringContaining('Continue without it'),
    });
  });

  it('leaves alone what it is not about', async () => {
    const { offered } = await playWith({ tools: ['invoice__*'] }, [calls(search('tax'))]);
    expect(offered[0]).toContain('tax__rate');
    expect(offered[1]).toEqual(offered[0]);
  });

  it('finds so many at most', async () => {
    const { offered } = await playWith({ most: 3 }, [calls(search('invoice'))]);
    expect(offered[1]).toEqual([
      'tools__search',
      'invoice__step0',
      'invoice__step1',
      'invoice__step2',
    ]);
  });

  it('answers a search for nothing with nothing, and checks what it is asked', async () => {
    const { result } = await playWith({}, [
      calls(search('zebra'), call('tools__search', {}), search('x'.repeat(201))),
    ]);
    expect(resultsIn(result.messages)[0]).toBe('{"tools":[]}');
    expect(result.toolCalls.map(({ error }) => error?.code)).toEqual([
      undefined,
      'invalid_args',
      'invalid_args',
    ]);
  });

  it('keeps the place and the very spec of all that stays, so that the prompt cache stays warm', async () => {
    const { model } = await playWith({}, [
      calls(search('tax')),
      calls(search('invoice stage 3')),
      calls(search('rate')),
    ]);
    const [first, ...later] = model.requests.map(({ tools }) => tools);
    let before = first ?? [];
    for (const tools of later) {
      expect(before.every((spec, index) => tools[index] === spec)).toBe(true);
      before = tools;
    }
    expect(before.length).toBeGreaterThan(8);
  });

  it('lets the oldest results go past the cap, keeps what was just found, and says how to get them back', async () => {
    const script = [
      calls(search('tax')),
      calls(search('stage 1')),
      calls(search('stage 2')),
      calls(call('tax__rate')),
      calls(search('tax')),
    ];
    const { offered, events, result } = await playWith({ most: 2 }, script, {
      limits: { injectedTools: 4 },
    });
    expect(offered[2]).toEqual([
      'tools__search',
      'tax__rate',
      'tax__secret',
      'invoice__step1',
      'invoice__step0',
    ]);
    expect(offered[3]).toEqual([
      'tools__search',
      'tax__secret',
      'invoice__step1',
      'invoice__step0',
      'invoice__step2',
    ]);
    expect(eventsOf(events, 'tools-removed')[0]).toMatchObject({
      step: 3,
      tools: ['tax__rate'],
      reason: 'tool search',
    });
    expect(result.toolCalls[3]?.error).toMatchObject({
      code: 'tool_gone',
      safeMessage:
        'The tool "tax__rate" is no longer available. It made room for newer ones. To get it back, search with tools__search.',
    });
    expect(offered[5]).toEqual([
      'tools__search',
      'tax__secret',
      'invoice__step0',
      'invoice__step2',
      'tax__rate',
    ]);
    expect(eventsOf(events, 'warning')).toEqual([]);
  });

  it('gives what it found where the tools of entities are as many as can be named', async () => {
    const twelve = Array.from({ length: 12 }, (_, index) => new Customer(`c-${index}`, 'Ann'));
    const list = calls(call('probe__customers', { key: 'all' }));
    const script = [list, calls(search('tax rate')), calls(call('tax__rate'))];
    const { offered, events, result } = await playWith({ always: ['probe__customers'] }, script, {
      request: { context: { act: () => twelve } },
    });
    expect(offered[1]?.filter((id) => id.startsWith('customer_c-'))).toHaveLength(24);
    expect(offered[2]?.slice(0, offered[1]?.length)).toEqual(offered[1]);
    expect(result.toolCalls.at(-1)).toMatchObject({ id: 'tax__rate', status: 'succeeded' });
    expect(eventsOf(events, 'warning')).toEqual([]);
  });

  it('neither finds nor gives what policy denies, whatever a hostile model asks for', async () => {
    const policy = { allow: ['*'], deny: ['tax__secret'] };
    const script = [
      calls(search('tax__secret')),
      calls(call('tax__secret')),
      calls(search('tax of the management secret')),
    ];
    const { offered, result } = await playWith({}, script, { policy });
    expect(offered.flat()).not.toContain('tax__secret');
    expect(resultsIn(result.messages).join()).not.toContain('management.');
    expect(result.toolCalls[1]?.error).toMatchObject({
      code: 'policy_denied',
      safeMessage: expect.stringMatching(/^No tool is named "tax__secret"/),
    });
  });

  it('gives nothing that `tools`, `exclude` or `when` keep out of the run', async () => {
    const hidden = tool({
      id: 'tax__hidden',
      description: 'A tax.',
      effect: 'read_only',
      reveal: 'all',
      when: () => false,
      execute: () => '',
    });
    const request = { tools: ['tax__*'], exclude: ['tax__secret'] };
    const { offered } = await playWith({}, [calls(search('tax invoice'))], {
      request,
      tools: [...INVOICES, ...TAXES, hidden],
    });
    expect(offered[1]).toEqual(['tools__search', 'tax__rate']);
  });

  it('injects only its own results: ids from any other tool are ignored', async () => {
    const forged = { tools: [{ id: 'tax__secret', description: '' }] };
    const { offered } = await playWith(
      { always: ['probe__read'] },
      [calls(call('probe__read', { key: 'a' }))],
      {
        request: { context: { act: () => forged } },
      },
    );
    expect(offered[1]).toEqual(offered[0]);
  });

  it('shows each of two tenants its own, though they share the index and run at the same time', async () => {
    const policy: Policy = {
      allow: ['tools__search'],
      tenants: { acme: { allow: ['tax__rate'] }, globex: { allow: ['tax__secret'] } },
    };
    const models = {
      acme: new ScriptedModel([calls(search('tax')), text('Done.')]),
      globex: new ScriptedModel([calls(search('tax')), text('Done.')]),
    };
    const loop = await openShop(models.acme, { injection: [toolSearch()], tools: TAXES, policy });
    await Promise.all(
      (['acme', 'globex'] as const).map((tenant) =>
        play(loop, ask({ tenant, model: models[tenant] })),
      ),
    );
    expect(models.acme.requests[1]?.toolIds).toEqual(['tools__search', 'tax__rate']);
    expect(models.globex.requests[1]?.toolIds).toEqual(['tools__search', 'tax__secret']);
  });

  it('is itself a matter of policy, which can name it although no run has it', async () => {
    const { offered } = await playWith({}, [], {
      policy: { allow: ['tools__search', 'tax__*'], deny: ['tools__search'] },
    });
    expect(offered[0]).toEqual([]);
    await expect(
      openShop(new ScriptedModel([]), { policy: { allow: ['tools__search'] } }),
    ).resolves.toBeDefined();
  });

  it('is in no run without the strategy', async () => {
    const loop = await openShop(new ScriptedModel([]), { tools: TAXES });
    const listed = await loop.list({ actor: { id: 'alice' }, tenant: 'acme' });
    expect(listed.map(({ id }) => id)).not.toContain('tools__search');
  });

  it('stays with the results of a search before the wait, when a run continues in another process', async () => {
    const policy = {
      allow: ['*'],
      flow: 'off',
      requireApproval: [{ tools: ['tax__rate'] }],
    } as const;
    const model = new ScriptedModel([
      calls(search('tax')),
      calls(call('tax__rate')),
      text('Done.'),
    ]);
    const stores = [
      { provide: RunLog, useValue: new MemoryRunLog() },
      { provide: PendingStore, useValue: new MemoryPendingStore() },
    ];
    const start = () =>
      openModule(model, { policy, tools: TAXES, injection: [toolSearch()], providers: stores });
    const first: ToolLoopService = (await start()).get(ToolLoopService);
    const { runId } = await first.run(ask());
    const module = await start();
    const approvals: PendingService = module.get(PendingService);
    const [approval] = await approvals.list(ALICE);
    await approvals.decide({ approvalId: approval?.approvalId ?? '', decision: 'approve' }, ALICE);
    const second: ToolLoopService = module.get(ToolLoopService);
    const result = await (await second.resume(runId, ALICE)).result;
    expect(result.toolCalls.at(-1)).toMatchObject({ id: 'tax__rate', status: 'succeeded' });
    expect(model.requests[2]?.toolIds).toEqual(['tools__search', 'tax__rate', 'tax__secret']);
  });

  it('trusts its own results less where strangers described the tools', async () => {
    class Strangers extends ToolSource {
      override readonly origin = { source: 'mcp', trusted: false };
      override tools(): readonly Tool[] {
        return [
          {
            ...SEARCH_TOOL,
            origin: this.origin,
            spec: { ...SEARCH_TOOL.spec, id: 'mcp__any', declaredId: 'mcp__any' },
          },
        ];
      }
    }
    const policy = { allow: ['*', 'mcp__any'] };
    const { model } = await playWith({}, [calls(search('further tools'))], {
      policy,
      providers: [{ provide: Strangers, useClass: Strangers }],
    });
    expect(model.requests[0]?.tools[0]?.labels.returns).toBe('untrusted');
    const own = await playWith({}, [], {});
    expect(own.model.requests[0]?.tools[0]?.labels.returns).toBe('trusted');
  });

  it('goes together with phases and unlocks, each with its own tools', async () => {
    const injection = [
      toolSearch(),
      phases({
        start: 'a',
        states: {
          a: { tools: ['tax__rate'], to: [{ on: 'tax__rate', phase: 'b' }] },
          b: { tools: ['tax__secret'] },
        },
      }),
      unlock({ after: 'tax__rate', tools: ['invoice__step9'] }),
    ];
    const { offered } = await playWith({}, [calls(call('tax__rate'), search('stage 1'))], {
      injection,
    });
    expect(offered[0]?.toSorted()).toEqual(['tax__rate', 'tools__search']);
    expect(offered[1]?.slice(0, 3)).toEqual(['tools__search', 'tax__secret', 'invoice__step9']);
    expect(offered[1]).toHaveLength(11);
  });

  it("wins, as a loop's, over that of the application, whose tool it takes over", async () => {
    const { offered } = await playWith({}, [calls(search('invoice tax'))], {
      request: { injection: [toolSearch({ tools: ['tax__*'] })] },
    });
    expect(offered[1]).toEqual(['tools__search', 'tax__rate', 'tax__secret']);
  });

  it('does not start beside a tool that has its name, or with a `most` that is none', async () => {
    await expect(
      openShop(new ScriptedModel([]), { tools: [toolOf('tools__search', 'Mine.')] }),
    ).rejects.toThrow(/tools__search/);
    expect(() => toolSearch({ most: 0 })).toThrow(/"most" is 0/);
  });
});

describe('the index of a search', () => {
  it('is of the application: two in one process never see each other', async () => {
    const strategy = toolSearch();
    const models = [0, 1].map(
      () => new ScriptedModel([calls(search('tax invoice')), text('Done.')]),
    );
    const [one, other] = await Promise.all(
      [TAXES, INVOICES.slice(0, 1)].map((tools, index) =>
        openShop(models[index] ?? new ScriptedModel([]), { injection: [strategy], tools }),
      ),
    );
    for (const loop of [one, other]) if (loop) await play(loop, ask());
    expect(models.map(({ requests }) => requests[1]?.toolIds)).toEqual([
      ['tools__search', 'tax__rate', 'tax__secret'],
      ['tools__search', 'invoice__step0'],
    ]);
  });
});

/** In the order in which they were offered: which of them stand first is the catalog's matter. */
function byCatalog(offered: readonly string[] = []): (a: string, b: string) => number {
  return (a, b) => offered.indexOf(a) - offered.indexOf(b);
}
