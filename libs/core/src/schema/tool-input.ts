import type { Type } from '@nestjs/common';
import type { ArgumentProblem, Finding, JsonValue } from '@toolloop/protocol';
import type { ClassTransformOptions } from 'class-transformer';
import type { ValidationError } from 'class-validator';
import type { JSONSchema7, JSONSchema7Type, JSONSchema7TypeName } from 'json-schema';
import type { ToolCallContext } from '../contracts/tool-call.js';
import type { ToolInputCodec } from '../contracts/tool.js';
import type { ToolMethod } from '../decorators/tool-metadata.js';
import {
  BOUNDS,
  TOOL_PARAM,
  type ToolParameter,
  type ToolParamOptions,
} from '../decorators/tool-parameters.decorator.js';
import { classTransformer, classValidator, missingPackage } from '../findings/late-packages.js';
import { DtoClasses, type DtoFinding, dtoSchema } from './dto-schema.js';
import { optionalNullRemoval } from './optional-nulls.js';
import {
  designTypeOf,
  enumValues,
  INPUT_GROUPS,
  numberNames,
  type ValueType,
} from './property-metadata.js';
import { isJson, type PropertyProblem } from './property-schema.js';
import { type BacktrackingFinding, propertyNamesOf } from './subset.js';
import { pointerSegment } from './validators.js';

/** A codec, and the problems of its declaration. With any, the application does not start. */
export interface CompiledInput {
  readonly input: ToolInputCodec;
  readonly findings: readonly Finding[];
  /** The patterns that the linear engine cannot run. Absent if the schema alone tells them. */
  readonly backtracking?: readonly BacktrackingFinding[];
}

/** The place of a declaration, and the argument names that no model may send. */
export interface Declaration {
  readonly at: string;
  readonly reserved: readonly string[];
}

type InputParameter = Extract<ToolParameter, { readonly kind: 'input' }>;

export const NO_ARGUMENTS: JSONSchema7 = {
  type: 'object',
  properties: {},
  additionalProperties: false,
};

/**
 * Compiles the input of a decorated method: its DTO, or its named parameters, or nothing. Names
 * that `allowReserved` allows are not reserved.
 */
export function compileToolInput(
  declaration: Declaration & { readonly method: ToolMethod },
): CompiledInput {
  const { at, method } = declaration;
  const reserved = withoutAllowed(declaration.reserved, method.options?.allowReserved?.arguments);
  const misuse = [...roleFindings(at, method), ...undecoratedFindings(at, method)];
  const dto = method.parameters.find(
    (parameter): parameter is InputParameter => parameter.kind === 'input',
  );
  const compiled = dto
    ? compileInputParameter({ at, reserved }, dto.type ?? method.designTypes[dto.index])
    : compileParameters({ at, reserved }, method);
  return { ...compiled, findings: [...misuse, ...compiled.findings] };
}

/**
 * Returns the reserved names without those a tool may use. Most tools may use none, and share the
 * list, which is prepared for comparison once.
 */
export function withoutAllowed(
  reserved: readonly string[],
  allowed: readonly string[] = [],
): readonly string[] {
  return allowed.length === 0 ? reserved : reserved.filter((name) => !isReserved(name, allowed));
}

/** Compiles the input of a tool that takes a DTO class; it receives an instance. */
export function compileDtoInput({
  at,
  reserved,
  type,
}: Declaration & { readonly type: Type }): CompiledInput {
  const missing = missingPackage('class-validator', `The schema of ${type.name}`);
  if (missing) return unusableInput({ at, reserved }, missing);
  const classes = new DtoClasses();
  const { schema, hidden, needsClassValidator, findings, backtracking } = dtoSchema(type, classes);
  const told = ({ path, problem, remedy }: DtoFinding): Finding => ({
    at,
    problem: `${path} ${problem}.`,
    remedy,
  });
  const build = instanceBuilder(type, classes);
  const read: ToolInputCodec['read'] = needsClassValidator
    ? validatingReader(build)
    : (args) => ({ value: build(args) });
  return {
    input: { schema, hidden, reserved, normalize: optionalNullRemoval(schema), read, build },
    findings: [...findings.map(told), ...reservedFindings(at, schema, reserved)],
    backtracking: backtracking.map((pattern) =>
      Object.assign(told(pattern), { isBounded: pattern.isBounded }),
    ),
  };
}

/** Makes a reader that asks class-validator, which takes longer than the rest of the pipeline. */
function validatingReader(build: (args: unknown) => unknown): ToolInputCodec['read'] {
  return async (args) => {
    const value = build(args);
    const problems = await instanceProblems(value);
    return problems.length > 0 ? { problems } : { value };
  };
}

interface SchemaDeclaration extends Declaration {
  readonly schema: JSONSchema7;
  readonly read?: ToolInputCodec['read'];
}

/**
 * Compiles the input of a tool with its own schema. Without a `read` of its own it receives the
 * plain arguments.
 */
export function compileSchemaInput({
  at,
  reserved,
  schema,
  read = (args) => ({ value: args }),
}: SchemaDeclaration): CompiledInput {
  return {
    input: { schema, hidden: [], reserved, normalize: optionalNullRemoval(schema), read },
    findings: reservedFindings(at, schema, reserved),
  };
}

/**
 * Makes a placeholder for an input that cannot be used; its findings keep the application from
 * starting.
 */
export function unusableInput(
  { at, reserved }: Declaration,
  ...findings: readonly Omit<Finding, 'at'>[]
): CompiledInput {
  const { input } = compileSchemaInput({ at, reserved, schema: NO_ARGUMENTS });
  return { input, findings: findings.map(({ problem, remedy }) => ({ at, problem, remedy })) };
}

/**
 * Returns the positional arguments for the method: the instance, the named values, the context.
 * Gaps, and arguments that the model left out, are undefined.
 */
export function argumentsOf(
  method: ToolMethod,
  built: unknown,
  context: ToolCallContext,
): unknown[] {
  const list: unknown[] = [];
  for (const parameter of method.parameters) {
    while (list.length < parameter.index) list.push(undefined);
    list[parameter.index] = valueFor(parameter, built, context);
  }
  return list;
}

/**
 * Calls a method that is looked up when it is called, so that decorators which replace the function
 * are honoured.
 */
export function callMethod(target: object, property: string, args: readonly unknown[]): unknown {
  const found: unknown = Reflect.get(target, property);
  if (typeof found !== 'function')
    throw new TypeError(`${target.constructor.name}.${property} is not a method.`);
  return Reflect.apply(found, target, [...args]);
}

function valueFor(parameter: ToolParameter, built: unknown, context: ToolCallContext): unknown {
  if (parameter.kind === 'input') return built;
  if (parameter.kind === 'context') return context;
  const given = typeof built === 'object' && built !== null && Object.hasOwn(built, parameter.name);
  return given ? Reflect.get(built, parameter.name) : undefined;
}

function compileInputParameter(declaration: Declaration, type: unknown): CompiledInput {
  if (isDtoClass(type)) return compileDtoInput({ ...declaration, type });
  const problem = 'The class of the @ToolInput() parameter is not known at run time.';
  const remedy =
    'Give the class: @ToolInput(SearchCustomers), and import it as a value, not by "import type".';
  return unusableInput(declaration, { problem, remedy });
}

const NO_DTO = new Set<unknown>([
  String,
  Number,
  Boolean,
  Symbol,
  BigInt,
  Array,
  Object,
  Function,
  Promise,
  Map,
  Set,
  Date,
]);

/** Tells whether a value can be a DTO class; an arrow function has no prototype. */
export function isDtoClass(type: unknown): type is Type {
  return typeof type === 'function' && type.prototype !== undefined && !NO_DTO.has(type);
}

function compileParameters({ at, reserved }: Declaration, method: ToolMethod): CompiledInput {
  const declared = method.parameters.filter(
    (parameter): parameter is NamedParameter => parameter.kind === 'param',
  );
  const wrong = declared.flatMap(({ name, options }) =>
    TOOL_PARAM.findings(options, `${at}(${name})`),
  );
  const { schema, findings } = parameterSchema(declared.map(soundParameter), method.designTypes);
  const compiled = compileSchemaInput({ at, reserved, schema });
  const told = findings.map(({ path, problem, remedy }) => ({
    at,
    problem: `"${path}" ${problem}.`,
    remedy,
  }));
  return { input: compiled.input, findings: [...wrong, ...told, ...compiled.findings] };
}

function soundParameter({ kind, index, name, options }: NamedParameter): NamedParameter {
  return { kind, index, name, options: { description: '', ...TOOL_PARAM.sound(options) } };
}

function roleFindings(at: string, { parameters }: ToolMethod): Finding[] {
  const count = (kind: ToolParameter['kind']): number =>
    parameters.filter((parameter) => parameter.kind === kind).length;
  const names = parameters.flatMap((parameter) =>
    parameter.kind === 'param' ? [parameter.name] : [],
  );
  const twice = [...new Set(names.filter((name, index) => names.indexOf(name) !== index))];
  const findings = twice.map((name) => ({
    at,
    problem: `Two parameters are named "${name}".`,
    remedy: 'Name each argument once.',
  }));
  const say = (problem: string, remedy: string): number => findings.push({ at, problem, remedy });
  if (count('input') > 0 && count('param') > 0)
    say(
      'The method takes both a @ToolInput() and @ToolParam()s.',
      'Make the parameters properties of the DTO.',
    );
  if (count('input') > 1)
    say('The method takes two @ToolInput()s.', 'Join them into one DTO class.');
  if (count('context') > 1)
    say('The method takes two @ToolContext()s.', 'Remove one; they are the same.');
  if (new Set(parameters.map(({ index }) => index)).size < parameters.length)
    say('A parameter has two roles.', 'Leave it one decorator.');
  return findings;
}

function undecoratedFindings(at: string, { parameters, designTypes }: ToolMethod): Finding[] {
  const decorated = new Set(parameters.map(({ index }) => index));
  const remedy =
    'Add @ToolInput(), @ToolParam(name, { description }) or @ToolContext(), or remove the parameter.';
  return [...designTypes.keys()]
    .filter((index) => !decorated.has(index))
    .map((index) => ({
      at,
      problem: `Parameter ${index + 1} has no decorator, so nothing would ever be passed.`,
      remedy,
    }));
}

function reservedFindings(at: string, schema: JSONSchema7, reserved: readonly string[]): Finding[] {
  const remedy =
    "Take it from the @ToolContext() parameter: who a call acts for is never the model's choice. Or rename it, or list it in allowReserved, with the reason.";
  return propertyNamesOf(schema)
    .filter((name) => isReserved(name, reserved))
    .map((name) => ({ at, problem: `The argument "${name}" has a reserved name.`, remedy }));
}

/** A parameter decorated with `@ToolParam()`. */
export type NamedParameter = Extract<ToolParameter, { readonly kind: 'param' }>;

/** The JSON form of a method's named parameters. */
export interface ParameterSchema {
  readonly schema: JSONSchema7;
  readonly findings: readonly (PropertyProblem & { readonly path: string })[];
}

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

type Convert = (value: unknown) => unknown;

/** The converters by class, then by property. */
type Converters = Map<Type, ReadonlyMap<string, Convert>>;

/**
 * The options of class-transformer. Without `exposeDefaultValues` an absent `@Expose()` property
 * would lose its initial value.
 */
const OPTIONS: ClassTransformOptions = {
  groups: [...INPUT_GROUPS],
  enableImplicitConversion: false,
  exposeDefaultValues: true,
  exposeUnsetFields: false,
};

/**
 * Returns a function that makes instances of a DTO as `plainToInstance` would, from metadata that
 * is read once: `plainToInstance` reads it for every call, which costs more than the whole pipeline
 * may. A DTO with a `@Transform()` is left to it all the same. Undeclared properties are dropped.
 */
export function instanceBuilder(type: Type, classes = new DtoClasses()): Convert {
  const converters: Converters = new Map();
  if (collect(type, classes, converters)) return (args) => instanceOf(type, converters, args);
  return (args): unknown => classTransformer().plainToInstance(type, plainCopy(args), OPTIONS);
}

/**
 * Makes the converters of a class and of those it holds; false when only class-transformer can
 * convert it.
 */
function collect(type: Type, classes: DtoClasses, converters: Converters): boolean {
  const own = new Map<string, Convert>();
  converters.set(type, own);
  return classes.of(type).properties.every(({ name, input: { valueType, transformed } }) => {
    own.set(name, converterFor(valueType, converters));
    const nested =
      valueType.kind === 'class' && !converters.has(valueType.type)
        ? collect(valueType.type, classes, converters)
        : true;
    return nested && !transformed;
  });
}

function converterFor(valueType: ValueType, converters: Converters): Convert {
  switch (valueType.kind) {
    case 'class':
      return eachOf((value) => instanceOf(valueType.type, converters, value));
    case 'date':
      return eachOf((value) => new Date(typeof value === 'number' ? value : String(value)));
    case 'scalar':
      return eachOf(SCALARS[valueType.scalar]);
    case 'unknown':
    case 'unsupported':
  }
  return plainCopy;
}

const SCALARS = { string: String, number: Number, boolean: Boolean } as const;

/**
 * Applies a conversion to the items of an array, at any depth, which is what `@Type()` refers to;
 * null stays null.
 */
function eachOf(convert: Convert): Convert {
  return function each(value): unknown {
    if (Array.isArray(value)) return value.map(each);
    return value === null || value === undefined ? value : convert(value);
  };
}

function instanceOf(type: Type, converters: Converters, value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  const instance: unknown = new type();
  if (typeof instance !== 'object' || instance === null) return instance;
  const own = converters.get(type);
  for (const [key, child] of Object.entries(value)) {
    const convert = own?.get(key);
    if (convert) Reflect.set(instance, key, convert(child));
  }
  return instance;
}

/**
 * Copies a value as class-transformer does, without names that every object has: it would take
 * `constructor` for a class, and call it.
 */
function plainCopy(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(plainCopy);
  if (typeof value !== 'object' || value === null) return value;
  const entries: [string, unknown][] = Object.entries(value);
  const safe = entries.filter(([key]) => !(key in Object.prototype));
  return Object.fromEntries(safe.map(([key, child]) => [key, plainCopy(child)]));
}

const MAX_PROBLEMS = 10;

/**
 * Validates an instance by class-validator, for rules that a schema cannot express; returns at most
 * ten problems. Nothing is stripped: the schema has refused unknown arguments already, and a DTO
 * may hold fields of its own.
 */
export async function instanceProblems(instance: unknown): Promise<readonly ArgumentProblem[]> {
  if (typeof instance !== 'object' || instance === null)
    return [{ pointer: '', message: 'must be an object' }];
  const errors = await classValidator().validate(instance, {
    forbidUnknownValues: true,
    validationError: { target: false, value: false },
  });
  return errors.flatMap((error) => problemsOf(error, '')).slice(0, MAX_PROBLEMS);
}

function problemsOf(
  { property, constraints, children }: ValidationError,
  parent: string,
): ArgumentProblem[] {
  const pointer = parent + (property === undefined ? '' : pointerSegment(property));
  const own = Object.values(constraints ?? {}).map((message) => ({ pointer, message }));
  return [...own, ...(children ?? []).flatMap((child) => problemsOf(child, pointer))];
}

/**
 * Finds the JSON pointer of the first key, at any depth, that no model may send; undefined when
 * there is none. Case, `_` and `-` make no difference.
 */
export function reservedNamesIn(value: JsonValue, reserved: readonly string[]): string | undefined {
  const names = comparableSet(reserved);
  const pending: { readonly value: unknown; readonly pointer: string }[] = [{ value, pointer: '' }];
  for (let place = pending.pop(); place; place = pending.pop()) {
    const entries = entriesOf(place.value);
    const keyed = !Array.isArray(place.value);
    const found = keyed ? entries.find(([key]) => names.has(comparable(key))) : undefined;
    if (found) return place.pointer + pointerSegment(found[0]);
    for (const [key, child] of entries.toReversed()) {
      if (typeof child === 'object' && child !== null)
        pending.push({ value: child, pointer: place.pointer + pointerSegment(key) });
    }
  }
  return undefined;
}

const entriesOf = (value: unknown): [string, unknown][] =>
  typeof value === 'object' && value !== null ? Object.entries(value) : [];

/** Tells whether an argument has a name that no model may send. */
export function isReserved(name: string, reserved: readonly string[]): boolean {
  return comparableSet(reserved).has(comparable(name));
}

const comparableSets = new WeakMap<readonly string[], ReadonlySet<string>>();

/**
 * Returns names in comparable form, cached by list: it is called for every argument of every tool
 * and for every call, always with the same few lists.
 */
function comparableSet(names: readonly string[]): ReadonlySet<string> {
  const known = comparableSets.get(names) ?? new Set(names.map(comparable));
  comparableSets.set(names, known);
  return known;
}

const comparable = (name: string): string => name.toLowerCase().replaceAll(/[_-]/g, '');
