import 'reflect-metadata';
import type { Type } from '@nestjs/common';
import type { JSONSchema7TypeName } from 'json-schema';
import type { JsonValue } from '../protocol/json.js';

/** How a named argument looks to the model. Overrides the parameter's TypeScript type. */
export interface ToolParamOptions {
  readonly description: string;
  /** @default the parameter's TypeScript type */
  readonly type?: Exclude<JSONSchema7TypeName, 'object' | 'null'>;
  /** A TypeScript enum, string or numeric, or a list of values. */
  readonly enum?: Readonly<Record<string, string | number>> | readonly (string | number)[];
  /** Items of an array. @default strings */
  readonly items?: Omit<ToolParamOptions, 'description' | 'required' | 'default' | 'items'>;
  /** Makes the argument optional. */
  readonly default?: JsonValue;
  /** @default true, unless there is a default */
  readonly required?: boolean;
  readonly nullable?: boolean;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly pattern?: string;
  readonly format?: string;
}

/** What a parameter of a tool's method receives. */
export type ToolParameter =
  | { readonly kind: 'input'; readonly index: number; readonly type: Type | undefined }
  | { readonly kind: 'param'; readonly index: number; readonly name: string; readonly options: ToolParamOptions }
  | { readonly kind: 'context'; readonly index: number };

export const TOOL_PARAMETERS_METADATA = 'toolloop:tool-parameters';

/** The parameter receives all arguments as one DTO, whose class-validator decorators are its schema. Give the class where the type is an interface or a union. */
export function ToolInput(type?: Type): ParameterDecorator {
  return record((index) => ({ kind: 'input', index, type }));
}

/** The parameter receives one scalar, or list of scalars, of that name. */
export function ToolParam(name: string, options: ToolParamOptions): ParameterDecorator {
  return record((index) => ({ kind: 'param', index, name, options }));
}

/** The parameter receives the `ToolCallContext`: actor, tenant, signal and the like. */
export function ToolContext(): ParameterDecorator {
  return record((index) => ({ kind: 'context', index }));
}

function record(describe: (index: number) => ToolParameter): ParameterDecorator {
  return (prototype, property, index) => {
    if (property === undefined) return; // a constructor's parameter; nothing would ever read it
    const own: unknown = Reflect.getOwnMetadata(TOOL_PARAMETERS_METADATA, prototype, property);
    const others: readonly unknown[] = Array.isArray(own) ? own : [];
    Reflect.defineMetadata(TOOL_PARAMETERS_METADATA, [...others, describe(index)], prototype, property);
  };
}
