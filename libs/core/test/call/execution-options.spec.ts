import { describe, expect, it } from '@jest/globals';
import { Injectable, type Type } from '@nestjs/common';
import {
  ConfigurationError,
  type ExecutionOptions,
  LlmTool,
  rawTool,
  tool,
  type Tool,
  type ToolExecutionOptions,
  ToolInput,
  ToolLoopService,
  ToolProvider,
  ToolSource,
} from '@toolloop/core';
import { ScriptedModel, call, calls, text } from '@toolloop/testing';
import { Expose } from 'class-transformer';
import {
  IsInt,
  IsOptional,
  IsString,
  Matches,
  MaxLength,
  Validate,
  ValidatorConstraint,
} from 'class-validator';
import { DEFAULT_EXECUTION } from '../../src/contracts/execution-options.js';
import { ExecutionRules } from '../../src/call/execution-rules.js';
import { findingsOf, start } from '../tools/application.js';
import { toolOf } from '../tools/tools.js';
import { Bench, errorOf } from './bench.js';

@ValidatorConstraint({ name: 'isEven' })
class IsEven {
  validate(value: unknown): boolean {
    return typeof value === 'number' && value % 2 === 0;
  }
}

class Input {
  @IsOptional() @IsString() @MaxLength(3) @Matches(/^a/) name?: string;
  @IsOptional() @IsInt() @Validate(IsEven) count?: number = 2;
}

interface Levels {
  readonly app?: Partial<ExecutionOptions>;
  readonly provider?: ToolExecutionOptions;
  readonly tool?: ToolExecutionOptions;
  readonly run?: Partial<ExecutionOptions>;
}

function providerOf({ provider, tool: own }: Levels): Type {
  @Injectable()
  @ToolProvider({ namespace: 'demo', ...(provider && { execution: provider }) })
  class DemoTools {
    @LlmTool({
      description: 'Echoes.',
      effect: 'read_only',
      reveal: 'all',
      ...(own && { execution: own }),
    })
    echo(@ToolInput() input: Input): unknown {
      return Object.assign({ isInput: input instanceof Input }, input);
    }
  }
  return DemoTools;
}

async function contentOf(levels: Levels, args: unknown = {}): Promise<string> {
  const bench = await Bench.start({
    providers: [providerOf(levels)],
    options: { ...(levels.app && { execution: levels.app }) },
  });
  const { content } = await bench
    .run({ ...(levels.run && { execution: levels.run }) })
    .exec('demo__echo', args);
  return content;
}

const envelope = { resultFormat: 'envelope' } as const;
const value = { resultFormat: 'value' } as const;

describe('execution options', () => {
  it.each<[string, Levels, boolean]>([
    ['no one', {}, false],
    ['the application', { app: envelope }, true],
    ['a provider', { provider: envelope }, true],
    ['a tool', { tool: envelope }, true],
    ['a run', { run: envelope }, true],
    ['a provider, against the application', { app: envelope, provider: value }, false],
    ['a tool, against its provider', { provider: value, tool: envelope }, true],
    [
      'a run, against all others',
      { app: envelope, provider: envelope, tool: envelope, run: value },
      false,
    ],
    [
      'the application, where others leave it undefined',
      { app: envelope, tool: { resultFormat: undefined }, run: { resultFormat: undefined } },
      true,
    ],
  ])('are said by %s', async (_, levels, isEnvelope) => {
    expect((await contentOf(levels)).startsWith('{"ok":true,"type":"demo__echo"')).toBe(isEnvelope);
  });

  it.each<[keyof ExecutionOptions, ExecutionOptions[keyof ExecutionOptions]]>([
    ['validation', false],
    ['logging', false],
    ['logArguments', true],
    ['truncateLogs', 5],
    ['metadata', 'inline'],
    ['resultFormat', 'envelope'],
  ])('have %s at every level', (name, other) => {
    const own: Partial<ExecutionOptions> = { [name]: other };
    const back: Partial<ExecutionOptions> = { [name]: DEFAULT_EXECUTION[name] };
    const all = { ...DEFAULT_EXECUTION, ...own };
    expect(new ExecutionRules().optionsFor(undefined, undefined)).toEqual(DEFAULT_EXECUTION);
    expect(new ExecutionRules(own).optionsFor(undefined, undefined)).toEqual(all);
    expect(new ExecutionRules().optionsFor({ execution: own }, undefined)).toEqual(
      expect.objectContaining(own),
    );
    expect(new ExecutionRules(back).optionsFor({ execution: back }, own)).toEqual(
      expect.objectContaining(own),
    );
    expect(new ExecutionRules(own).optionsFor({ execution: back }, undefined)).toEqual(
      expect.objectContaining(back),
    );
  });

  it('are merged once for a tool', () => {
    const rules = new ExecutionRules();
    const execution = { logging: false };
    expect(rules.optionsFor({ execution }, undefined)).toBe(
      rules.optionsFor({ execution }, undefined),
    );
  });

  it('hold for raw tools, and for those of a source', async () => {
    const declared = {
      description: 'Answers.',
      effect: 'read_only',
      reveal: 'all',
      execution: envelope,
    } as const;
    class Answer {
      call(): number {
        return 1;
      }
    }
    class Source extends ToolSource {
      readonly origin = { source: 'remote', trusted: true };
      override tools(): readonly Tool[] {
        return [
          {
            ...toolOf({ id: 'remote__run', origin: this.origin, invoke: () => 1 }),
            execution: envelope,
          },
        ];
      }
    }
    const raw = [
      tool({ id: 'raw__fn', ...declared, execute: () => 1 }),
      rawTool(Answer, { as: 'raw__class', ...declared }),
    ];
    const run = (await Bench.start({ providers: [Source], options: { tools: raw } })).run();
    for (const id of ['raw__fn', 'raw__class', 'remote__run'])
      expect((await run.exec(id)).content).toBe(`{"ok":true,"type":"${id}","result":1}`);
  });

  it('hold for the tools of an entity, of its class and of one method', async () => {
    @ToolProvider({ prefix: 'box', execution: envelope })
    class Box {
      @Expose() id = 'b1';
      @LlmTool({ description: 'Opens.', effect: 'read_only', reveal: 'all' }) open(): string {
        return 'opened';
      }
      @LlmTool({ description: 'Weighs.', effect: 'read_only', reveal: 'all', execution: value })
      weigh(): number {
        return 4;
      }
    }
    @Injectable()
    @ToolProvider({ namespace: 'store' })
    class StoreTools {
      @LlmTool({ description: 'Finds.', effect: 'read_only', output: Box }) find(): Box {
        return new Box();
      }
    }
    const model = new ScriptedModel([
      calls(call('store__find', {})),
      calls(call('box_b1_open', {}), call('box_b1_weigh', {})),
      text('Done.'),
    ]);
    const module = await start({ providers: [StoreTools], options: { model } });
    const { messages } = await module
      .get(ToolLoopService)
      .run({ prompt: 'Go.', actor: { id: 'ada' }, tenant: 'acme' });
    const contents = messages.flatMap((message) =>
      message.role === 'tool' ? [message.content] : [],
    );
    expect(contents).toEqual([
      '{"id":"b1"}',
      '{"ok":true,"type":"box_*_open","result":"opened"}',
      '4',
    ]);
  });
});

describe('without validation', () => {
  const off = { validation: false };

  it.each<[string, unknown]>([
    ['the schema', { name: 'zebra' }],
    ['class-validator', { count: 3 }],
  ])('a tool receives what %s would refuse, as its class all the same', async (_, args) => {
    expect(await contentOf({}, args)).toContain('"invalid_args"');
    for (const levels of [{ app: off }, { provider: off }, { tool: off }, { run: off }])
      expect(JSON.parse(await contentOf(levels, args))).toEqual({
        isInput: true,
        count: 2,
        ...(args as object),
      });
  });

  it('defaults are filled in', async () => {
    const schema = { type: 'object', properties: { n: { type: 'integer', default: 7 } } } as const;
    const echo = tool({
      id: 'raw__echo',
      description: 'Echoes.',
      effect: 'read_only',
      reveal: 'all',
      input: schema,
      execution: off,
      execute: (input) => input,
    });
    const bench = await Bench.start({ options: { tools: [echo] } });
    expect((await bench.run().exec('raw__echo', { other: 'x' })).content).toBe(
      '{"n":7,"other":"x"}',
    );
  });

  it.each<[string, unknown, string]>([
    ['text that is no JSON', '{', 'invalid_json'],
    ['a list', [], 'invalid_args'],
    ['too much', { name: 'a'.repeat(10_000) }, 'invalid_args'],
    ['a reserved name', { name: 'a', tenant: 'other' }, 'tenant_override'],
  ])('%s is refused all the same', async (_, args, code) => {
    expect(errorOf({ content: await contentOf({ app: off }, args) } as never).code).toBe(code);
  });
});

describe('a tool that manages itself', () => {
  const all: Partial<ExecutionOptions> = {
    validation: true,
    logging: true,
    metadata: 'inline',
    resultFormat: 'envelope',
  };

  it.each<[string, Levels]>([
    ['by the tool', { tool: { selfManaged: true } }],
    ['by its provider', { provider: { selfManaged: true } }],
  ])('is neither checked nor worded, whatever others say: %s', async (_, levels) => {
    expect(
      JSON.parse(await contentOf({ app: all, run: all, ...levels }, { name: 'zebra' })),
    ).toEqual({
      isInput: true,
      count: 2,
      name: 'zebra',
    });
  });

  it('may be one tool less than its provider says', async () => {
    const levels = { app: envelope, provider: { selfManaged: true }, tool: { selfManaged: false } };
    expect(await contentOf(levels, { name: 'zebra' })).toContain('"ok":false');
  });
});

describe('an execution option that does not exist', () => {
  const odd = { loging: true } as Partial<ExecutionOptions>;
  const suggestion = {
    problem: 'There is no execution option "loging" here.',
    remedy: 'Did you mean "logging"?',
  };

  it.each<[string, Levels, string]>([
    ['the application', { app: odd }, 'ToolLoopModule execution'],
    ['a provider', { provider: odd }, 'DemoTools'],
    ['a tool', { tool: odd }, 'DemoTools.echo'],
  ])('is a finding: %s', async (_, levels, at) => {
    const declared = {
      providers: [providerOf(levels)],
      options: { ...(levels.app && { execution: levels.app }) },
    };
    expect(await findingsOf(declared)).toEqual([{ at, ...suggestion }]);
  });

  it.each<[string, object, string, string]>([
    [
      'a value',
      { metadata: 'inlined' },
      'The execution option "metadata" is "inlined".',
      'Did you mean "inline"?',
    ],
    [
      'another value',
      { metadata: 'outside' },
      'The execution option "metadata" is "outside".',
      "Give 'none' or 'inline'.",
    ],
    [
      'a number',
      { truncateLogs: -1 },
      'The execution option "truncateLogs" is -1.',
      'Give a number that is not negative.',
    ],
    [
      'what only tools say',
      { selfManaged: true },
      'There is no execution option "selfManaged" here.',
      'Say it where the tool is declared: on the tool or its provider.',
    ],
    [
      'nonsense',
      { wxyz: 1 },
      'There is no execution option "wxyz" here.',
      'There are: validation, logging, logArguments, truncateLogs, metadata, resultFormat, availableOperations.',
    ],
  ])('is told with a remedy: %s', async (_, execution, problem, remedy) => {
    expect(await findingsOf({ options: { execution } })).toEqual([
      { at: 'ToolLoopModule execution', problem, remedy },
    ]);
  });

  it('is a finding for an entity or a source, too', async () => {
    @ToolProvider({ prefix: 'box', execution: odd })
    class Box {
      @Expose() id = 'b1';
      @LlmTool({ description: 'Opens.', effect: 'read_only', reveal: [] }) open(): void {}
    }
    @Injectable()
    @ToolProvider({ namespace: 'store' })
    class StoreTools {
      @LlmTool({ description: 'Finds.', effect: 'read_only', output: Box }) find(): Box {
        return new Box();
      }
    }
    class Source extends ToolSource {
      readonly origin = { source: 'remote', trusted: true };
      override tools(): readonly Tool[] {
        return [{ ...toolOf({ id: 'remote__run' }), execution: odd }];
      }
    }
    const findings = await findingsOf({ providers: [StoreTools, Source] });
    expect(findings).toEqual([
      { at: 'Box', ...suggestion },
      { at: expect.stringContaining('remote__run'), ...suggestion },
    ]);
  });

  it.each<ToolExecutionOptions>([odd, { selfManaged: true }])(
    'is refused in a run before it starts: %j',
    async (execution) => {
      const module = await start({ providers: [providerOf({})] });
      const open = () =>
        module.get(ToolLoopService).open({
          prompt: 'Go.',
          actor: { id: 'ada' },
          tenant: 'acme',
          execution: { ...execution },
        });
      expect(open).toThrow(ConfigurationError);
    },
  );
});
