import { describe, expect, it } from '@jest/globals';
import {
  PendingService,
  ConfigurationError,
  InvalidRequestError,
  type LoopRequest,
  type Policy,
  subRunTool,
  ToolLoopService,
} from '@toolloop/core';
import { toolSearch, unlock, type UnlockOptions } from '@toolloop/core/strategies';
import { ScriptedModel, call, calls, eventsOf, text, type ScriptedTurn } from '@toolloop/testing';
import { play, type PlayedRun } from '../../fixtures/played-run.js';
import { Cart } from '../../fixtures/shop.js';
import { ask, openModule, openShop } from '../../fixtures/shop.module.js';
import { SURFACES, over } from '../entities/surface-calls.js';

const read = (key = 'a') => call('probe__read', { key });
const write = (key = 'a') => call('probe__write', { key });

const find = (name: string) => call('crm__searchCustomers', { name });
const locked = () => [
  unlock({ after: 'read', tools: ['probe__write'], remove: ['crm__openCart'] }),
];
const open = (id: string) => calls(call('crm__openCart', { id }));
const boom = () => {
  throw new Error('secret');
};

interface Played extends PlayedRun {
  /** What the model was offered, step by step. */
  readonly offered: readonly (readonly string[])[];
}

async function playWith(
  options: UnlockOptions,
  script: readonly ScriptedTurn[],
  request: Partial<LoopRequest> = {},
): Promise<Played> {
  const model = new ScriptedModel([...script, text('Done.')]);
  const played = await play(
    await openShop(model),
    ask({ injection: [unlock(options)], ...request }),
  );
  model.assertComplete();
  return { ...played, offered: model.requests.map(({ toolIds }) => toolIds) };
}

describe('unlock', () => {
  it('keeps tools back until the named tool has succeeded, and puts them at the end', async () => {
    const { offered, events, result } = await playWith(
      { after: 'probe__read', tools: ['probe__write'] },
      [calls(read()), calls(write())],
    );
    expect(offered[0]).not.toContain('probe__write');
    expect(offered[1]).toEqual([...(offered[0] ?? []), 'probe__write']);
    expect(eventsOf(events, 'tools-injected')).toMatchObject([
      { step: 1, provider: 'unlock', tools: ['probe__write'] },
    ]);
    expect(result.toolCalls.at(-1)).toMatchObject({ status: 'succeeded' });
  });

  it('answers a model that guesses what is locked as it answers any wrong name, and does not run it', async () => {
    const { result } = await playWith({ after: 'probe__read', tools: ['probe__write'] }, [
      calls(write()),
      calls(call('nothing__write')),
    ]);
    expect(result.toolCalls.map(({ error }) => error?.code)).toEqual([
      'unknown_tool',
      'unknown_tool',
    ]);
    expect(JSON.stringify(result.messages)).not.toContain('Did you mean \\"probe__write');
  });

  it('is not moved by a failure of the named tool', async () => {
    const { offered } = await playWith(
      { after: 'probe__read', tools: ['probe__write'] },
      [calls(read())],
      { context: { act: boom } },
    );
    expect(offered[1]).not.toContain('probe__write');
  });

  it.each<[string, UnlockOptions, string]>([
    ['one of several tools', { after: ['probe__send', 'probe__*'] }, 'a'],
    ['a short name', { after: 'read' }, 'a'],
    ['a predicate over the record', { when: ({ result }) => result === 'open' }, 'open'],
    ['a predicate over what the tool returned', { found: (live) => live === 'open' }, 'open'],
    [
      'several of them at once',
      { after: 'read', when: ({ args }) => args?.['key'] === 'b', found: (live) => live === 'b' },
      'b',
    ],
  ])('waits for %s', async (_, trigger, key) => {
    const { offered } = await playWith({ ...trigger, tools: ['probe__write'] }, [calls(read(key))]);
    expect(offered[1]).toContain('probe__write');
  });

  it.each<[string, UnlockOptions]>([
    ['the predicate does not hold', { after: 'read', when: () => false }],
    ['nothing of the kind was found', { found: (live) => live instanceof Cart }],
    ['another tool was called', { after: 'write' }],
  ])('stays locked where %s', async (_, trigger) => {
    const { offered } = await playWith({ ...trigger, tools: ['probe__send'] }, [calls(read())]);
    expect(offered[1]).not.toContain('probe__send');
  });

  it('sees the artifact itself, which a record never shows', async () => {
    const { offered } = await playWith(
      { found: (live) => live instanceof Cart, tools: ['probe__send'] },
      [calls(call('crm__openCart', { id: 'c1' }))],
    );
    expect(offered[1]).toContain('probe__send');
  });

  it('takes tools away, those of entities too, and says that they are gone', async () => {
    const { events, result, offered } = await playWith(
      { after: 'probe__write', remove: ['probe__read', 'cart_*_add'] },
      [calls(call('crm__openCart', { id: 'c1' })), calls(write()), calls(read())],
    );
    expect(eventsOf(events, 'tools-removed')).toMatchObject([
      { step: 2, tools: ['probe__read', 'cart_c1_add'], reason: 'unlock' },
    ]);
    expect(offered[2]).toContain('cart_c1_list');
    expect(result.toolCalls.at(-1)).toMatchObject({
      error: {
        code: 'tool_gone',
        safeMessage:
          'The tool "probe__read" is no longer available. It was taken away after probe__write. Continue without it.',
      },
    });
  });

  it.each(SURFACES)(
    'takes tools of entities away for good, over the surface %s: those of new ones too',
    async (surface) => {
      const add = (id: string) =>
        over(surface, { prefix: 'cart', id, method: 'add', args: '{"sku":"x"}' });
      const script = [
        open('c1'),
        calls(write()),
        open('c1'),
        open('c2'),
        calls(add('c1')),
        calls(add('c2')),
      ];
      const { result } = await playWith({ after: 'probe__write', remove: ['cart_*_add'] }, script, {
        surface,
      });
      expect(result.toolCalls.slice(-2).map(({ status }) => status)).toEqual(['failed', 'failed']);
      expect(result.toolCalls.at(-2)?.error).toMatchObject({
        code: 'tool_gone',
        safeMessage: expect.stringContaining('Continue without it'),
      });
    },
  );

  it('takes tools away from a sub-run too, whatever is returned in it', async () => {
    const inner = new ScriptedModel([calls(call('crm__openCart', { id: 'c1' })), text('So.')]);
    const tools = [
      subRunTool({ id: 'research', description: 'Finds out.', tools: ['*'], model: inner }),
    ];
    const model = new ScriptedModel([
      calls(write()),
      calls(call('research', { prompt: 'Go.' })),
      text('Done.'),
    ]);
    const injection = [
      unlock({ after: 'probe__write', remove: ['cart_*_add', 'probe__read'] }),
      toolSearch({ tools: ['probe__read'] }),
    ];
    await play(await openShop(model, { tools, injection }), ask());
    expect(inner.requests[0]?.toolIds).not.toContain('probe__read');
    expect(inner.requests[1]?.toolIds.filter((id) => id.startsWith('cart_'))).toEqual([
      'cart_c1_list',
    ]);
  });

  it('takes away what reads on in results that were cut, too', async () => {
    const long = { context: { act: () => 'x'.repeat(5_000) }, limits: { resultBytes: 1_000 } };
    const { offered } = await playWith(
      { after: 'probe__write', remove: ['results__read'] },
      [calls(read()), calls(write()), calls(read())],
      long,
    );
    expect(offered.map((ids) => ids.includes('results__read'))).toEqual([
      false,
      true,
      false,
      false,
    ]);
  });

  it('keeps away what is laid down with a role at that moment', async () => {
    let roles: readonly string[] = ['reader'];
    const act = (key: string) => {
      roles = key === 'on' ? ['reader'] : [];
      return key;
    };
    const policy: Policy = {
      allow: ['probe__write', 'probe__send'],
      flow: 'off',
      roles: { reader: { allow: ['probe__read'] } },
    };
    const model = new ScriptedModel([
      calls(write('off')),
      calls(call('probe__send', { key: 'away' })),
      calls(write('on')),
      text('Done.'),
    ]);
    const injection = [unlock({ found: (live) => live === 'away', remove: ['probe__read'] })];
    await play(
      await openShop(model, { policy, injection, actorRoles: () => roles }),
      ask({ context: { act } }),
    );
    expect(model.requests.map(({ toolIds }) => toolIds.includes('probe__read'))).toEqual([
      true,
      false,
      false,
      false,
    ]);
  });

  it('keeps away what another strategy would give, until that strategy does by its own trigger', async () => {
    const injection = [
      unlock({ after: 'read', remove: ['probe__write'] }),
      unlock({ after: 'send', tools: ['probe__write'] }),
    ];
    const model = new ScriptedModel([
      calls(read()),
      calls(call('probe__send', { key: 's' })),
      text('Done.'),
    ]);
    await play(await openShop(model), ask({ injection }));
    expect(model.requests.map(({ toolIds }) => toolIds.includes('probe__write'))).toEqual([
      false,
      false,
      true,
    ]);
  });

  it('takes classes of providers and predicates for tools', async () => {
    const { offered } = await playWith(
      { after: 'read', tools: [({ effect }) => effect === 'external_side_effect'] },
      [calls(read())],
    );
    expect(offered[0]).not.toContain('crm__sendMail');
    expect(offered[1]?.slice(-2).toSorted()).toEqual(['crm__sendMail', 'probe__send']);
  });

  it('gives nothing that policy, `tools` or `exclude` of the run keep out', async () => {
    const options: UnlockOptions = {
      after: 'read',
      tools: ['probe__write', 'probe__send', 'crm__sendMail', 'crm__openCart'],
    };
    const { offered } = await playWith(options, [calls(read())], {
      policy: { allow: ['*'], deny: ['probe__send'] },
      tools: ['probe__*', 'crm__sendMail'],
      exclude: ['crm__sendMail'],
    });
    expect(offered[1]?.filter((id) => !offered[0]?.includes(id))).toEqual(['probe__write']);
  });

  it('keeps tools back where injection is turned off, too: turning off must not give more', async () => {
    const model = new ScriptedModel([calls(read()), text('Done.')]);
    const loop = await openShop(model, {
      injection: [unlock({ after: 'read', tools: ['probe__write'] })],
    });
    await play(loop, ask({ injection: false }));
    expect(model.requests.flatMap(({ toolIds }) => toolIds)).not.toContain('probe__write');
  });

  it('is listed as a run would start with', async () => {
    const loop = await openShop(new ScriptedModel([]), {
      injection: [unlock({ after: 'read', tools: ['probe__write'] })],
    });
    const listed = await loop.list({ actor: { id: 'alice' }, tenant: 'acme' });
    expect(listed.map(({ id }) => id)).not.toContain('probe__write');
  });

  it('unlocks in the run of one tenant and not in that of another which runs at the same time', async () => {
    const strategy = unlock({ after: 'read', tools: ['probe__write'] });
    const models = {
      acme: new ScriptedModel([calls(read()), calls(read('b')), text('Done.')]),
      globex: new ScriptedModel([calls(find('x')), calls(find('y')), text('Done.')]),
    };
    const loop = await openShop(models.acme, { injection: [strategy] });
    await Promise.all(
      (['acme', 'globex'] as const).map((tenant) =>
        play(loop, ask({ tenant, model: models[tenant] })),
      ),
    );
    expect(models.acme.requests[2]?.toolIds).toContain('probe__write');
    expect(models.globex.requests[2]?.toolIds).not.toContain('probe__write');
  });

  it('gives once what several unlocks keep back, whichever is first', async () => {
    const strategies = [
      unlock({ after: 'read', tools: ['probe__write'] }),
      unlock({ after: 'send', tools: ['probe__write'] }),
    ];
    const model = new ScriptedModel([
      calls(call('probe__send', { key: 'a' })),
      calls(read()),
      text('Done.'),
    ]);
    const { events } = await play(await openShop(model), ask({ injection: strategies }));
    expect(eventsOf(events, 'tools-injected')).toMatchObject([
      { step: 1, tools: ['probe__write'] },
    ]);
  });

  it('keeps what it locks from a search through everything, whichever is named first', async () => {
    for (const injection of [
      [toolSearch(), unlock({ after: 'read', tools: ['probe__write'] })],
      [unlock({ after: 'read', tools: ['probe__write'] }), toolSearch()],
    ]) {
      const model = new ScriptedModel([
        calls(call('tools__search', { query: 'changes reads' })),
        text('Done.'),
      ]);
      const { result } = await play(await openShop(model), ask({ injection }));
      expect(result.injectedTools.map(({ id }) => id)).toEqual(['probe__read']);
    }
  });
});

describe('an unlock and a run that waits for a yes', () => {
  const policy: Policy = {
    allow: ['*'],
    flow: 'off',
    requireApproval: [{ tools: ['probe__send'] }],
  };
  const script = [
    calls(read()),
    calls(call('probe__send', { key: 'a' })),
    calls(write()),
    text('Done.'),
  ];

  it('are together again when it continues: the given tools are there, the removed ones are not', async () => {
    const model = new ScriptedModel(script);
    const module = await openModule(model, { policy });
    const loop: ToolLoopService = module.get(ToolLoopService);
    const request = ask({ injection: locked() });
    const { runId } = await loop.run(request);
    const approvals: PendingService = module.get(PendingService);
    const who = { actor: { id: 'alice' }, tenant: 'acme' };
    const [approval] = await approvals.list(who);
    await approvals.decide({ approvalId: approval?.approvalId ?? '', decision: 'approve' }, who);
    // Strategies are said anew, as all but the question is: of the first ones nothing is left.
    const result = await (await loop.resume(runId, { ...who, injection: locked() })).result;
    expect(result.toolCalls.at(-1)).toMatchObject({ id: 'probe__write', status: 'succeeded' });
    expect(model.requests[2]?.toolIds).not.toContain('crm__openCart');
  });
});

describe('an unlock that cannot work', () => {
  it.each<[string, UnlockOptions, RegExp]>([
    ['waits for nothing', { tools: ['a'] }, /has no trigger/],
    ['waits for no tool of an empty list', { after: [], tools: ['a'] }, /has no trigger/],
    ['changes nothing', { after: 'a' }, /changes nothing/],
  ])('%s is refused where it is written', (_, options, problem) => {
    expect(() => unlock(options)).toThrow(problem);
    expect(() => unlock(options)).toThrow(ConfigurationError);
  });

  it.each<[string, UnlockOptions]>([
    ['keeps back', { after: 'probe__read', tools: ['probe__wriet'] }],
    ['waits for', { after: 'probe__wriet', tools: ['probe__read'] }],
    ['removes', { after: 'probe__read', remove: ['probe__wriet'] }],
  ])('%s a tool that does not exist keeps the application from starting', async (_, options) => {
    const opening = openShop(new ScriptedModel([]), { injection: [unlock(options)] });
    await expect(opening).rejects.toThrow(
      /ToolLoopModule injection "unlock": No tool is named "probe__wriet"\.\n.*Did you mean "probe__write"/,
    );
  });

  it('names a tool that does not exist in a request keeps the run from starting', async () => {
    const loop = await openShop(new ScriptedModel([]));
    expect(() =>
      loop.open(ask({ injection: [unlock({ after: 'nothing', tools: ['probe__read'] })] })),
    ).toThrow(InvalidRequestError);
    expect(() =>
      loop.open(ask({ injection: [unlock({ after: 'probe__read', tools: ['nothing'] })] })),
    ).toThrow(InvalidRequestError);
  });

  it('throws in its predicate costs a warning, and nothing is unlocked', async () => {
    const { offered, events } = await playWith({ when: boom, tools: ['probe__write'] }, [
      calls(read()),
    ]);
    expect(offered[1]).not.toContain('probe__write');
    expect(eventsOf(events, 'warning')).toMatchObject([{ code: 'injection_failed' }]);
  });
});
