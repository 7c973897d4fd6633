import type { Type } from '@nestjs/common';
import 'reflect-metadata';
import {
  TOOL_EXECUTION_OPTIONS,
  type ToolExecutionOptions,
} from '../../contracts/execution-options.js';
import type { EntityResolver, Rehydrate } from '../../contracts/entity.js';
import { defineOptions, inWords, ITS, type OptionRule } from '../../findings/options.js';
import { either, listOf, oneOf, optionsOf, TEXT } from '../../findings/option-rules.js';

const MOST_INSTRUCTION_BYTES = 1_024;

/** Every model that has the tools reads them: what grows with the data belongs into results. */
const INSTRUCTIONS: OptionRule<string> = {
  wanted: `a text that is not blank, ${MOST_INSTRUCTION_BYTES} bytes at most`,
  accept: (value) =>
    typeof value === 'string' &&
    value.trim() !== '' &&
    Buffer.byteLength(value) <= MOST_INSTRUCTION_BYTES,
  problem: (value, option) =>
    typeof value === 'string' && value.trim() !== ''
      ? `${option} have ${Buffer.byteLength(value)} bytes.`
      : `${option} are ${inWords(value)}.`,
};

export const TOOL_PROVIDER = defineOptions<ToolProviderOptions>(
  {
    namespace: TEXT,
    prefix: TEXT,
    instanceIdProperty: either(TEXT, listOf(TEXT, 'a list of names')),
    tenantProperty: TEXT,
    rehydrate: oneOf('never', 'on-resume', 'always'),
    instructions: INSTRUCTIONS,
    execution: optionsOf(TOOL_EXECUTION_OPTIONS, { isHere: true }),
  },
  { wording: ITS },
);

export const TOOL_PROVIDER_METADATA = 'toolloop:tool-provider';

/**
 * Marks a class whose `@LlmTool()` methods are tools: a Nest provider, whose tools are there from
 * the start, or an entity, whose tools appear when a tool returns an instance of it.
 *
 * @example
 * @ToolProvider({ prefix: 'crm' })
 * @Injectable()
 * export class CrmTools {}
 */
export function ToolProvider(options: ToolProviderOptions = {}): ClassDecorator {
  return (target) => {
    Reflect.defineMetadata(TOOL_PROVIDER_METADATA, options, target);
  };
}

/**
 * Options of a class whose methods are tools. A Nest provider has a namespace; an entity has a
 * prefix and an id.
 */
export interface ToolProviderOptions {
  /**
   * First part of a service tool's id. @default the class name in snake_case without `Tools` or
   * `Service`
   */
  readonly namespace?: string;
  /**
   * First part of an entity tool's id; matches `^[a-zA-Z][a-zA-Z0-9]*$`. @default the class name in
   * lower case
   */
  readonly prefix?: string;
  /**
   * The property or method of an entity that identifies an instance, or several properties that do
   * so together. Its value is a string, a number, or several of them in an array or a plain object.
   * @default 'id'
   */
  readonly instanceIdProperty?: string | readonly string[];
  /**
   * The property or method of an entity that names its tenant. With it, an instance of another
   * tenant than the run's brings no tools, and is refused if a resolver returns it. @default the
   * tenant is not checked
   */
  readonly tenantProperty?: string;
  /**
   * When an instance is loaded again by its `@ToolEntityResolver()`. @default 'always' if there is
   * one, else 'never'
   */
  readonly rehydrate?: Rehydrate;
  /**
   * Instructions to the model for all tools of the class, such as the order in which to call them:
   * one static text for all instances, tenants and runs, at most 1,024 bytes. It is written into
   * the transcript once, where the first of the tools came. @default none
   */
  readonly instructions?: string;
  /** Validation, logging and result format of its tools; overrides the application's. */
  readonly execution?: ToolExecutionOptions;
}

export const ENTITY_RESOLVER_METADATA = 'toolloop:entity-resolver';

/**
 * Marks the provider that finds instances of an entity class again, by their id and under the
 * current actor. One per class, in any module; request-scoped ones are made once per part of a run.
 * How often it is asked is said on the entity: `@ToolProvider({ rehydrate })`.
 *
 * @example
 * @ToolEntityResolver(Customer)
 * @Injectable()
 * export class CustomerResolver {}
 */
export function ToolEntityResolver<Entity extends object>(
  entity: Type<Entity>,
): (target: abstract new (...args: never[]) => EntityResolver<Entity>) => void {
  return (target) => {
    Reflect.defineMetadata(ENTITY_RESOLVER_METADATA, { entity }, target);
  };
}
