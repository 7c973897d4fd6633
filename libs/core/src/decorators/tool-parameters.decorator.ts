import type { Type } from '@nestjs/common';
import { isObject, type JsonValue } from '@toolloop/protocol';
import { Allow, ValidateIf } from 'class-validator';
import type { JSONSchema7Type, JSONSchema7TypeName } from 'json-schema';
import 'reflect-metadata';
import {
  BOOLEAN,
  CHECKED_BY_USE,
  defineOptions,
  isWhole,
  needed,
  NUMBER,
  oneOf,
  type OptionRule,
  optionsOf,
  TEXT,
} from '../findings/options.js';

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

type ItemOptions = NonNullable<ToolParamOptions['items']>;

const COUNT: OptionRule<number> = { wanted: 'a whole number, 0 or more', accept: (value) => isWhole(value, 0) };
const VALUES: OptionRule<NonNullable<ToolParamOptions['enum']>> = {
  wanted: 'a TypeScript enum or a list of values',
  accept: (value) => isObject(value) && Object.values(value).every((one) => typeof one === 'string' || typeof one === 'number'),
};

/** The keywords of JSON Schema among them. */
export const BOUNDS = defineOptions<Omit<ItemOptions, 'type' | 'enum' | 'nullable'>>({
  minimum: NUMBER,
  maximum: NUMBER,
  minLength: COUNT,
  maxLength: COUNT,
  minItems: COUNT,
  maxItems: COUNT,
  pattern: TEXT,
  format: TEXT,
});

const TOOL_PARAM_ITEMS = defineOptions<ItemOptions>({
  ...BOUNDS.rules,
  type: oneOf('string', 'number', 'integer', 'boolean', 'array'),
  enum: VALUES,
  nullable: BOOLEAN,
});

/** What `@ToolParam()` takes. */
export const TOOL_PARAM = defineOptions<ToolParamOptions>({
  ...TOOL_PARAM_ITEMS.rules,
  description: needed(TEXT),
  items: optionsOf(TOOL_PARAM_ITEMS),
  default: CHECKED_BY_USE,
  required: BOOLEAN,
});

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

/** What a model is told about one property of a DTO. Its type and its bounds come from class-validator. */
export interface ToolFieldOptions {
  readonly description?: string;
  readonly example?: JSONSchema7Type;
  /**
   * Makes null a value of its own, which class-validator takes too. Without it, null on an optional property (`@IsOptional()`, or an initialiser) is the same as leaving it
   * out: the default applies.
   * @default false
   */
  readonly nullable?: boolean;
}

/** What `@ToolField()` takes; the findings name the property before it. */
export const TOOL_FIELD = defineOptions<ToolFieldOptions>(
  { description: TEXT, example: CHECKED_BY_USE, nullable: BOOLEAN },
  { wording: { unknown: 'has a @ToolField() with "*", which is no option', option: 'has a @ToolField() whose "*"' } },
);

const TOOL_FIELD_METADATA = 'toolloop:tool-field';

/**
 * Describes a property of a `@ToolInput()` DTO to the model. A property that no class-validator decorator names becomes an argument by it; it includes `@Allow()`, so that
 * a whitelisting pipe keeps the property.
 */
export function ToolField(options: ToolFieldOptions): PropertyDecorator {
  return (prototype, property) => {
    if (typeof property === 'symbol') return; // JSON has no symbols
    Allow()(prototype, property);
    if (options.nullable === true) ValidateIf(isNotNull)(prototype, property);
    Reflect.defineMetadata(TOOL_FIELD_METADATA, options, prototype, property);
  };
}

/** The condition of a nullable property; by its identity it is told from the conditions of an application. */
export function isNotNull(_: object, value: unknown): boolean {
  return value !== null;
}

/** What `@ToolField()` says about a property, on the class or on one it extends. */
export function toolFieldOf(type: Type, property: string): ToolFieldOptions {
  return (Reflect.getMetadata(TOOL_FIELD_METADATA, type.prototype as object, property) ?? {}) as ToolFieldOptions;
}
