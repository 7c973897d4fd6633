import { beforeAll, describe, expect, it } from '@jest/globals';
import {
  LlmTool,
  tool,
  ToolError,
  ToolField,
  ToolInput,
  ToolParam,
  ToolProvider,
} from '@toolloop/core';
import { Exclude, Transform, Type } from 'class-transformer';
import {
  IsInt,
  IsObject,
  IsOptional,
  IsString,
  MaxLength,
  Min,
  Validate,
  ValidateIf,
  ValidateNested,
  ValidatorConstraint,
  type ValidatorConstraintInterface,
} from 'class-validator';
import { toolOf } from '../tools/tools.js';
import { Bench, errorOf, errorsOf, type RunOfCalls } from './bench.js';

const fine = { description: 'Does it.', effect: 'read_only', reveal: 'all' } as const;

@ValidatorConstraint()
class Weekday implements ValidatorConstraintInterface {
  async validate(value: unknown): Promise<boolean> {
    await Promise.resolve();
    return value !== 'sunday';
  }

  defaultMessage(): string {
    return 'must be a working day';
  }
}

class Place {
  @IsString() city!: string;
}

class SearchInput {
  @IsString() @MaxLength(20) name!: string;
  @IsInt() @Min(1) limit: number = 10;
  @IsOptional() @Validate(Weekday) day?: string;
  @IsOptional() @ValidateNested() @Type(() => Place) place?: Place;
  @IsOptional() @IsObject() filter?: Record<string, unknown>;
  @IsOptional() @IsString() @Exclude({ toPlainOnly: true }) password?: string;
  @IsOptional()
  @IsString()
  @Transform(({ value }) => (typeof value === 'string' ? value.trim() : (value as unknown)))
  note?: string;
}

const received: unknown[] = [];

@ToolProvider({ namespace: 'crm' })
class CrmTools {
  @LlmTool(fine) search(@ToolInput() input: SearchInput): string {
    received.push(input);
    return input.name;
  }

  @LlmTool(fine) tags(
    @ToolParam('tags', { description: 'x', type: 'array' }) tags: string[],
    @ToolParam('limit', { description: 'x', type: 'integer', default: 5 }) limit: number,
    @ToolParam('after', { description: 'x', type: 'string', required: false }) after?: string,
  ): number {
    tags.push('changed');
    received.push([limit, after]);
    return tags.length;
  }

  @LlmTool(fine) nothing(): string {
    return 'ran';
  }
}

let bench: Bench;
beforeAll(async () => {
  bench = await Bench.start({ providers: [CrmTools] });
});

const anything = toolOf({ id: 'anything', invoke: (input) => input });

function run(limits: { argumentBytes?: number } = {}): RunOfCalls {
  received.length = 0;
  return bench.run({
    tools: [...bench.catalog.build({}), anything],
    policies: [{ allow: ['*', 'anything'] }],
    limits,
  });
}

describe('arguments as text', () => {
  it.each([
    '{"name":',
    '{"name":"x"} trailing',
    '{"name":"x"}{}',
    "{'name':'x'}",
    '{"limit":NaN}',
    '{name:"x"}',
    'undefined',
    '{"a":1,}',
  ])('are not repaired when they are not JSON: %s', async (text) => {
    const calls = run();
    const outcome = await calls.exec('crm__search', text);
    expect(errorOf(outcome)).toEqual({
      status: '400',
      code: 'invalid_json',
      title: 'Arguments are not JSON',
      detail: 'The arguments are not JSON. Send one JSON object.',
    });
    expect(outcome.record).not.toHaveProperty('args');
    expect(calls.events[0]).toEqual({
      type: 'tool-call',
      step: 1,
      toolCallId: 'call_1',
      tool: 'crm__search',
    });
  });

  it.each(['', '   \n', 'null', '{}'])(
    'are an empty object when they are empty: %j',
    async (text) => {
      const outcome = await run().exec('crm__nothing', text);
      expect([outcome.content, outcome.record.args]).toEqual(['ran', {}]);
    },
  );

  it.each([
    ['[]', 'a list'],
    ['"x"', 'a string'],
    ['1', 'a number'],
    ['true', 'a boolean'],
  ])('must be an object: %s', async (text, what) => {
    expect(errorOf(await run().exec('crm__nothing', text))).toMatchObject({
      code: 'invalid_args',
      detail: `The arguments must be one JSON object, not ${what}.`,
    });
  });

  it('are measured in bytes, not in characters', async () => {
    const text = JSON.stringify({ note: 'ä'.repeat(50) });
    expect(errorOf(await run({ argumentBytes: 100 }).exec('anything', text)).detail).toBe(
      'The arguments have 111 bytes; at most 100 are taken. Send less at a time.',
    );
    expect((await run({ argumentBytes: 111 }).exec('anything', text)).record.status).toBe(
      'succeeded',
    );
  });
});

describe('arguments and their schema', () => {
  it('name every problem at its place', async () => {
    const outcome = await run().exec('crm__search', {
      name: 1,
      limit: 0,
      place: { town: 'x' },
      nme: 'x',
    });
    expect(errorsOf(outcome)).toEqual(
      expect.arrayContaining([
        {
          status: '400',
          code: 'invalid_args',
          title: 'Invalid arguments',
          detail: 'unknown argument "nme"; did you mean "name"?',
          source: { pointer: '/nme' },
        },
        expect.objectContaining({ detail: 'must be a string', source: { pointer: '/name' } }),
        expect.objectContaining({ detail: 'must be at least 1', source: { pointer: '/limit' } }),
        expect.objectContaining({ detail: 'is required', source: { pointer: '/place/city' } }),
      ]),
    );
    expect(received).toEqual([]);
  });

  it('are not coerced', async () => {
    expect(errorOf(await run().exec('crm__search', { name: 'x', limit: '5' })).detail).toBe(
      'must be an integer',
    );
  });

  it.each(['__proto__', 'constructor', 'prototype', 'toString', 'hasOwnProperty'])(
    'have no use for the key %s',
    async (key) => {
      const text = `{"name":"x","${key}":{"polluted":true}}`;
      const outcome = await run().exec('crm__search', text);
      expect(errorsOf(outcome)).toMatchObject([
        { code: 'invalid_args', source: { pointer: `/${key}` } },
      ]);
      expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
    },
  );

  it('pollute no prototype where a tool takes anything', async () => {
    const text = '{"a":{"__proto__":{"polluted":true}},"__proto__":{"polluted":true}}';
    const outcome = await run().exec('anything', text);
    expect(outcome.record.status).toBe('succeeded');
    expect(Object.getPrototypeOf(outcome.record.args)).toBe(Object.prototype);
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
  });

  it.each([
    ['a known tool', 'crm__search'],
    ['a tool that takes anything', 'anything'],
  ])(
    'are refused, not visited, when they are nested a hundred thousand levels deep: %s',
    async (_, name) => {
      const deep = `${'{"filter":'.repeat(100_000)}1${'}'.repeat(100_000)}`;
      const outcome = await run({ argumentBytes: 10_000_000 }).exec(name, deep);
      expect(errorOf(outcome)).toMatchObject({
        code: 'invalid_args',
        detail: 'The arguments are nested too deeply; send flatter ones.',
      });
    },
  );

  it('are taken when they are nested as deep as any real ones', async () => {
    const deep = `${'{"a":'.repeat(60)}1${'}'.repeat(60)}`;
    expect((await run().exec('anything', deep)).record.status).toBe('succeeded');
  });

  it.each(['{"n":1e999}', '{"a":[{"n":-1e999}]}'])(
    'hold no number that JSON cannot carry on: %s',
    async (text) => {
      expect(errorOf(await run().exec('anything', text))).toMatchObject({
        code: 'invalid_args',
        detail: 'The arguments hold a number that is too large.',
      });
    },
  );
});

describe('reserved names', () => {
  it.each([
    ['{"name":"x","tenant":"globex"}', '/tenant'],
    ['{"name":"x","TENANT_ID":"globex"}', '/TENANT_ID'],
    ['{"name":"x","place":{"city":"y","actorId":"1"}}', '/place/actorId'],
    ['{"name":"x","filter":{"and":[{"or":[{"tenant-id":1}]}]}}', '/filter/and/0/or/0/tenant-id'],
    ['{"actor":null}', '/actor'],
  ])(
    'are refused at any depth, before anything else is said about the arguments: %s',
    async (text, pointer) => {
      const outcome = await run().exec('crm__search', text);
      expect(errorOf(outcome)).toEqual({
        status: '400',
        code: 'tenant_override',
        title: 'Reserved argument',
        detail: `The argument at "${pointer}" is set by the application and never by a caller. Leave it out.`,
      });
      expect(outcome.record).toMatchObject({
        status: 'denied',
        error: { code: 'tenant_override' },
      });
      expect(received).toEqual([]);
    },
  );

  it('may be values', async () => {
    expect((await run().exec('crm__search', { name: 'tenant' })).content).toBe('tenant');
  });
});

describe('what the method receives', () => {
  it('is an instance of the DTO, with defaults and nested instances, transformed', async () => {
    await run().exec('crm__search', { name: 'Ada', place: { city: 'Rome' }, note: '  x ' });
    const [input] = received as [SearchInput];
    expect(input).toBeInstanceOf(SearchInput);
    expect(input.place).toBeInstanceOf(Place);
    expect(input).toMatchObject({ name: 'Ada', limit: 10, note: 'x' });
  });

  it('has passed the rules that only class-validator can check', async () => {
    const outcome = await run().exec('crm__search', { name: 'Ada', day: 'sunday' });
    expect(errorOf(outcome)).toMatchObject({
      code: 'invalid_args',
      detail: 'must be a working day',
      source: { pointer: '/day' },
    });
    expect(received).toEqual([]);
  });

  it('is each named parameter in its place', async () => {
    await run().exec('crm__tags', { tags: [] });
    expect(received).toEqual([[5, undefined]]);
  });

  it('is a copy: what the tool changes in it changes no record and no event', async () => {
    const calls = run();
    const outcome = await calls.exec('crm__tags', { tags: ['a'] });
    expect(outcome.content).toBe('2');
    expect(outcome.record.args).toEqual({ tags: ['a'], limit: 5 });
    expect(calls.events[0]).toMatchObject({ args: { tags: ['a'], limit: 5 } });
  });
});

describe('what others see of the arguments', () => {
  it('leaves out what the DTO hides', async () => {
    const calls = run();
    const { record } = await calls.exec('crm__search', { name: 'Ada', password: 'hunter2' });
    expect(record.args).toEqual({ name: 'Ada', limit: 10, password: '[redacted]' });
    expect(JSON.stringify(calls.events)).not.toContain('hunter2');
    expect(received).toMatchObject([{ password: 'hunter2' }]);
  });
});

describe('arguments that the classes of a DTO cannot be made of', () => {
  class Fragile {
    @IsOptional()
    @IsString()
    @Transform(({ value }) =>
      value === 'null' ? (null as unknown as { x: string }).x : (value as unknown),
    )
    transformed?: string;

    @IsOptional()
    @IsString()
    @ValidateIf((self: Fragile) =>
      self.validated === 'null' ? (null as unknown as { x: boolean }).x : true,
    )
    validated?: string;

    @IsOptional()
    @IsString()
    @Transform(({ value }) => {
      if (value === 'told') throw new ToolError('No such day.');
      return value as unknown;
    })
    told?: string;

    @ToolField({ description: 'x' })
    @IsOptional()
    @IsString()
    set written(value: string) {
      if (value === 'null') throw new RangeError('hunter2');
    }
  }
  const fragile = tool({ ...fine, id: 'fragile', input: Fragile, execute: () => 'ran' });

  it.each([{ transformed: 'null' }, { validated: 'null' }, { written: 'null' }])(
    'are invalid: %j',
    async (args) => {
      const fragileBench = await Bench.start({ options: { tools: [fragile] } });
      const outcome = await fragileBench.run().exec('fragile', args);
      expect(outcome.record.error).toMatchObject({
        code: 'invalid_args',
        safeMessage: expect.stringContaining('The arguments cannot be read.'),
      });
      expect(outcome.content).not.toContain('hunter2');
      expect(fragileBench.logger.errors()).toHaveLength(1);
    },
  );

  it('are refused in the words of a ToolError, and are read where they are fine', async () => {
    const calling = (await Bench.start({ options: { tools: [fragile] } })).run();
    expect(errorOf(await calling.exec('fragile', { told: 'told' }))).toMatchObject({
      detail: 'No such day.',
    });
    expect(
      (await calling.exec('fragile', { told: 'a', validated: 'b', transformed: 'c' })).content,
    ).toBe('ran');
  });
});
