import { describe, expect, it } from '@jest/globals';
import { Injectable, type Type } from '@nestjs/common';
import {
  LlmTool,
  tool,
  ToolField,
  ToolInput,
  ToolLoopModule,
  ToolParam,
  ToolProvider,
} from '@toolloop/core';
import { type ToolParamOptions } from '@toolloop/core/catalog';
import { Expose } from 'class-transformer';
import { IsIn, IsInt, IsOptional, IsString, Length, Matches, Max, Min } from 'class-validator';
import { findingsOf, start } from './application.js';

const fine = { description: 'Does it.', effect: 'read_only', reveal: 'all' } as const;

/**
 * A provider whose one tool takes a parameter with these options, as a JavaScript user would write
 * them.
 */
function withParameter(options: object): Type {
  @Injectable()
  @ToolProvider({ namespace: 'desk' })
  class DeskTools {
    @LlmTool(fine) find(@ToolParam('limit', options as ToolParamOptions) limit: number): number {
      return limit;
    }
  }
  return DeskTools;
}

/** A provider whose one tool takes a DTO. */
function takes(type: Type): Type {
  @Injectable()
  @ToolProvider({ namespace: 'desk' })
  class DeskTools {
    @LlmTool(fine) find(@ToolInput(type) input: object): number {
      return Object.keys(input).length;
    }
  }
  return DeskTools;
}

/** An entity that is identified so, and has its properties in several ways. */
function entity(instanceIdProperty: string, tenantProperty?: string): object {
  @ToolProvider({
    prefix: 'shelf',
    instanceIdProperty,
    ...(tenantProperty !== undefined && { tenantProperty }),
  })
  class Shelf {
    @Expose() readonly number = '1';
    @Expose() readonly place: string;
    constructor(readonly key = 'k') {
      this.place = key;
    }
    code(): string {
      return this.number;
    }
    @LlmTool({ ...fine }) look(): void {}
  }
  return { imports: [ToolLoopModule.forFeature({ entities: [Shelf] })] };
}

const told = async (declared: Parameters<typeof findingsOf>[0]): Promise<string[]> =>
  (await findingsOf(declared)).map(({ at, problem, remedy }) => `${at}: ${problem} ${remedy}`);

describe('a parameter that no argument could ever fit', () => {
  it.each<[string, object, string]>([
    [
      'no description',
      { type: 'string' },
      'DeskTools.find(limit): It has no "description". Give a text.',
    ],
    [
      'a misspelt option',
      { description: 'x', minimun: 1 },
      'DeskTools.find(limit): There is no option "minimun". Did you mean "minimum"?',
    ],
    [
      'a type that does not exist',
      { description: 'x', type: 'int' },
      'DeskTools.find(limit): The option "type" is "int". Give',
    ],
    [
      'a bound that is no number',
      { description: 'x', minimum: '1' },
      'DeskTools.find(limit): The option "minimum" is "1". Give a number.',
    ],
    [
      'a length below 0',
      { description: 'x', type: 'string', minLength: -1 },
      'DeskTools.find(limit): The option "minLength" is -1.',
    ],
    [
      'a broken pattern',
      { description: 'x', type: 'string', pattern: '(' },
      'Invalid regular expression',
    ],
    [
      'a pattern that is no text',
      { description: 'x', type: 'string', pattern: /a/ },
      'DeskTools.find(limit): The option "pattern" is',
    ],
    [
      'a bound above the other',
      { description: 'x', minimum: 5, maximum: 3 },
      'at "/properties/limit": its minimum 5 is above its maximum 3.',
    ],
    [
      'a length above the other',
      { description: 'x', type: 'string', minLength: 5, maxLength: 3 },
      'at "/properties/limit": its minLength 5 is above its maxLength 3.',
    ],
    [
      'a default that its bounds refuse',
      { description: 'x', default: 99, maximum: 50 },
      'its default is 99, which must be at most 50.',
    ],
    [
      'a default of another type',
      { description: 'x', type: 'number', default: 'ten' },
      'its default is "ten", which must be a number.',
    ],
    [
      'an enum of another type',
      { description: 'x', type: 'number', enum: ['a', 'b'] },
      'its enum has "a", which must be a number.',
    ],
    [
      'a default outside its enum',
      { description: 'x', enum: ['a', 'b'], default: 'c' },
      'its default is "c", which must be one of: a, b.',
    ],
    [
      'items of another type than their enum',
      { description: 'x', type: 'array', items: { type: 'number', enum: ['a'] } },
      'at "/properties/limit/items": its enum has "a", which must be a number.',
    ],
    [
      'a misspelt option of its items',
      { description: 'x', items: { typ: 'string' } },
      'find(limit) items: There is no option "typ".',
    ],
  ])('does not start the application: %s', async (_, options, problem) => {
    expect((await told({ providers: [withParameter(options)] })).join('\n')).toContain(problem);
  });

  it('starts the application where its options agree', async () => {
    const options = {
      description: 'x',
      type: 'number',
      minimum: 1,
      maximum: 5,
      default: 5,
      nullable: true,
    };
    await expect(start({ providers: [withParameter(options)] })).resolves.toBeDefined();
  });
});

describe('an input whose schema contradicts itself', () => {
  it('does not start the application where a DTO has a default that its decorators refuse', async () => {
    class Search {
      @IsOptional() @IsInt() @Max(50) limit = 99;
    }
    expect(await told({ providers: [takes(Search)] })).toEqual([
      expect.stringContaining(
        'DeskTools.find: The input schema contradicts itself at "/properties/limit": its default is 99, which must be at most 50.',
      ),
    ]);
  });

  it('does not start the application where a DTO has an example that its decorators refuse', async () => {
    class Search {
      @ToolField({ description: 'A code', example: 'abc' }) @Matches(/^\d+$/) code!: string;
    }
    expect(await told({ providers: [takes(Search)] })).toEqual([
      expect.stringContaining('its example is "abc", which must match the pattern'),
    ]);
  });

  it('does not start the application where the decorators of a DTO leave no value', async () => {
    class Search {
      @IsInt() @Min(5) @Max(3) limit!: number;
      @IsString() @Length(4, 2) word!: string;
      @IsIn([1, 2, 30]) @Max(10) page!: number;
    }
    expect((await told({ providers: [takes(Search)] })).join('\n')).toMatch(
      /minimum 5[^]*minLength 4[^]*its enum has 30, which/,
    );
  });

  it('does not start the application where a raw tool has it', async () => {
    const input = {
      type: 'object',
      properties: { tags: { type: 'array', minItems: 3, maxItems: 1, items: { type: 'string' } } },
    } as const;
    const tools = [tool({ ...fine, id: 'raw', input, execute: () => 1 })];
    expect(await told({ options: { tools } })).toEqual([
      expect.stringContaining(
        'tool raw: The input schema contradicts itself at "/properties/tags": its minItems 3 is above its maxItems 1.',
      ),
    ]);
  });
});

/** The findings about a raw tool with these properties, at any depth. */
const toldOf = (properties: object, more: object = {}): Promise<string[]> => {
  const input = { type: 'object', properties, ...more } as const;
  return told({
    options: { tools: [tool({ ...fine, id: 'raw', input: input as never, execute: () => 1 })] },
  });
};

describe('a schema that no arguments fit', () => {
  it.each<[string, object, string]>([
    [
      'a const of another type',
      { type: 'number', const: 'x' },
      'its const is "x", which must be a number.',
    ],
    [
      'a const outside its enum',
      { type: 'string', const: 'c', enum: ['a', 'b'] },
      'its const is "c", which must be one of: a, b.',
    ],
    [
      'a const outside its bounds',
      { type: 'integer', const: 9, maximum: 5 },
      'its const is 9, which must be at most 5.',
    ],
    [
      'a default that is not its const',
      { const: 1, default: 2 },
      'its default is 2, which must be 1.',
    ],
    [
      'an enum without values',
      { type: 'string', enum: [] },
      'enum must NOT have fewer than 1 items.',
    ],
    [
      'an open bound at the other',
      { type: 'number', exclusiveMinimum: 5, maximum: 5 },
      'its exclusiveMinimum 5 and its maximum 5 leave no number.',
    ],
    [
      'an open bound above the other',
      { type: 'number', exclusiveMinimum: 6, maximum: 5 },
      'its exclusiveMinimum 6 is above its maximum 5.',
    ],
    [
      'two open bounds that meet',
      { exclusiveMinimum: 5, exclusiveMaximum: 5 },
      'its exclusiveMinimum 5 and its exclusiveMaximum 5 leave no number.',
    ],
    [
      'no integer between its bounds',
      { type: 'integer', minimum: 1.2, maximum: 1.8 },
      'its minimum 1.2 and its maximum 1.8 leave no integer.',
    ],
    [
      'no integer between open bounds',
      { type: 'integer', exclusiveMinimum: 1, exclusiveMaximum: 2 },
      'leave no integer.',
    ],
    [
      'no multiple between its bounds',
      { type: 'number', multipleOf: 10, minimum: 11, maximum: 19 },
      'leave no multiple of 10.',
    ],
    ['a multiple of 0', { type: 'number', multipleOf: 0 }, 'multipleOf must be > 0'],
    ['a multiple of less', { type: 'number', multipleOf: -2 }, 'multipleOf must be > 0'],
    [
      'lengths in items',
      { type: 'array', items: { type: 'string', minLength: 3, maxLength: 2 } },
      'items": its minLength 3 is above its maxLength 2.',
    ],
    [
      'counts in a nested object',
      {
        type: 'object',
        properties: { a: { type: 'array', items: { type: 'string' }, minItems: 3, maxItems: 2 } },
      },
      'its minItems 3 is above its maxItems 2.',
    ],
    [
      'more different items than there are',
      {
        type: 'array',
        items: { type: 'string', enum: ['a', 'b'] },
        uniqueItems: true,
        minItems: 3,
      },
      'its minItems 3 is above the number of different items, 2.',
    ],
    [
      'more properties than it names',
      { type: 'object', properties: { a: { type: 'string' } }, minProperties: 2 },
      'its minProperties 2 is above the number of its properties, 1.',
    ],
    [
      'fewer properties than it requires',
      { type: 'object', properties: { a: {}, b: {} }, required: ['a', 'b'], maxProperties: 1 },
      'its maxProperties 1 is below the number of its required properties, 2.',
    ],
    [
      'a required property that it does not name',
      { type: 'object', properties: { name: { type: 'string' } }, required: ['nmae'] },
      'it requires "nmae", which is none of its properties (did you mean "name"?).',
    ],
  ])('does not start the application: %s', async (_, value, problem) => {
    const problems = await toldOf({ value });
    expect(problems.join('\n')).toContain(problem);
    expect(problems).toHaveLength(1);
  });

  it('does not start the application where the whole requires what it does not name', async () => {
    expect(await toldOf({ name: { type: 'string' } }, { required: ['name', 'limit'] })).toEqual([
      'tool raw: The input schema contradicts itself at "": it requires "limit", which is none of its properties. Correct one of the two.',
    ]);
  });

  it('starts the application where an object takes properties that it does not name', async () => {
    const open = {
      type: 'object',
      properties: { a: { type: 'string' } },
      required: ['b'],
      additionalProperties: true,
      minProperties: 4,
    };
    const sound = {
      open,
      ratio: { type: 'number', exclusiveMinimum: 0, maximum: 1, multipleOf: 0.1 },
      even: { type: 'integer', multipleOf: 2, minimum: 1, maximum: 2 },
      kind: { const: 'a' },
    };
    const tools = [
      tool({
        ...fine,
        id: 'raw',
        input: { type: 'object', properties: sound } as never,
        execute: () => 1,
      }),
    ];
    await expect(start({ options: { tools } })).resolves.toBeDefined();
  });
});

describe('a misspelt keyword', () => {
  it.each([
    ['minimun', 'minimum'],
    ['maxlength', 'maxLength'],
    ['desciption', 'description'],
    ['requierd', 'required'],
    ['itmes', 'items'],
    ['additionalproperties', 'additionalProperties'],
  ])('does not start the application: %s', async (wrong, right) => {
    expect(
      await toldOf({ list: { type: 'array', items: { type: 'string', [wrong]: 1 } } }),
    ).toEqual([
      `tool raw: The input schema has the keyword "${wrong}" at "/properties/list/items", which means nothing. Did you mean "${right}"?`,
    ]);
  });

  it('does not start the application where a format is misspelt', async () => {
    expect(
      await toldOf({
        at: { type: 'string', format: 'datetime' },
        to: { type: 'string', format: 'emial' },
      }),
    ).toEqual([
      'tool raw: The input schema has the format "datetime" at "/properties/at", which means nothing. Did you mean "date-time"?',
      'tool raw: The input schema has the format "emial" at "/properties/to", which means nothing. Did you mean "email"?',
    ]);
  });

  it('is told beside what leaves the supported subset', async () => {
    expect(
      (
        await toldOf({
          a: { oneOf: [{ type: 'string' }, { type: 'number' }] },
          b: { type: 'string', minLenght: 2, minLength: 3, maxLength: 1 },
        })
      ).join('\n'),
    ).toMatch(/"oneOf" is not supported[^]*"minLenght"[^]*minLength 3 is above its maxLength 1/);
  });

  it('may be one that belongs to another', async () => {
    const value = {
      type: 'string',
      'x-order': 1,
      example: 'a',
      nullable: true,
      widget: 'text',
      order: 2,
      readOnly: true,
      format: 'x-sku',
      $comment: 'x',
    };
    const tools = [
      tool({
        ...fine,
        id: 'raw',
        input: { type: 'object', properties: { value } } as never,
        execute: () => 1,
      }),
    ];
    await expect(start({ options: { tools } })).resolves.toBeDefined();
  });
});

class Shown {
  @Expose() name = 'Ada';
}
class Other {
  @Expose() age = 36;
}

describe('an output that is none', () => {
  it.each<[string, object, string]>([
    ['null', { output: null }, 'Its `output` is neither a class nor a list of one class.'],
    ['a name', { output: 'Shown' }, 'Its `output` is neither a class nor a list of one class.'],
    [
      'two classes',
      { output: [Shown, Other] },
      'Its `output` is neither a class nor a list of one class.',
    ],
    [
      'a list without a class',
      { output: [] },
      'Its `output` is neither a class nor a list of one class.',
    ],
    [
      'a list of a list',
      { output: [[Shown]] },
      'Its `output` is neither a class nor a list of one class.',
    ],
    [
      'a misspelt option',
      { output: { type: Shown, nulable: true } },
      'Its `output` is neither a class nor a list of one class.',
    ],
    [
      'an option that is no switch',
      { output: { type: Shown, nullable: 'yes' } },
      'Its `output` is neither a class nor a list of one class.',
    ],
    ['names that are no texts', { reveal: [1] }, 'The tool does not say which data may leave it.'],
  ])('does not start the application: %s', async (_, redaction, problem) => {
    @Injectable()
    @ToolProvider({ namespace: 'desk' })
    class DeskTools {
      @LlmTool({ description: 'x', effect: 'read_only', ...redaction } as never) find(): unknown {
        return new Shown();
      }
    }
    expect(
      (await findingsOf({ providers: [DeskTools] })).map((finding) => finding.problem),
    ).toEqual([problem]);
  });
});

describe('the property that identifies an entity', () => {
  it('does not start the application where the class has no such property', async () => {
    expect(await told(entity('numbr'))).toEqual([
      'Shelf: Its instances are identified by "numbr", and it has no such property or method. Did you mean "number"?',
    ]);
  });

  it('does not start the application where the tenant is in none either', async () => {
    expect(await told(entity('number', 'plce'))).toEqual([
      'Shelf: Its tenantProperty names "plce", and it has no such property or method. Did you mean "place"?',
    ]);
  });

  it.each(['number', 'place', 'key', 'code'])(
    'may be %s, which is declared in one way or another',
    async (name) => {
      await expect(start(entity(name))).resolves.toBeDefined();
    },
  );

  it('may be one that the class takes over from elsewhere', async () => {
    @ToolProvider({ prefix: 'row', instanceIdProperty: 'key' })
    class Row {
      constructor(row: object) {
        Object.assign(this, row);
      }
      @LlmTool({ ...fine }) look(): void {}
    }
    await expect(
      start({ imports: [ToolLoopModule.forFeature({ entities: [Row] })] }),
    ).resolves.toBeDefined();
  });
});

describe('everything that is wrong', () => {
  it('is told at once: tools, limits, policy and loops', async () => {
    const problems = await told({
      providers: [withParameter({ description: 'x', minimum: 5, maximum: 3 })],
      options: {
        limits: { runMs: 0 },
        policy: { allow: ['desk__find', 'desk__fnd'], denny: [] } as never,
      },
      imports: [
        ToolLoopModule.forFeature({
          loops: { support: { tools: ['desk__find', 'desk__fidn'], limits: { step: 1 } as never } },
        }),
      ],
    });
    expect(problems).toEqual([
      expect.stringContaining('DeskTools.find: The input schema contradicts itself'),
      'ToolLoopModule limits: The limit "runMs" is 0. Give milliseconds, more than 0.',
      expect.stringContaining(
        'ToolLoopModule policy/denny: unknown field "denny"; did you mean "deny"?',
      ),
      expect.stringContaining('ToolLoopModule policy: The policy names "desk__fnd"'),
      expect.stringContaining('loop "support" limits: There is no limit "step".'),
      expect.stringContaining('loop "support": No tool is named "desk__fidn".'),
    ]);
  });
});
