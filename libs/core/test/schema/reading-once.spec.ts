import { describe, expect, it } from '@jest/globals';
import { Expose } from 'class-transformer';
import {
  getMetadataStorage,
  IsInt,
  IsOptional,
  IsString,
  Max,
  MaxLength,
  Min,
} from 'class-validator';
import * as fc from 'fast-check';
import type { JsonValue } from '@toolloop/core';
import { canonicalDeclaration, canonicalJson } from '../../src/schema/canonical-json.js';
import { DtoClasses } from '../../src/schema/dto-schema.js';
import { ProjectionCompiler } from '../../src/schema/result-projection.js';
import { SchemaValidators } from '../../src/schema/validators.js';
import { validationRulesOf } from '../../src/schema/validation-rules.js';

class Base {
  @IsString() name!: string;
  @IsInt() @Min(1) limit!: number;
}

class Middle extends Base {
  @MaxLength(10) override name!: string;
}

class Leaf extends Middle {
  @IsInt() @Max(5) override limit!: number;
  @IsOptional() @IsString() note?: string;
}

class Unrelated {
  @IsString() secret!: string;
}

describe('validationRulesOf', () => {
  it.each([Base, Middle, Leaf, Unrelated])('knows of %p what class-validator knows', (type) => {
    const own = getMetadataStorage().getTargetValidationMetadatas(type, '', false, false);
    const known = validationRulesOf(type).map(({ property, name }) => `${property} ${name}`);
    expect(known.toSorted()).toEqual(
      own.map(({ propertyName, name }) => `${propertyName} ${name ?? ''}`).toSorted(),
    );
  });

  it('names base classes first', () => {
    const known = validationRulesOf(Leaf).map(({ property, name }) => `${property} ${name}`);
    expect(known).toEqual([
      'name isString',
      'name maxLength',
      'limit max',
      'limit isInt',
      'note isString',
      'note isOptional',
    ]);
  });
});

describe('DtoClasses', () => {
  it('reads a class once, and makes it no more often than that takes', () => {
    let made = 0;
    class Counted {
      @IsString() name = `${(made += 1)}`;
    }
    const classes = new DtoClasses();
    expect(classes.of(Counted)).toBe(classes.of(Counted));
    expect(made).toBe(2);
  });
});

const copy = (value: object): JsonValue => JSON.parse(JSON.stringify(value)) as JsonValue;

describe('canonicalDeclaration', () => {
  it('is the canonical text of the JSON copy, without the copy', () => {
    const odd = fc.constantFrom(
      undefined,
      new Date(0),
      Number.NaN,
      Number.POSITIVE_INFINITY,
      () => 1,
    );
    const value = fc.dictionary(fc.string(), fc.oneof(fc.jsonValue(), odd, fc.array(odd)));
    fc.assert(
      fc.property(value, (declared) =>
        expect(canonicalDeclaration(declared)).toBe(canonicalJson(copy(declared))),
      ),
    );
  });

  it('throws for what holds itself', () => {
    const circle: Record<string, unknown> = {};
    circle['self'] = circle;
    expect(() => canonicalDeclaration(circle)).toThrow(TypeError);
  });
});

describe('ProjectionCompiler', () => {
  class Row {
    @Expose() readonly id!: string;
  }

  it('gives one declared output one schema, so that it is compiled once, and each form of it its own', () => {
    const compiler = new ProjectionCompiler();
    const one = { type: Row, list: false, nullable: false };
    expect(compiler.compile(one).schema).toBe(compiler.compile({ ...one }).schema);
    expect(compiler.compile({ ...one, list: true }).schema).toMatchObject({ type: 'array' });
    expect(compiler.compile({ ...one, nullable: true }).schema).toMatchObject({
      type: ['object', 'null'],
    });
  });
});

describe('SchemaValidators', () => {
  it('holds a schema from outside against the schema of schemas', () => {
    const negative = {
      type: 'object',
      properties: { a: { type: 'string', minLength: -1 } },
    } as const;
    expect(new SchemaValidators().problemWith(negative)).toMatch(/minLength/);
  });
});
