import { Injectable, type Type } from '@nestjs/common';
import { LlmTool, ToolInput, ToolProvider } from '@toolloop/core';
import { Expose } from 'class-transformer';
import {
  ArrayMaxSize,
  IsArray,
  IsBoolean,
  IsIn,
  IsInt,
  IsNumber,
  IsOptional,
  IsString,
  Matches,
  Max,
  MaxLength,
  Min,
} from 'class-validator';

const TOOLS_PER_CLASS = 10;

/** The answer of the tools. */
class Row {
  @Expose() readonly id!: string;
  @Expose() readonly name!: string;
  @Expose({ groups: ['model'] }) readonly amount!: number;
}

/** A new DTO class, with ten properties. */
function freshInput(): Type {
  class Input {
    @IsString() @MaxLength(80) name!: string;
    @IsOptional() @IsString() city?: string;
    @Matches(/^c-\d+$/) customer!: string;
    @IsIn(['open', 'paid', 'cancelled']) status!: string;
    @IsInt() @Min(1) @Max(50) limit!: number;
    @IsOptional() @IsInt() @Min(0) offset?: number;
    @IsOptional() @IsNumber() amount?: number;
    @IsBoolean() active!: boolean;
    @IsOptional() @IsBoolean() archived?: boolean;
    @IsArray() @ArrayMaxSize(10) @IsString({ each: true }) tags!: string[];
  }
  return Input;
}

/**
 * New provider classes with so many tools in all, each with a DTO of its own. The twins have
 * methods, and no decorators on them.
 */
export function freshProviders(tools: number, kind: 'tools' | 'twins'): Type[] {
  return Array.from({ length: Math.ceil(tools / TOOLS_PER_CLASS) }, (_, index) => {
    class Tools {
      readonly index = index;
    }
    const count = Math.min(TOOLS_PER_CLASS, tools - index * TOOLS_PER_CLASS);
    for (let method = 0; method < count; method += 1)
      addMethod(Tools.prototype, `search${method}`, kind);
    Injectable()(Tools);
    if (kind === 'tools') ToolProvider({ namespace: `bench${index}` })(Tools);
    return Tools;
  });
}

/**
 * Adds the metadata that the compiler makes of a decorated method, by hand, since the classes are
 * made by the thousand.
 */
function addMethod(prototype: object, name: string, kind: 'tools' | 'twins'): void {
  const descriptor = {
    value: (given: object) => given,
    configurable: true,
    enumerable: false,
    writable: true,
  };
  Object.defineProperty(prototype, name, descriptor);
  if (kind === 'twins') return;
  const input = freshInput();
  Reflect.defineMetadata('design:paramtypes', [input], prototype, name);
  ToolInput(input)(prototype, name, 0);
  LlmTool({
    description: `Searches for rows by ten criteria (${name}).`,
    effect: 'read_only',
    output: [Row],
  })(prototype, name, descriptor);
}
