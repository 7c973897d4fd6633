import type { Type } from '@nestjs/common';
import { isObject, type JsonValue } from '@toolloop/protocol';
import type { JSONSchema7TypeName } from 'json-schema';
import {
  BOOLEAN,
  NUMBER,
  TEXT,
  isWhole,
  needed,
  oneOf,
  optionsOf,
} from '../../findings/option-rules.js';
import { CHECKED_BY_USE, defineOptions, type OptionRule } from '../../findings/options.js';
import { recordMember } from './decorated-members.js';
import type { ToolFieldOptions } from './tool-field.decorator.js';

/**
 * The parameter receives one scalar, or list of scalars, of that name.
 *
 * @example
 * getOrder(@ToolParam('id', { description: 'The id of the order.' }) id: string): Promise<Order>
 */
export function ToolParam(name: string, options: ToolParamOptions): ParameterDecorator {
  return record((index) => ({ kind: 'param', index, name, options }));
}

/** The description of a named argument for the model. Overrides the parameter's TypeScript type. */
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

const COUNT: OptionRule<number> = {
  wanted: 'a whole number, 0 or more',
  accept: (value) => isWhole(value, 0),
};
const VALUES: OptionRule<NonNullable<ToolParamOptions['enum']>> = {
  wanted: 'a TypeScript enum or a list of values',
  accept: (value) =>
    isObject(value) &&
    Object.values(value).every((one) => typeof one === 'string' || typeof one === 'number'),
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

export const TOOL_PARAM = defineOptions<ToolParamOptions>({
  ...TOOL_PARAM_ITEMS.rules,
  description: needed(TEXT),
  items: optionsOf(TOOL_PARAM_ITEMS),
  default: CHECKED_BY_USE,
  required: BOOLEAN,
});

/** The argument for a parameter of a tool's method. */
export type ToolParameter =
  | { readonly kind: 'input'; readonly index: number; readonly type: Type | undefined }
  | {
      readonly kind: 'param';
      readonly index: number;
      readonly name: string;
      readonly options: ToolParamOptions;
    }
  | { readonly kind: 'context'; readonly index: number };

export const TOOL_PARAMETERS_METADATA = 'toolloop:tool-parameters';

/**
 * The parameter receives all arguments as one DTO, whose class-validator decorators are its schema.
 * Give the class where the type is an interface or a union.
 *
 * @example
 * search(@ToolInput() { number, limit }: SearchOrders): Promise<Order[]>
 */
export function ToolInput(type?: Type): ParameterDecorator {
  return record((index) => ({ kind: 'input', index, type }));
}

/**
 * The parameter receives the `ToolCallContext`: actor, tenant, signal and the like.
 *
 * @example
 * refund(
 *   @ToolInput() { orderId }: Refund,
 *   @ToolContext() { tenant, signal }: ToolCallContext,
 * ): Promise<Order>
 */
export function ToolContext(): ParameterDecorator {
  return record((index) => ({ kind: 'context', index }));
}

function record(describe: (index: number) => ToolParameter): ParameterDecorator {
  return (prototype, property, index) => {
    if (property === undefined) return; // a constructor's parameter; nothing would ever read it
    const own: unknown = Reflect.getOwnMetadata(TOOL_PARAMETERS_METADATA, prototype, property);
    const others: readonly unknown[] = Array.isArray(own) ? own : [];
    Reflect.defineMetadata(
      TOOL_PARAMETERS_METADATA,
      [...others, describe(index)],
      prototype,
      property,
    );
    recordMember(prototype, property);
  };
}

/** The facts that a library knows of a property beside its decorators. */
export interface KnownField extends ToolFieldOptions {
  /**
   * The only values that are written into it, null among them where it may be null: another one
   * counts as text. @default any
   */
  readonly values?: readonly (string | null)[];
}
