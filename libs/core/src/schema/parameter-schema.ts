import type { JSONSchema7, JSONSchema7Type, JSONSchema7TypeName } from 'json-schema';
import {
  BOUNDS,
  type ToolParameter,
  type ToolParamOptions,
} from '../tools/decorators/tool-parameters.decorator.js';
import { designTypeOf, enumValues, numberNames } from './input-properties.js';
import { isJson } from './property-defaults.js';
import type { PropertyProblem } from './property-schema.js';

/** The JSON form of a method's named parameters. */
export interface ParameterSchema {
  readonly schema: JSONSchema7;
  readonly findings: readonly (PropertyProblem & { readonly path: string })[];
}

/** A parameter decorated with `@ToolParam()`. */
export type NamedParameter = Extract<ToolParameter, { readonly kind: 'param' }>;

/** The options that apply to a value, and to the items of an array. */
type ValueOptions = Omit<ToolParamOptions, 'description' | 'required' | 'default' | 'items'>;

/**
 * Makes the schema of an object with a property per parameter. The options win over `designTypes`,
 * which differ between compilers.
 */
export function parameterSchema(
  parameters: readonly NamedParameter[],
  designTypes: readonly unknown[],
): ParameterSchema {
  const entries = parameters.map(
    ({ name, index, options }) => [name, valueSchema(options, designTypes[index])] as const,
  );
  const required = parameters
    .filter(({ options }) => options.required ?? options.default === undefined)
    .map(({ name }) => name);
  const schema: JSONSchema7 = {
    type: 'object',
    properties: Object.fromEntries(entries.map(([name, value]) => [name, value ?? {}])),
    ...(required.length > 0 && { required }),
    additionalProperties: false,
  };
  const untyped = entries
    .filter(([, value]) => value === undefined)
    .map(([name]) => untypedFinding(name));
  return { schema, findings: [...untyped, ...parameters.flatMap(valueProblems)] };
}

function untypedFinding(path: string): PropertyProblem & { readonly path: string } {
  const remedy =
    'Say it in the options: @ToolParam(name, { type: "string" }), or enum: Status. Take an object by @ToolInput() with a DTO class.';
  return { path, problem: 'is a parameter whose type is not known at run time', remedy };
}

function valueProblems({
  name,
  options,
}: NamedParameter): (PropertyProblem & { readonly path: string })[] {
  const problems: (PropertyProblem & { readonly path: string })[] = [];
  const say = (problem: string, remedy: string): number =>
    problems.push({ path: name, problem, remedy });
  if (name in Object.prototype) say('is a name that every object has', 'Choose another.');
  if (options.default !== undefined && !isJson(options.default))
    say('has a default that is not JSON', 'Give a JSON value.');
  if ([options, options.items].some((value) => value && enumOf(value)?.length === 0))
    say('allows no value at all', 'Give its enum values.');
  return problems;
}

function valueSchema(options: ToolParamOptions, designType: unknown): JSONSchema7 | undefined {
  const { items, default: given } = options;
  const types = options.type
    ? [options.type]
    : ((items && (['array'] as const)) ?? typesOfValues(options) ?? typesOfDesign(designType));
  if (!types) return undefined;
  const isList = types.some((type) => type === 'array');
  const nullable = options.nullable ?? given === null;
  return {
    description: describe(options),
    ...scalarSchema(types, { ...options, nullable, enum: isList ? undefined : options.enum }),
    ...(isList && { items: itemSchema({ enum: options.enum, ...items }) }),
    ...(isJson(given) && { default: given }),
  };
}

function describe({ description, enum: values }: ToolParamOptions): string {
  const names = values === undefined || Array.isArray(values) ? undefined : numberNames(values);
  return names === undefined ? description : `${description} ${names}`;
}

function itemSchema(options: ValueOptions): JSONSchema7 {
  return scalarSchema(
    options.type ? [options.type] : (typesOfValues(options) ?? ['string']),
    options,
  );
}

function scalarSchema(types: readonly JSONSchema7TypeName[], options: ValueOptions): JSONSchema7 {
  const all: readonly JSONSchema7TypeName[] =
    options.nullable === true ? [...types, 'null'] : types;
  const values = enumOf(options);
  return {
    type: all.length === 1 ? all[0] : [...all],
    ...(values && { enum: options.nullable === true ? [...values, null] : [...values] }),
    ...BOUNDS.copy(options),
  };
}

function enumOf({ enum: values }: ValueOptions): readonly JSONSchema7Type[] | undefined {
  if (values === undefined) return undefined;
  return (Array.isArray(values) ? values : enumValues(values)).filter(isJson);
}

function typesOfValues(options: ValueOptions): readonly JSONSchema7TypeName[] | undefined {
  const types = new Set(
    enumOf(options)?.map((value) => (typeof value === 'number' ? 'number' : 'string')),
  );
  return types.size > 0 ? [...types] : undefined;
}

/**
 * Returns the JSON types of a compiler's type. The items of an array are unknown unless the options
 * name them.
 */
function typesOfDesign(designType: unknown): readonly JSONSchema7TypeName[] | undefined {
  const known = designTypeOf(designType);
  return known === undefined || known === 'array' ? undefined : [known];
}
