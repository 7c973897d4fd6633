import { describe, expect, it } from '@jest/globals';
import { Injectable, type Provider } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import {
  LlmTool,
  policies,
  subRunTool,
  tool,
  ToolLoopModule,
  type ToolLoopOptions,
  ToolLoopService,
  ToolProvider,
} from '@toolloop/core';
import { toolSearch } from '@toolloop/core/strategies';
import { ScriptedModel } from '@toolloop/testing';
import { Expose } from 'class-transformer';

const basics = { description: 'Does it.', effect: 'read_only', reveal: 'all' } as const;
/** As a JavaScript user would write it. */
const wrong = (option: object): never => option as never;

@Injectable()
@ToolProvider({ namespace: 'desk' })
class DeskTools {
  @LlmTool(basics)
  look(): string {
    return 'looked';
  }
}

@ToolProvider(wrong({ namespce: 'bad' }))
class Misnamed {
  @LlmTool(basics)
  look(): string {
    return '';
  }
}

@ToolProvider({ namespace: 'methods' })
class Methods {
  @LlmTool(wrong({ ...basics, timeout: 30 }))
  look(): string {
    return '';
  }
}

@ToolProvider(wrong({ prefix: 'thing', instanceId: 'id' }))
class Thing {
  @Expose() readonly id = '1';
  @LlmTool(basics)
  look(): string {
    return '';
  }
}

interface Declared {
  readonly root?: object;
  readonly feature?: object;
  readonly providers?: readonly Provider[];
}

async function start({
  root = {},
  feature = {},
  providers = [],
}: Declared): Promise<ToolLoopService> {
  const options = {
    model: new ScriptedModel([]),
    policy: policies.allowAll,
    ...root,
  } as ToolLoopOptions;
  const module = await Test.createTestingModule({
    imports: [ToolLoopModule.forRoot(options), ToolLoopModule.forFeature(feature)],
    providers: [DeskTools, ...providers],
  }).compile();
  module.useLogger(false);
  await module.init();
  return module.get(ToolLoopService);
}

const raw = tool(wrong({ ...basics, id: 'raw', timeout: 5, execute: () => 1 }));
const inner = subRunTool(
  wrong({ id: 'inner', description: 'Runs.', tools: ['desk__*'], instruction: 'Be brief.' }),
);

describe('an option that does not exist', () => {
  it.each<[string, Declared, string, string]>([
    [
      'forRoot',
      { root: { instuctions: 'x' } },
      'ToolLoopModule: There is no option "instuctions"',
      '"instructions"',
    ],
    [
      'forFeature',
      { feature: { entites: [] } },
      'ToolLoopModule.forFeature: There is no option "entites"',
      '"entities"',
    ],
    [
      'a loop',
      { feature: { loops: { a: { instruction: 'x' } } } },
      'loop "a": There is no option "instruction"',
      '"instructions"',
    ],
    [
      'a provider',
      { providers: [Misnamed] },
      'Misnamed: There is no option "namespce"',
      '"namespace"',
    ],
    [
      'a method',
      { providers: [Methods] },
      'Methods.look: There is no option "timeout"',
      '"timeoutMs"',
    ],
    [
      'an entity',
      { feature: { entities: [Thing] } },
      'Thing: There is no option "instanceId"',
      'instanceIdProperty',
    ],
    [
      'a raw tool',
      { root: { tools: [raw] } },
      'tool raw: There is no option "timeout"',
      '"timeoutMs"',
    ],
    [
      'a sub-run',
      { root: { tools: [inner] } },
      'sub-run inner: There is no option "instruction"',
      '"instructions"',
    ],
  ])(
    'keeps, in %s, the application from starting, with the closest one',
    async (_, declared, problem, remedy) => {
      const error: unknown = await start(declared).catch((thrown: unknown) => thrown);
      expect(String(error)).toContain(problem);
      expect(String(error)).toContain(remedy);
    },
  );

  it('keeps the run from starting when it is in a request', async () => {
    const loop = await start({});
    const request = wrong({ prompt: 'Go.', actor: { id: 'a' }, tenant: 't', limit: { steps: 1 } });
    expect(() => loop.open(request)).toThrow('Did you mean "limits"?');
    expect(() =>
      loop.open(wrong({ prompt: 'Go.', actor: { id: 'a' }, tenant: 't', toolChoice: 'requird' })),
    ).toThrow('Did you mean "required"?');
  });

  it('is none of those that the module takes beside the loop', async () => {
    await expect(
      start({ root: { providers: [], imports: [] }, feature: { imports: [] } }),
    ).resolves.toBeInstanceOf(ToolLoopService);
  });
});

describe('a name that people choose from', () => {
  const unseen = String.raw`"small\u{202e}"`;

  it.each<[string, string, string]>([
    ['empty', '', '""'],
    ['blank', ' ', '" "'],
    ['longer than a request may name', 'x'.repeat(201), `"${'x'.repeat(64)}"`],
    ['with a character that is not seen', 'small\u202e', unseen],
    ['only a filler of no width', '\u3164', String.raw`"\u{3164}"`],
  ])('keeps the application from starting where it is %s', async (_what, name, shown) => {
    const root = {
      models: { [name]: new ScriptedModel([]) },
      candidates: { [name]: { version: '2', allow: [] } },
    };
    const feature = { loops: { [name]: {} } };
    const error = await start({ root, feature }).catch((thrown: unknown) => thrown);
    for (const option of [
      'ToolLoopModule: A name in "models"',
      'ToolLoopModule: A name in "candidates"',
      'ToolLoopModule.forFeature: A name in "loops"',
    ])
      expect(String(error)).toContain(`${option} is ${shown}.`);
    expect(String(error)).toContain(
      'Give a text of 1 to 200 characters in one line, without invisible ones.',
    );
  });

  it('may have 200 characters, and an emoji of several', async () => {
    await expect(
      start({
        root: { models: { ['x'.repeat(200)]: new ScriptedModel([]), '❤️': new ScriptedModel([]) } },
      }),
    ).resolves.toBeDefined();
  });
});

describe('a tool search that no policy allows', () => {
  const search = [toolSearch()];
  const narrow = { allow: ['desk__*'] };
  const problem = 'Its policy does not allow "tools__search"';

  it.each<[string, Declared]>([
    ['of the application', { root: { injection: search, policy: narrow } }],
    [
      'of a loop, under the policy of the application',
      { root: { policy: narrow }, feature: { loops: { a: { injection: search } } } },
    ],
    [
      'of the application, under the policy of a loop',
      { root: { injection: search }, feature: { loops: { a: { policy: narrow } } } },
    ],
  ])('%s keeps the application from starting', async (_, declared) => {
    await expect(start(declared)).rejects.toThrow(problem);
  });

  it('is one that an actor may use, where a role allows it', async () => {
    const policy = { ...narrow, roles: { staff: { allow: ['tools__*'] } } };
    await expect(start({ root: { injection: search, policy } })).resolves.toBeInstanceOf(
      ToolLoopService,
    );
  });
});
