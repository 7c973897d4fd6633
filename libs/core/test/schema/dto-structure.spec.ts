import { randomUUID } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { Exclude, Expose, Transform, Type } from 'class-transformer';
import {
  IsArray,
  IsEnum,
  IsInt,
  IsNotEmpty,
  IsNumber,
  IsObject,
  IsOptional,
  IsString,
  MaxLength,
  Min,
  MinLength,
  validate,
  Validate,
  ValidateNested,
  ValidatorConstraint,
} from 'class-validator';
import type { JSONSchema7 } from 'json-schema';
import type { JsonValue } from '@toolloop/core';
import { ToolField } from '../../src/tools/decorators/tool-field.decorator.js';
import { canonicalJson } from '../../src/schema/canonical-json.js';
import { dtoSchema } from '../../src/schema/dto-schema.js';
import { subsetProblems } from '../../src/schema/subset.js';
import { Priority, type PriorityName } from './priority.js';

@ValidatorConstraint()
class Never {
  validate(): boolean {
    return false;
  }
}

class Address {
  @IsString() city!: string;
  @IsOptional() @IsString() street?: string;
}

const ADDRESS: JSONSchema7 = {
  type: 'object',
  properties: { city: { type: 'string' }, street: { type: 'string' } },
  required: ['city'],
  additionalProperties: false,
};

class Other {
  @IsInt() value!: number;
}

const OTHER: JSONSchema7 = {
  type: 'object',
  properties: { value: { type: 'integer' } },
  required: ['value'],
  additionalProperties: false,
};

class TreeNode {
  @IsString() name!: string;
  @IsOptional() @ValidateNested({ each: true }) @Type(() => TreeNode) children?: TreeNode[];
  @IsOptional() @ValidateNested() @Type(() => TreeNode) parent?: TreeNode;
}

const properties = (schema: JSONSchema7): Record<string, unknown> => schema.properties ?? {};

const canonicalOf = (schema: JSONSchema7): string =>
  canonicalJson(JSON.parse(JSON.stringify(schema)) as JsonValue);

describe('nested classes', () => {
  it('stand where they are used', () => {
    class Customer {
      @ValidateNested() @Type(() => Address) home!: Address;
    }
    expect(dtoSchema(Customer)).toEqual({
      schema: {
        type: 'object',
        properties: { home: ADDRESS },
        required: ['home'],
        additionalProperties: false,
      },
      needsClassValidator: false,
      hidden: [],
      findings: [],
      backtracking: [],
    });
  });

  it('are nullable where they say so, and not where they are optional', () => {
    class Customer {
      @IsOptional() @ValidateNested() @Type(() => Address) home?: Address;
      @ToolField({ nullable: true }) @ValidateNested() @Type(() => Other) work: Other | null = null;
    }
    expect(dtoSchema(Customer).schema).toEqual({
      type: 'object',
      properties: { home: ADDRESS, work: { ...OTHER, type: ['object', 'null'], default: null } },
      additionalProperties: false,
    });
  });

  it('are the items of lists, and of lists of lists', () => {
    class Customer {
      @IsArray() @ValidateNested({ each: true }) @Type(() => Address) homes!: Address[];
    }
    class Grid {
      @IsArray()
      @IsArray({ each: true })
      @ValidateNested({ each: true })
      @Type(() => Address)
      rows!: Address[][];
    }
    expect(properties(dtoSchema(Customer).schema)['homes']).toEqual({
      type: 'array',
      items: ADDRESS,
    });
    expect(properties(dtoSchema(Grid).schema)['rows']).toEqual({
      type: 'array',
      items: { type: 'array', items: ADDRESS },
    });
  });

  it('are in $defs when they are used twice', () => {
    class Customer {
      @ValidateNested() @Type(() => Address) home!: Address;
      @IsOptional() @ValidateNested() @Type(() => Address) holiday?: Address;
      @ToolField({ nullable: true }) @ValidateNested() @Type(() => Address) work: Address | null =
        null;
      @ValidateNested({ each: true }) @Type(() => Address) others!: Address[];
    }
    expect(dtoSchema(Customer).schema).toEqual({
      type: 'object',
      properties: {
        home: { $ref: '#/$defs/Address' },
        holiday: { $ref: '#/$defs/Address' },
        work: { $ref: '#/$defs/AddressOrNull', default: null },
        others: { type: 'array', items: { $ref: '#/$defs/Address' } },
      },
      required: ['home', 'others'],
      additionalProperties: false,
      $defs: { Address: ADDRESS, AddressOrNull: { ...ADDRESS, type: ['object', 'null'] } },
    });
  });

  it('may hold themselves', () => {
    const { schema, findings } = dtoSchema(TreeNode);
    const node: JSONSchema7 = {
      type: 'object',
      properties: {
        name: { type: 'string' },
        children: { type: 'array', items: { $ref: '#/$defs/TreeNode' } },
        parent: { $ref: '#/$defs/TreeNode' },
      },
      required: ['name'],
      additionalProperties: false,
    };
    expect(findings).toEqual([]);
    expect(schema).toEqual({ ...node, $defs: { TreeNode: node } });
    expect(subsetProblems(schema)).toEqual([]);
  });

  it('are kept apart when two have one name', () => {
    const billing = (() => {
      class Party {
        @IsString() vat!: string;
      }
      return Party;
    })();
    class Party {
      @IsInt() age!: number;
    }
    class Contract {
      @ValidateNested() @Type(() => Party) buyer!: Party;
      @ValidateNested() @Type(() => billing) payer!: object;
      @ValidateNested() @Type(() => billing) payee!: object;
      @ValidateNested() @Type(() => Party) seller!: Party;
    }
    const { schema } = dtoSchema(Contract);
    expect(properties(schema)).toEqual({
      buyer: { $ref: '#/$defs/Party' },
      payer: { $ref: '#/$defs/Party_2' },
      payee: { $ref: '#/$defs/Party_2' },
      seller: { $ref: '#/$defs/Party' },
    });
    expect(Object.keys(schema.$defs ?? {})).toEqual(['Party', 'Party_2']);
    expect(canonicalOf(dtoSchema(Contract).schema)).toBe(canonicalOf(schema));
  });

  it('make the whole need class-validator when they do', () => {
    class Odd {
      @Validate(Never) @IsInt() value!: number;
    }
    class Outer {
      @ValidateNested() @Type(() => Odd) odd!: Odd;
    }
    expect(dtoSchema(Outer).needsClassValidator).toBe(true);
  });

  it('report what is wrong with them under their own name, once', () => {
    class Broken {
      @IsNotEmpty() value: unknown;
    }
    class Outer {
      @ValidateNested() @Type(() => Broken) one!: Broken;
      @IsOptional() @ValidateNested() @Type(() => Broken) other?: Broken;
    }
    expect(dtoSchema(Outer).findings.map(({ path, problem }) => `${path} ${problem}`)).toEqual([
      'Broken.value has no decorator that gives its type',
    ]);
  });

  it('are lists only where a decorator says so', () => {
    class Customer {
      @ValidateNested() @Type(() => Address) homes!: Address[];
    }
    expect(dtoSchema(Customer).findings).toEqual([
      {
        path: 'Customer.homes',
        problem: 'is an array, and @ValidateNested() does not say so',
        remedy: 'Write @ValidateNested({ each: true }).',
      },
    ]);
  });
});

describe('inheritance', () => {
  class Page {
    @IsInt() @Min(1) page = 1;
    @IsString() @MinLength(5) order!: string;
  }
  class Search extends Page {
    @IsString() query!: string;
    @IsString() @MaxLength(9) declare order: string;
  }

  it('puts the base first, and lets the class have the last word where class-validator does', () => {
    const { schema } = dtoSchema(Search);
    expect(Object.keys(properties(schema))).toEqual(['page', 'query', 'order']);
    expect(properties(schema)['order']).toEqual({ type: 'string', maxLength: 9 });
    expect(schema.required).toEqual(['query', 'order']);
  });

  it('leaves the base as it was', () => {
    expect(properties(dtoSchema(Page).schema)['order']).toEqual({ type: 'string', minLength: 5 });
  });
});

describe('defaults', () => {
  class Search {
    @IsInt() limit = 10;
    @IsString({ each: true }) tags: string[] = ['a'];
    @ToolField({ nullable: true }) @IsString() note: string | null = null;
    @IsOptional() @IsString() comment: string | null = null;
    @IsString() name: string | null = null;
    @IsObject() filter = { open: true };
    @IsString() id = randomUUID();
    @IsOptional() @ValidateNested() @Type(() => Address) home = new Address();
    @IsNumber() ratio = Number.NaN;
    @IsString() later: string | undefined = undefined;
  }

  it('are what the initialisers give, where JSON can say it', () => {
    const { schema, findings } = dtoSchema(Search);
    const given = Object.entries(properties(schema)).flatMap(([name, value]) =>
      typeof value === 'object' && value !== null && 'default' in value
        ? [[name, value.default]]
        : [],
    );
    expect(findings).toEqual([]);
    expect(Object.fromEntries(given)).toEqual({
      limit: 10,
      tags: ['a'],
      note: null,
      filter: { open: true },
    });
  });

  it('make a property optional, whether JSON can say them or not', () => {
    expect(dtoSchema(Search).schema.required).toEqual(['name', 'later']);
  });

  it('cannot come from a constructor that throws', () => {
    class Needy {
      @IsString() name: string;
      constructor(source: { name: string }) {
        this.name = source.name;
      }
    }
    expect(dtoSchema(Needy).findings).toEqual([
      {
        path: 'Needy',
        problem: 'cannot be made without arguments, as class-transformer makes it',
        remedy: 'Let its constructor take none and throw nothing.',
      },
    ]);
  });
});

describe('what the compiler recorded', () => {
  it('counts where no decorator tells the type', () => {
    class Search {
      @IsNotEmpty() name!: string;
      @IsOptional() limit?: number;
      @ToolField({ description: 'Whether to go on' }) more!: boolean;
      @IsNotEmpty() priority!: Priority;
    }
    expect(properties(dtoSchema(Search).schema)).toEqual({
      name: { type: 'string', minLength: 1 },
      limit: { type: 'number' },
      more: { type: 'boolean', description: 'Whether to go on' },
      priority: { type: 'string', minLength: 1 },
    });
  });

  it('never counts against a decorator', () => {
    class Search {
      @IsEnum(Priority) priority!: Priority;
      @IsOptional() @IsEnum(Priority) other?: Priority | null;
      @IsString() name!: PriorityName;
      @IsArray() @IsString({ each: true }) tags!: readonly string[];
      @IsOptional() @IsString() note!: string | null;
      @ValidateNested({ each: true }) @Type(() => Address) homes!: readonly Address[];
    }
    const { schema, findings } = dtoSchema(Search);
    expect(findings).toEqual([]);
    expect(properties(schema)).toEqual({
      priority: { type: 'string', enum: ['low', 'high'] },
      other: { type: 'string', enum: ['low', 'high'] },
      name: { type: 'string' },
      tags: { type: 'array', items: { type: 'string' } },
      note: { type: 'string' },
      homes: { type: 'array', items: ADDRESS },
    });
  });

  it('says too little of an interface, a Date or an array', () => {
    class Search {
      @IsNotEmpty() filter!: { open: boolean };
      @IsNotEmpty() since!: Date;
      @IsNotEmpty() tags!: string[];
    }
    expect(dtoSchema(Search).findings.map(({ path, problem }) => `${path} ${problem}`)).toEqual([
      'Search.filter has no decorator that gives its type',
      'Search.since has no decorator that gives its type',
      'Search.tags has no decorator that gives its type',
    ]);
  });

  it('finds Maps and Sets', () => {
    class Search {
      @IsNotEmpty() tags!: Set<string>;
    }
    expect(dtoSchema(Search).findings[0]?.problem).toBe(
      'is a Map or a Set, which JSON does not have',
    );
  });

  it('is not enough for a class without any decorator', () => {
    class Plain {
      name!: string;
    }
    expect(dtoSchema(Plain).findings.map(({ path, problem }) => `${path} ${problem}`)).toEqual([
      'Plain has no decorated property, so nothing is known about its arguments',
    ]);
  });
});

describe('ToolField', () => {
  it('describes a property, before what a decorator adds', () => {
    class Search {
      @ToolField({ description: 'Whom to look for.', example: 'Jo' }) @IsString() name!: string;
      @ToolField({ description: 'How bad.' }) @IsEnum({ Low: 1, High: 2 }) level!: number;
    }
    expect(properties(dtoSchema(Search).schema)).toEqual({
      name: { type: 'string', description: 'Whom to look for.', examples: ['Jo'] },
      level: { type: 'number', enum: [1, 2], description: 'How bad. 1 = Low, 2 = High.' },
    });
  });

  it('makes null a value, which class-validator takes too', async () => {
    class Search {
      @ToolField({ nullable: true }) @IsString() @MinLength(2) name!: string | null;
      @ToolField({ nullable: true }) @IsOptional() @IsEnum(Priority) priority?: Priority | null;
    }
    const { schema, needsClassValidator } = dtoSchema(Search);
    expect(schema).toMatchObject({
      properties: {
        name: { type: ['string', 'null'], minLength: 2 },
        priority: { type: ['string', 'null'], enum: ['low', 'high', null] },
      },
      required: ['name'],
    });
    expect(needsClassValidator).toBe(false);
    expect(await validate(Object.assign(new Search(), { name: null, priority: null }))).toEqual([]);
    expect(await validate(Object.assign(new Search(), { name: 'a' }))).toHaveLength(1);
    expect(await validate(new Search())).toHaveLength(1);
  });

  it('is inherited', () => {
    class Base {
      @ToolField({ description: 'Whom.' }) @IsString() name!: string;
    }
    class Search extends Base {
      @MinLength(2) declare name: string;
    }
    expect(properties(dtoSchema(Search).schema)['name']).toEqual({
      type: 'string',
      minLength: 2,
      description: 'Whom.',
    });
  });
});

describe('class-transformer', () => {
  it('hides what the ui or the audit may not see', () => {
    class Inner {
      @IsString() @Exclude({ toPlainOnly: true }) secret!: string;
    }
    class Search {
      @IsString() open!: string;
      @IsString() @Expose() exposed!: string;
      @IsString() @Expose({ groups: ['model', 'ui', 'audit'] }) all!: string;
      @IsString() @Expose({ groups: ['model', 'audit'] }) model!: string;
      @IsString() @Expose({ groups: ['model', 'ui'] }) unaudited!: string;
      @IsString() @Exclude({ toPlainOnly: true }) excluded!: string;
      @ValidateNested() @Type(() => Inner) inner!: Inner;
    }
    const { hidden, findings } = dtoSchema(Search);
    expect(findings).toEqual([]);
    expect(hidden).toEqual(['model', 'unaudited', 'excluded', 'inner']);
  });

  it('hides a property that its class exposes to no audience', () => {
    @Exclude()
    class Search {
      @IsString() @Expose() name!: string;
      @IsString() @Expose({ toClassOnly: true }) secret!: string;
    }
    expect(dtoSchema(Search)).toMatchObject({ hidden: ['secret'], findings: [] });
  });

  it('must not keep an argument from the tool', () => {
    class Search {
      @IsString() @Exclude() secret!: string;
      @IsString() @Expose({ groups: ['admin'] }) grouped!: string;
      @IsString() @Expose({ name: 'first_name' }) firstName!: string;
      @IsString() @Expose({ name: 'last_name', toPlainOnly: true }) lastName!: string;
    }
    expect(dtoSchema(Search).findings.map(({ path, problem }) => `${path} ${problem}`)).toEqual([
      'Search.secret never arrives: class-transformer leaves it out of the instance',
      'Search.grouped never arrives: class-transformer leaves it out of the instance',
      'Search.firstName is renamed "first_name" by @Expose({ name })',
    ]);
  });

  it('may change a value, which class-validator must look at then', () => {
    class Search {
      @IsString()
      @MinLength(2)
      @Transform(({ value }: { value: string }) => value.trim())
      name!: string;
    }
    expect(dtoSchema(Search).needsClassValidator).toBe(true);
  });
});
