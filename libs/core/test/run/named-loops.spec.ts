import { describe, expect, it } from '@jest/globals';
import { Injectable, Module, Scope, type DynamicModule, type ModuleMetadata } from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import {
  InjectToolLoop,
  type LoopProfile,
  type LoopRequest,
  policies,
  ToolLoopModule,
  type ToolLoopOptions,
  ToolLoopService,
  toolLoopToken,
} from '@toolloop/core';
import { ScriptedModel, call, calls, text } from '@toolloop/testing';
import { play, resultsIn } from '../fixtures/played-run.js';
import { ProbeTools } from '../fixtures/probe.tools.js';
import { CrmTools, Customer } from '../fixtures/shop.js';
import { ask } from '../fixtures/shop.module.js';

@Injectable()
class Desk {
  constructor(
    @InjectToolLoop('support') readonly support: ToolLoopService,
    @InjectToolLoop('books') readonly books: ToolLoopService,
    readonly whole: ToolLoopService,
  ) {}
}

const SUPPORT: LoopProfile = { policy: { version: 'support', allow: ['crm__*', 'customer_*_*'] } };
const BOOKS: LoopProfile = { policy: { version: 'books', allow: ['probe__*'] } };

interface Opened {
  readonly support?: LoopProfile;
  readonly books?: LoopProfile;
  readonly options?: Partial<ToolLoopOptions>;
}

function rootOf(options: Partial<ToolLoopOptions> = {}): DynamicModule {
  return ToolLoopModule.forRoot({
    model: new ScriptedModel([]),
    policy: policies.allowAll,
    ...options,
  });
}

async function start(metadata: ModuleMetadata): Promise<TestingModule> {
  const app = await Test.createTestingModule(metadata).compile();
  app.useLogger(false);
  return app.init();
}

async function openDesk({ support = SUPPORT, books = BOOKS, options }: Opened = {}): Promise<Desk> {
  const imports = [rootOf(options), ToolLoopModule.forFeature({ loops: { support, books } })];
  return (await start({ imports, providers: [CrmTools, ProbeTools, Desk] })).get(Desk);
}

const idsOf = async (
  loop: ToolLoopService,
  request: Partial<LoopRequest> = {},
): Promise<string[]> => (await loop.list(ask(request))).map(({ id }) => id);
const findsAda = calls(call('crm__searchCustomers', { name: 'Ada' }));
const asksFor = (name: string): ScriptedModel =>
  new ScriptedModel([
    calls(call('crm__searchCustomers', { name })),
    calls(call('customer_c-1_getAverageSpend')),
    text('Done.'),
  ]);
const CRM = ['crm__searchCustomers', 'crm__openCart', 'crm__sendMail'];

describe('a named loop', () => {
  it('offers what its own policy allows, and the application its own', async () => {
    const { support, books, whole } = await openDesk();
    expect(await idsOf(support)).toEqual(CRM);
    expect(await idsOf(books)).toContain('probe__write');
    expect(await idsOf(books)).not.toContain('crm__openCart');
    expect(await idsOf(whole)).toEqual(expect.arrayContaining([...CRM, 'probe__write']));
  });

  it('has its own model and instructions, of which the run may choose others', async () => {
    const models = {
      small: new ScriptedModel([text('small')]),
      own: new ScriptedModel([text('own'), text('own again')]),
    };
    const model = new ScriptedModel([text('whole')]);
    const options = { model, models: { small: models.small }, instructions: 'Be kind.' };
    const desk = await openDesk({
      support: { ...SUPPORT, model: models.own, instructions: ({ tenant }) => `Help ${tenant}.` },
      books: { ...BOOKS, model: 'small' },
      options,
    });
    const texts = [];
    for (const loop of [desk.support, desk.books, desk.whole])
      texts.push((await play(loop, ask())).result.text);
    expect(texts).toEqual(['own', 'small', 'whole']);
    await play(desk.books, ask({ model: models.own, instructions: 'Be brief.' }));
    expect(models.own.requests.map(({ instructions }) => instructions)).toEqual([
      'Help acme.',
      'Be brief.',
    ]);
    expect(
      [...models.small.requests, ...model.requests].map(({ instructions }) => instructions),
    ).toEqual(['Be kind.', 'Be kind.']);
  });

  it('keeps its default where the run says undefined', async () => {
    const model = new ScriptedModel([calls(call('probe__read', 'no json')), text('never')]);
    const desk = await openDesk({
      books: { ...BOOKS, onToolError: 'halt', instructions: 'Count.' },
      options: { model },
    });
    const request = {
      ...ask(),
      onToolError: undefined,
      instructions: undefined,
    } as unknown as LoopRequest;
    expect((await play(desk.books, request)).result.finishReason).toBe('tool_error');
    expect(model.requests.map(({ instructions }) => instructions)).toEqual(['Count.']);
  });

  it('merges limits and execution option by option: application, loop, run', async () => {
    const [one, other] = [
      calls(call('probe__read', { key: 'a' })),
      calls(call('probe__read', { key: 'b' })),
    ];
    const model = new ScriptedModel([one, one, other, one]);
    const desk = await openDesk({
      books: {
        ...BOOKS,
        limits: { callsPerTool: 1, steps: 1 },
        execution: { resultFormat: 'envelope' },
      },
      options: { model, limits: { steps: 9, callsPerTool: 9 } },
    });
    const outcomes = [];
    for (const request of [
      {},
      { limits: { steps: 5 }, execution: { logging: false } },
      { execution: { resultFormat: 'value' } },
    ] as const) {
      const { result } = await play(desk.books, ask(request));
      outcomes.push([result.finishReason, resultsIn(result.messages)[0]]);
    }
    const envelope = '{"ok":true,"type":"probe__read","result":"a"}';
    expect(outcomes).toEqual([
      ['max_steps', envelope],
      ['max_calls', envelope],
      ['max_steps', 'a'],
    ]);
  });
});

/** Declared ids of what comes with a customer in a support loop. */
async function injected(
  support: LoopProfile,
  request: Partial<LoopRequest> = {},
): Promise<string[]> {
  const desk = await openDesk({
    support,
    options: { model: new ScriptedModel([findsAda, text('Done.')]) },
  });
  return (await play(desk.support, ask(request))).result.injectedTools.map(
    ({ declaredId }) => declaredId,
  );
}

describe('a run of a named loop', () => {
  it.each<[string, Partial<LoopRequest>, string[]]>([
    ['nothing', {}, ['crm__searchCustomers', 'crm__sendMail']],
    ['a wider policy', { policy: policies.allowAll }, ['crm__searchCustomers', 'crm__sendMail']],
    ['wider tools', { tools: ['*'] }, ['crm__searchCustomers', 'crm__sendMail']],
    ['other tools', { tools: ['probe__*', ProbeTools, 'openCart'] }, []],
    ['no exclusions', { exclude: [] }, ['crm__searchCustomers', 'crm__sendMail']],
    ['its own selection', { tools: ['searchCustomers'] }, ['crm__searchCustomers']],
    [
      'its own exclusions',
      { exclude: [({ effect }) => effect === 'external_side_effect'] },
      ['crm__searchCustomers'],
    ],
    ['a narrower policy', { policy: policies.readOnly }, ['crm__searchCustomers']],
  ])("never widens the loop's tools when it brings %s", async (_, request, ids) => {
    const { support } = await openDesk({
      support: { ...SUPPORT, tools: ['crm__*', 'probe__read'], exclude: ['crm__openCart'] },
    });
    expect(await idsOf(support, request)).toEqual(ids);
  });

  it('is decided by the narrowest policy of application, loop and run', async () => {
    const model = new ScriptedModel([findsAda, text('Done.')]);
    const desk = await openDesk({ options: { model, policy: { version: 'whole', allow: ['*'] } } });
    const { result } = await play(
      desk.support,
      ask({ policy: { version: 'run', allow: ['crm__*'] } }),
    );
    expect(result.toolCalls[0]?.decision).toMatchObject({ kind: 'allow', policyVersion: 'run' });
  });

  it('has no tools where the application has no policy, whatever the loop allows', async () => {
    const imports = [
      ToolLoopModule.forRoot({ model: new ScriptedModel([]) }),
      ToolLoopModule.forFeature({ loops: { support: SUPPORT, books: BOOKS } }),
    ];
    const { support } = (await start({ imports, providers: [CrmTools, ProbeTools, Desk] })).get(
      Desk,
    );
    expect(await idsOf(support, { policy: policies.allowAll })).toEqual([]);
  });

  it('is denied a tool of the other loop, in words that reveal nothing', async () => {
    const model = new ScriptedModel([
      calls(call('probe__write', { key: 'a' })),
      calls(call('probe__wrote', { key: 'a' })),
      text('Done.'),
    ]);
    let written = 0;
    const act = () => (written += 1);
    const desk = await openDesk({ options: { model } });
    const { events, result } = await play(
      desk.support,
      ask({ context: { act }, policy: policies.allowAll, tools: ['*'] }),
    );
    expect(written).toBe(0);
    expect(
      result.toolCalls.map(({ status, error, decision }) => [
        status,
        error?.code,
        decision?.policyVersion,
      ]),
    ).toEqual([
      ['denied', 'policy_denied', 'support'],
      ['failed', 'unknown_tool', undefined],
    ]);
    const [denied = '', unknown = ''] = resultsIn(result.messages);
    expect(denied.replace('probe__write', '')).toBe(unknown.replace('probe__wrote', ''));
    expect(events.some(({ type }) => type === 'tool-start')).toBe(false);
  });

  it('injects nothing that its loop denies or excludes, nor anything at all where the loop turns injection off', async () => {
    const both = ['customer_*_getAverageSpend', 'customer_*_getRecentOrders'];
    expect(await injected(SUPPORT)).toEqual(both);
    expect(
      await injected({ policy: { allow: ['crm__*'] } }, { policy: policies.allowAll }),
    ).toEqual([]);
    expect(
      await injected({ ...SUPPORT, exclude: ['customer_*_getAverageSpend'] }, { exclude: [] }),
    ).toEqual([both[1]]);
    expect(
      await injected({ ...SUPPORT, exclude: [Customer] }, { exclude: ['probe__read'] }),
    ).toEqual([]);
    expect(await injected({ ...SUPPORT, injection: false }, { injection: [] })).toEqual([]);
  });

  it('asks the strategies of application, loop and run, in this order', async () => {
    const asked: string[] = [];
    const strategy = (name: string) => ({
      name,
      evaluate: () => {
        asked.push(name);
        return { add: [] };
      },
    });
    const model = new ScriptedModel([calls(call('crm__openCart', { id: 'a' })), text('Done.')]);
    const desk = await openDesk({
      support: { ...SUPPORT, injection: [strategy('loop')] },
      options: { model, injection: [strategy('application')] },
    });
    await play(desk.support, ask({ injection: [strategy('run')] }));
    expect(asked).toEqual(['application', 'loop', 'run']);
  });
});

describe('two tenants in two named loops at once', () => {
  it('never see each other', async () => {
    const [support, books] = [asksFor('Ada'), asksFor('Bob')];
    const desk = await openDesk({
      support: { ...SUPPORT, model: support },
      books: { ...SUPPORT, model: books },
    });
    const runs = await Promise.all([
      play(desk.support, ask({ tenant: 'acme' })),
      play(desk.books, ask({ tenant: 'globex', actor: { id: 'bob' } })),
    ]);
    expect(runs.map(({ result }) => result.toolCalls[1]?.result)).toEqual([
      'acme:c-1:Ada',
      'globex:c-1:Bob',
    ]);
    expect(JSON.stringify(runs[0])).not.toMatch(/globex|Bob/);
  });
});

describe('a conversation', () => {
  it('continues in another loop, for the same tenant and actor only', async () => {
    const [support, books] = [
      new ScriptedModel([text('I am support.')]),
      new ScriptedModel([text('A.'), text('B.'), text('C.')]),
    ];
    const desk = await openDesk({
      support: { ...SUPPORT, model: support },
      books: { ...BOOKS, model: books },
    });
    const request = { conversationId: 'c1', prompt: 'And now?' };
    await play(desk.support, ask({ ...request, prompt: 'Hello.' }));
    await play(desk.books, ask(request));
    await play(desk.books, ask({ ...request, actor: { id: 'bob' } }));
    await play(desk.books, ask({ ...request, tenant: 'globex' }));
    const seen = books.requests.map(({ messages }) => messages.map(({ content }) => content));
    expect(seen).toEqual([['Hello.', 'I am support.', 'And now?'], ['And now?'], ['And now?']]);
  });
});

describe('the provider of a named loop', () => {
  @Module({ imports: [ToolLoopModule.forFeature({ loops: { support: SUPPORT } })] })
  class SupportModule {}

  @Module({
    imports: [ToolLoopModule.forFeature({ loops: { books: BOOKS } })],
    providers: [ProbeTools],
  })
  class BooksModule {}

  @Module({ providers: [CrmTools, Desk] })
  class DeskModule {}

  const root = rootOf();
  it.each([
    ['before the features', [root, SupportModule, BooksModule, DeskModule]],
    ['behind them', [DeskModule, BooksModule, SupportModule, root]],
    ['between them', [SupportModule, root, DeskModule, BooksModule]],
  ])('is found in every module, forRoot %s', async (_, imports) => {
    const app = await start({ imports });
    const { support } = app.get(Desk, { strict: false });
    expect(support).toBe(app.get(toolLoopToken('support'), { strict: false }));
    expect(await idsOf(support)).toEqual(CRM);
  });

  it('can be replaced in a test', async () => {
    const fake = { run: () => 'faked' };
    const app = await Test.createTestingModule({
      imports: [root, SupportModule, BooksModule, DeskModule],
    })
      .overrideProvider(toolLoopToken('support'))
      .useValue(fake)
      .compile();
    await app.init();
    const { support, books } = app.get(Desk, { strict: false });
    expect(support).toBe(fake);
    expect(books).toBeInstanceOf(ToolLoopService);
  });

  it('stays itself where the application is replaced in a test', async () => {
    const app = await Test.createTestingModule({
      imports: [root, SupportModule, BooksModule, DeskModule],
    })
      .overrideProvider(ToolLoopService)
      .useValue({})
      .compile();
    await app.init();
    expect(await idsOf(app.get(Desk, { strict: false }).support)).toEqual(CRM);
  });

  it('is injected into request-scoped consumers, where it is the same for every request', async () => {
    @Injectable({ scope: Scope.REQUEST })
    class Request {
      @InjectToolLoop('support') readonly loop!: ToolLoopService;
    }
    const app = await start({ imports: [root, SupportModule], providers: [Request, CrmTools] });
    const [one, other] = [await app.resolve(Request), await app.resolve(Request)];
    expect(one).not.toBe(other);
    expect(one.loop).toBe(other.loop);
    expect(await idsOf(one.loop)).toEqual(CRM);
  });

  it('is missed by an error that says where to declare it', async () => {
    @Injectable()
    class Lost {
      constructor(@InjectToolLoop('suport') readonly loop: ToolLoopService) {}
    }
    const compiling = Test.createTestingModule({
      imports: [root, SupportModule],
      providers: [Lost],
    }).compile();
    await expect(compiling).rejects.toThrow(
      'loop "suport" of ToolLoopModule.forFeature({ loops: { … } })',
    );
  });
});
