import { describe, expect, it } from '@jest/globals';
import { Inject, Injectable, Logger, Scope } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import type { JSONSchema7 } from 'json-schema';
import { IsInt, IsString, Min } from 'class-validator';
import {
  calledTool,
  ConfigurationError,
  rawTool,
  type RawTool,
  tool,
  ToolCatalog,
  ToolLoopModule,
  type ToolLoopOptions,
  ToolLoopService,
} from '@toolloop/core';
import { type RawToolDeclaration, type ToolSelection } from '@toolloop/core/catalog';
import { Bench } from '../call/bench.js';
import { ScriptedModel, call, calls, text } from '@toolloop/testing';

class GreetInput {
  @IsString() name!: string;
  @IsInt() @Min(1) times: number = 1;
}

/** Needs nothing of ours. */
class Shout {
  constructor(private readonly options: { readonly mark?: string } = {}) {}

  call({ word }: { readonly word: string }): string {
    return `${word.toUpperCase()}${this.options.mark ?? '!'}`;
  }
}

const WORD: JSONSchema7 = {
  type: 'object',
  properties: { word: { type: 'string' } },
  required: ['word'],
};

const shout = rawTool(Shout, {
  as: 'voice__shout',
  description: 'Say a word loudly.',
  effect: 'read_only',
  reveal: 'all',
  input: WORD,
  options: { mark: '?!' },
});

const greet = tool<GreetInput>({
  id: 'voice__greet',
  description: 'Greet somebody.',
  effect: 'read_only',
  input: GreetInput,
  reveal: 'all',
  execute: (input, context) =>
    `${context.tenant}: ${'hello '.repeat(input.times)}${input.name} (${input instanceof GreetInput})`,
});

async function answerOf(tools: readonly RawTool[], name: string, args: object): Promise<unknown> {
  const model = new ScriptedModel([calls(call(name, { ...args })), text('done')]);
  const app = await Test.createTestingModule({
    imports: [ToolLoopModule.forRoot({ model, tools, policy: { allow: ['*'] } })],
  }).compile();
  await app.init();
  const { toolCalls } = await app
    .get(ToolLoopService)
    .run({ prompt: 'Go.', actor: { id: 'a' }, tenant: 'acme' });
  return toolCalls[0]?.result ?? toolCalls[0]?.error?.code;
}

async function findingsOf(
  tools: readonly RawTool[],
  options: Partial<ToolLoopOptions> = {},
): Promise<unknown> {
  Logger.overrideLogger(false);
  const app = await Test.createTestingModule({
    imports: [ToolLoopModule.forRoot({ model: new ScriptedModel([]), tools, ...options })],
  }).compile();
  return app.init().then(
    () => [],
    (error: unknown) =>
      error instanceof ConfigurationError
        ? error.findings.map(({ at, problem }) => `${at}: ${problem}`)
        : error,
  );
}

describe('a raw tool', () => {
  it('receives its DTO and the context when it is made of a function', async () => {
    expect(await answerOf([greet], 'voice__greet', { name: 'Ada', times: 2 })).toBe(
      'acme: hello hello Ada (true)',
    );
  });

  it('receives its options once and its arguments each time when it is made of a class that has only `call`', async () => {
    expect(await answerOf([shout], 'voice__shout', { word: 'fire' })).toBe('FIRE?!');
  });

  it('is validated as any tool is', async () => {
    expect(await answerOf([shout], 'voice__shout', { word: 3 })).toBe('invalid_args');
    expect(await answerOf([shout], 'voice__shout', { word: 'a', tenant: 'globex' })).toBe(
      'tenant_override',
    );
    expect(await answerOf([shout], 'voice__shout', { word: 'a', other: 1 })).toBe('invalid_args');
  });

  it('is selected by its class, its id and its short name', async () => {
    const app = await Test.createTestingModule({
      imports: [ToolLoopModule.forRoot({ model: new ScriptedModel([]), tools: [shout, greet] })],
    }).compile();
    await app.init();
    const catalog = app.get(ToolCatalog);
    const ids = (selector: string | typeof Shout): string[] =>
      catalog.build({ tools: [selector] }).map(({ spec }) => spec.id);
    expect(ids(Shout)).toEqual(['voice__shout']);
    expect(ids('greet')).toEqual(['voice__greet']);
    expect(ids('voice__*')).toEqual(['voice__shout', 'voice__greet']);
  });

  it('is made of an instance as well', async () => {
    const made = rawTool(new Shout({ mark: '…' }), {
      as: 'voice__shout',
      description: 'x',
      effect: 'read_only',
      reveal: 'all',
      input: WORD,
    });
    expect(await answerOf([made], 'voice__shout', { word: 'fire' })).toBe('FIRE…');
    expect(made.type).toBe(Shout);
  });

  describe('of a class of which Nest makes the instance', () => {
    @Injectable()
    class Stock {
      readonly left = 3;
    }

    class StockSearch {
      static readonly tool: RawToolDeclaration = {
        id: 'stock__left',
        description: 'x',
        effect: 'read_only',
        reveal: 'all',
      };
      static readonly shortName: string = 'stock';
      static made = 0;

      constructor(
        readonly stock: Stock,
        readonly unit: string,
      ) {
        StockSearch.made += 1;
      }

      call(): string {
        return `${this.stock.left} ${this.unit}`;
      }
    }
    Injectable()(StockSearch);
    Inject(Stock)(StockSearch, undefined, 0);
    Inject('UNIT')(StockSearch, undefined, 1);
    const UNIT = { provide: 'UNIT', useValue: 'pieces' };

    it('has its dependencies from Nest', async () => {
      const bench = await Bench.start({
        options: { tools: [rawTool(StockSearch)] },
        providers: [Stock, StockSearch, UNIT],
      });
      expect((await bench.run().exec('stock__left')).content).toBe('3 pieces');
    });

    it('is made once per run where it is request-scoped', async () => {
      const scoped = {
        provide: StockSearch,
        scope: Scope.REQUEST,
        useFactory: () => new StockSearch(new Stock(), 'boxes'),
      };
      const bench = await Bench.start({
        options: { tools: [rawTool(StockSearch)] },
        providers: [scoped],
      });
      const before = StockSearch.made;
      const run = bench.run();
      expect([
        (await run.exec('stock__left')).content,
        (await run.exec('stock__left')).content,
      ]).toEqual(['3 boxes', '3 boxes']);
      expect((await bench.run().exec('stock__left')).content).toBe('3 boxes');
      expect(StockSearch.made - before).toBe(2);
    });

    it('stops the application where no module provides it, or it has no `call`', async () => {
      expect(await findingsOf([rawTool(StockSearch)])).toEqual([
        'StockSearch: It is marked @Injectable(), and no module provides it.',
      ]);
      const posing = { provide: StockSearch, useValue: {} };
      await expect(
        Bench.start({ options: { tools: [rawTool(StockSearch)] }, providers: [posing] }),
      ).rejects.toThrow('StockSearch: It has no method "call", which a raw tool needs.');
    });
  });

  it('is found by the short name of its class in selections, and by nothing else', async () => {
    class Loud extends Shout {
      static readonly shortName: string = 'loudly';
    }
    const says = { description: 'x', effect: 'read_only', reveal: 'all', input: WORD } as const;
    const one = rawTool(Loud, { ...says, as: 'voice__loud' });
    const bench = await Bench.start({ options: { tools: [one, greet] } });
    const ids = (selection: ToolSelection): string[] =>
      bench.catalog.build(selection).map(({ spec }) => spec.id);
    expect(ids({ tools: ['loudly'] })).toEqual(['voice__loud']);
    expect(ids({ exclude: ['loudly'] })).toEqual(['voice__greet']);
    expect(bench.catalog.resolve('loudly').spec.id).toBe('voice__loud');
    const twice = await Bench.start({
      options: { tools: [one, rawTool(Loud, { ...says, as: 'voice__louder' })] },
    });
    expect(() => twice.catalog.resolve('loudly')).toThrow(
      '"loudly" is short for voice__loud and voice__louder.',
    );
    const stopWhen = [calledTool('loudly')];
    expect(await findingsOf([one], { stopWhen })).toEqual([
      'ToolLoopModule stopWhen: "loudly" is a short name, which records of calls do not have.',
    ]);
  });

  it('stops the application when its declaration is incomplete', async () => {
    const findings = await findingsOf([
      rawTool(Shout),
      rawTool(Shout, { as: 'not an id', description: 'x', effect: 'read_only', reveal: 'all' }),
    ]);
    expect(findings).toEqual([
      'Shout: The tool has no description.',
      'Shout: The tool declares no effect.',
      'Shout: The tool does not say which data may leave it.',
      'Shout: "" is not a tool id that every model provider accepts.',
      'Shout: "not an id" is not a tool id that every model provider accepts.',
    ]);
  });

  it('comes with a feature as well', async () => {
    const model = new ScriptedModel([]);
    const app = await Test.createTestingModule({
      imports: [ToolLoopModule.forRoot({ model }), ToolLoopModule.forFeature({ tools: [shout] })],
    }).compile();
    await app.init();
    expect(
      app
        .get(ToolCatalog)
        .list()
        .map(({ id }) => id),
    ).toEqual(['voice__shout']);
  });
});
