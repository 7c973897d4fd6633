import { describe, expect, it } from '@jest/globals';
import { Expose, Type } from 'class-transformer';
import {
  IsDate,
  IsEmail,
  IsInt,
  IsObject,
  IsOptional,
  IsString,
  Max,
  MinLength,
  Validate,
  ValidateNested,
  ValidatorConstraint,
} from 'class-validator';
import { cpuSecondsOf } from '../fixtures/time.js';
import { LlmTool } from '../../src/tools/decorators/llm-tool.decorator.js';
import { toolMethodsOf, type ToolMethod } from '../../src/tools/decorators/tool-metadata.js';
import {
  ToolContext,
  ToolInput,
  ToolParam,
} from '../../src/tools/decorators/tool-parameters.decorator.js';
import type { JsonObject } from '@toolloop/core';
import type { ToolCallContext } from '../../src/contracts/tool-call.js';
import { SchemaValidators } from '../../src/schema/validators.js';
import { argumentsOf } from '../../src/schema/call-arguments.js';
import {
  compileDtoInput,
  compileSchemaInput,
  compileToolInput,
  type CompiledInput,
} from '../../src/schema/tool-input.js';
import { type Priority, Priority as Importance } from './priority.js';

const RESERVED = ['tenant', 'tenantId', 'actor', 'actorId'];
const TOOL = { description: 'Does it.', effect: 'read_only', reveal: 'all' } as const;
const context = { runId: 'r1' } as ToolCallContext;

@ValidatorConstraint({ async: true })
class SlowCheck {
  validate(value: unknown): Promise<boolean> {
    return Promise.resolve(value !== 'taken');
  }
  defaultMessage(): string {
    return 'is taken; choose another name';
  }
}

class Contact {
  @IsEmail() email!: string;
}

class SearchCustomers {
  @IsString() @MinLength(2) name!: string;
  @IsInt() @Max(50) limit = 10;
}

class CreateCustomer {
  @IsString() @Validate(SlowCheck) name!: string;
  @ValidateNested({ each: true }) @Type(() => Contact) contacts!: Contact[];
}

class Dated {
  @IsDate() @Type(() => Date) since!: Date;
  @IsOptional() @ValidateNested() @Type(() => SearchCustomers) search?: SearchCustomers;
  @Expose() @IsString() order = 'name';
}

class Filter {
  @IsOptional() @IsString() tenant_id?: string;
}

class CustomerTools {
  @LlmTool(TOOL) search(
    @ToolInput() input: SearchCustomers,
    @ToolContext() ctx: ToolCallContext,
  ): unknown {
    return [input, ctx];
  }

  @LlmTool(TOOL) explicit(@ToolInput(SearchCustomers) input: Readonly<SearchCustomers>): unknown {
    return input;
  }

  @LlmTool(TOOL) create(@ToolInput() input: CreateCustomer): unknown {
    return input;
  }

  @LlmTool(TOOL) recent(
    @ToolContext() ctx: ToolCallContext,
    @ToolParam('limit', { description: 'How many.', default: 10, maximum: 50 }) limit: number,
    @ToolParam('importance', { description: 'How bad.', enum: Importance, required: false })
    importance?: Priority,
  ): unknown {
    return [ctx, limit, importance];
  }

  @LlmTool(TOOL) nothing(): unknown {
    return undefined;
  }

  @LlmTool(TOOL) onlyContext(@ToolContext() ctx: ToolCallContext): unknown {
    return ctx;
  }

  @LlmTool(TOOL) vague(@ToolInput() input: Readonly<SearchCustomers>): unknown {
    return input;
  }

  @LlmTool(TOOL) list(@ToolInput() input: SearchCustomers[]): unknown {
    return input;
  }

  @LlmTool(TOOL) both(
    @ToolInput() input: SearchCustomers,
    @ToolParam('limit', { description: 'How many.' }) limit: number,
  ): unknown {
    return [input, limit];
  }

  @LlmTool(TOOL) two(
    @ToolInput() one: SearchCustomers,
    @ToolInput() other: SearchCustomers,
  ): unknown {
    return [one, other];
  }

  @LlmTool(TOOL) contexts(
    @ToolContext() one: ToolCallContext,
    @ToolContext() other: ToolCallContext,
  ): unknown {
    return [one, other];
  }

  @LlmTool(TOOL) twins(
    @ToolParam('a', { description: '' }) one: string,
    @ToolParam('a', { description: '' }) other: string,
  ): unknown {
    return [one, other];
  }

  @LlmTool(TOOL) roles(@ToolInput() @ToolContext() one: SearchCustomers): unknown {
    return one;
  }

  @LlmTool(TOOL) forgotten(
    @ToolParam('a', { description: '' }) one: string,
    other: string,
  ): unknown {
    return [one, other];
  }

  @LlmTool(TOOL) filtered(@ToolInput() input: Filter): unknown {
    return input;
  }

  @LlmTool({ ...TOOL, allowReserved: { arguments: ['tenantId'], reason: 'For auditors.' } })
  audited(@ToolInput() input: Filter): unknown {
    return input;
  }

  @LlmTool(TOOL) acting(@ToolParam('ActorId', { description: '' }) actorId: string): unknown {
    return actorId;
  }
}

const methods = new Map(toolMethodsOf(CustomerTools).map((method) => [method.property, method]));

function methodOf(property: keyof CustomerTools): ToolMethod {
  const method = methods.get(property);
  if (!method) throw new Error(`${property} is no tool`);
  return method;
}

const compile = (property: keyof CustomerTools): CompiledInput =>
  compileToolInput({
    at: `CustomerTools.${property}`,
    method: methodOf(property),
    reserved: RESERVED,
  });

const read = async ({ input }: CompiledInput, args: JsonObject): Promise<unknown> => {
  const reading = await input.read(args);
  return 'problems' in reading ? reading.problems : reading.value;
};

const problemsOf = (property: keyof CustomerTools): string[] =>
  compile(property).findings.map(({ problem }) => problem);

describe('a tool with a DTO', () => {
  it('takes the class from the parameter, or from the decorator', () => {
    const { input, findings } = compile('search');
    expect(findings).toEqual([]);
    expect(input.schema).toEqual({
      type: 'object',
      properties: {
        name: { type: 'string', minLength: 2 },
        limit: { type: 'integer', maximum: 50, default: 10 },
      },
      required: ['name'],
      additionalProperties: false,
    });
    expect(compile('explicit')).toMatchObject({ findings: [], input: { schema: input.schema } });
  });

  it('builds an instance and leaves the JSON alone', async () => {
    const args = Object.freeze({ name: 'Jo', limit: 5 });
    const built = await read(compile('search'), args);
    expect(built).toBeInstanceOf(SearchCustomers);
    expect(built).toEqual({ name: 'Jo', limit: 5 });
  });

  it('builds dates and nested instances, and keeps what the initialisers gave', async () => {
    const compiled = compileDtoInput({ at: 'x', type: Dated, reserved: [] });
    const built = await read(compiled, { since: '2026-01-31T09:30:00Z', search: { name: 'Jo' } });
    expect(compiled.findings).toEqual([]);
    expect(built).toEqual({
      since: new Date('2026-01-31T09:30:00Z'),
      search: { name: 'Jo', limit: 10 },
      order: 'name',
    });
    expect(built).toHaveProperty('search', expect.any(SearchCustomers));
  });

  it('converts nothing that no decorator converts', async () => {
    expect(await read(compile('search'), { name: 'Jo', limit: '5' })).toEqual({
      name: 'Jo',
      limit: '5',
    });
  });

  it('never calls what an argument names its constructor', async () => {
    class Open {
      @IsObject() filter!: object;
    }
    const compiled = compileDtoInput({ at: 'x', type: Open, reserved: [] });
    const args = JSON.parse(
      '{ "filter": { "a": [{ "constructor": "Buffer", "b": 1 }], "__proto__": { "polluted": 1 }, "constructor": {} } }',
    ) as JsonObject;
    const built = await read(compiled, args);
    expect(built).toEqual({ filter: { a: [{ b: 1 }] } });
    expect({}).not.toHaveProperty('polluted');
    expect(Object.keys(args['filter'] ?? {})).toEqual(['a', '__proto__', 'constructor']);
  });

  it('asks class-validator only where the schema does not say all', () => {
    const name = 'Jo';
    expect(compile('search').input.read({ name })).toEqual({ value: { name, limit: 10 } });
    expect(compile('create').input.read({ name, contacts: [] })).toBeInstanceOf(Promise);
  });

  it('points to what class-validator finds, at any depth', async () => {
    expect(
      await read(compile('create'), {
        name: 'taken',
        contacts: [{ email: 'jo@example.com' }, { email: 'jo' }],
      }),
    ).toEqual([
      { pointer: '/name', message: 'is taken; choose another name' },
      { pointer: '/contacts/1/email', message: 'email must be an email' },
    ]);
    expect(await read(compile('create'), { name: 'free', contacts: [] })).toBeInstanceOf(
      CreateCustomer,
    );
  });

  it('says at most ten things', async () => {
    const args = { name: 'free', contacts: Array.from({ length: 30 }, () => ({ email: '' })) };
    expect(await read(compile('create'), args)).toHaveLength(10);
  });
});

describe('a tool with parameters', () => {
  it('receives them as they are', () => {
    const { input, findings } = compile('recent');
    const args = { limit: 5 };
    expect(findings).toEqual([]);
    expect(input.read(args)).toEqual({ value: args });
    expect(Object.keys(input.schema.properties ?? {})).toEqual(['limit', 'importance']);
    expect(input.schema).not.toHaveProperty('required');
  });

  it('may be sent null for an optional one', () => {
    const { input } = compile('recent');
    const args = input.normalize({ limit: null, importance: null });
    expect(new SchemaValidators().validate(input.schema, args)).toEqual([]);
    expect(args).toEqual({ limit: 10 });
  });

  it.each(['nothing', 'onlyContext'] as const)('may have none: %s', (property) => {
    expect(compile(property)).toMatchObject({
      findings: [],
      input: {
        schema: { type: 'object', properties: {}, additionalProperties: false },
        hidden: [],
        reserved: RESERVED,
      },
    });
  });
});

describe('argumentsOf', () => {
  it('puts the instance and the context where the method takes them', () => {
    const built = new SearchCustomers();
    expect(argumentsOf(methodOf('search'), built, context)).toEqual([built, context]);
  });

  it('puts each named value where the method takes it; what is absent is undefined', () => {
    expect(argumentsOf(methodOf('recent'), { limit: 5 }, context)).toEqual([context, 5, undefined]);
    expect(argumentsOf(methodOf('nothing'), {}, context)).toEqual([]);
  });

  it('fills gaps', () => {
    const method: ToolMethod = {
      property: 'x',
      options: undefined,
      parameters: [{ kind: 'context', index: 2 }],
      designTypes: [],
    };
    expect(argumentsOf(method, {}, context)).toEqual([undefined, undefined, context]);
  });

  it('never hands over what every object inherits', () => {
    const parameter = {
      kind: 'param',
      index: 0,
      name: 'toString',
      options: { description: '' },
    } as const;
    expect(
      argumentsOf(
        { property: 'x', options: undefined, parameters: [parameter], designTypes: [] },
        {},
        context,
      ),
    ).toEqual([undefined]);
  });
});

describe('findings', () => {
  it.each<[keyof CustomerTools, string[]]>([
    ['vague', ['The class of the @ToolInput() parameter is not known at run time.']],
    ['list', ['The class of the @ToolInput() parameter is not known at run time.']],
    ['both', ['The method takes both a @ToolInput() and @ToolParam()s.']],
    ['two', ['The method takes two @ToolInput()s.']],
    ['contexts', ['The method takes two @ToolContext()s.']],
    ['twins', ['Two parameters are named "a".']],
    ['roles', ['A parameter has two roles.']],
    ['forgotten', ['Parameter 2 has no decorator, so nothing would ever be passed.']],
    ['filtered', ['The argument "tenant_id" has a reserved name.']],
    ['acting', ['The argument "ActorId" has a reserved name.']],
    ['audited', []],
  ])('name %s: %j', (property, problems) => {
    expect(problemsOf(property)).toEqual(problems);
  });

  it('carry the place, the class and the remedy', () => {
    class Broken {
      @IsDate() since!: Date;
    }
    expect(
      compileDtoInput({ at: 'CustomerTools.search', type: Broken, reserved: [] }).findings,
    ).toEqual([
      {
        at: 'CustomerTools.search',
        problem: 'Broken.since is text in JSON, which @IsDate() never accepts.',
        remedy: 'Add @Type(() => Date).',
      },
    ]);
    expect(compile('vague').findings[0]?.remedy).toBe(
      'Give the class: @ToolInput(SearchCustomers), and import it as a value, not by "import type".',
    );
  });

  it('count reserved names in a schema from outside, at any depth', () => {
    const schema = {
      type: 'object',
      properties: { filter: { type: 'object', properties: { tenant: { type: 'string' } } } },
    } as const;
    expect(
      compileSchemaInput({ at: 'x', schema, reserved: RESERVED }).findings.map(
        ({ problem }) => problem,
      ),
    ).toEqual(['The argument "tenant" has a reserved name.']);
  });

  it('release what a tool was allowed', () => {
    expect(compile('audited').input.reserved).toEqual(['tenant', 'actor', 'actorId']);
  });
});

describe('speed', () => {
  it('takes a few microseconds to leave nulls out, validate and build three properties', () => {
    class Three {
      @IsString() @MinLength(1) name!: string;
      @IsInt() limit = 10;
      @IsOptional() @IsString() note?: string;
    }
    const { input } = compileDtoInput({ at: 'x', type: Three, reserved: [] });
    const validators = new SchemaValidators();
    const call = (): unknown => {
      const args = input.normalize({ name: 'Jo', limit: 3, note: null });
      validators.validate(input.schema, args);
      return input.read(args);
    };
    for (let round = 0; round < 2_000; round += 1) call();
    const seconds = cpuSecondsOf(() => {
      for (let round = 0; round < 2_000; round += 1) call();
    });
    expect(seconds / 2_000).toBeLessThan(100e-6); // a tenth of that is usual
  });
});
