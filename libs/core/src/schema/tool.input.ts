import type { Type } from '@nestjs/common';
import type { JSONSchema7 } from 'json-schema';
import type { ToolMethod } from '../decorators/tool-metadata.accessor.js';
import type { ToolParameter } from '../decorators/tool-parameter.decorators.js';
import type { Finding } from '../protocol/errors.js';
import type { ToolCallContext } from '../protocol/tool-call-context.js';
import type { ToolInputCodec } from '../protocol/tool.js';
import { instanceProblems } from './class-validator.check.js';
import { DtoClasses } from './dto.classes.js';
import { dtoSchema } from './dto.schema.js';
import { instanceBuilder } from './instance.builder.js';
import { optionalNullRemoval } from './optional.nulls.js';
import { parameterSchema, type NamedParameter } from './parameter.schema.js';
import { isReserved, propertyNamesOf } from './schema.subset.js';

/** A codec, and what is wrong with the declaration it was made from. With findings the application does not start. */
export interface CompiledInput {
  readonly input: ToolInputCodec;
  readonly findings: readonly Finding[];
}

/** Where a declaration stands, and which argument names no model may send. */
export interface Declaration {
  readonly at: string;
  readonly reserved: readonly string[];
}

type InputParameter = Extract<ToolParameter, { readonly kind: 'input' }>;

export const NO_ARGUMENTS: JSONSchema7 = { type: 'object', properties: {}, additionalProperties: false };

/** The input of a decorated method: its DTO, or its named parameters, or nothing. Names the tool was allowed by `allowReserved` are not reserved. */
export function compileToolInput(declaration: Declaration & { readonly method: ToolMethod }): CompiledInput {
  const { at, method } = declaration;
  const reserved = withoutAllowed(declaration.reserved, method.options?.allowReserved?.arguments);
  const misuse = [...roleFindings(at, method), ...undecoratedFindings(at, method)];
  const dto = method.parameters.find((parameter): parameter is InputParameter => parameter.kind === 'input');
  const compiled = dto
    ? compileInputParameter({ at, reserved }, dto.type ?? method.designTypes[dto.index])
    : compileParameters({ at, reserved }, method);
  return { input: compiled.input, findings: [...misuse, ...compiled.findings] };
}

/** The reserved names less those a tool may use. Most may use none, and share the list, which is prepared for comparison once. */
export function withoutAllowed(reserved: readonly string[], allowed: readonly string[] = []): readonly string[] {
  return allowed.length === 0 ? reserved : reserved.filter((name) => !isReserved(name, allowed));
}

/** The input of a tool that takes a DTO class; it receives an instance. */
export function compileDtoInput({ at, reserved, type }: Declaration & { readonly type: Type }): CompiledInput {
  const classes = new DtoClasses();
  const { schema, hidden, needsClassValidator, findings } = dtoSchema(type, classes);
  const build = instanceBuilder(type, classes);
  return {
    input: { schema, hidden, reserved, normalize: optionalNullRemoval(schema), read: dtoReader(build, { needsClassValidator }), build },
    findings: [
      ...findings.map(({ path, problem, remedy }) => ({ at, problem: `${path} ${problem}.`, remedy })),
      ...reservedFindings(at, schema, reserved),
    ],
  };
}

/** Answers at once unless class-validator has to be asked, which takes longer than the rest of the pipeline. */
function dtoReader(
  build: (args: unknown) => unknown,
  { needsClassValidator }: { readonly needsClassValidator: boolean },
): ToolInputCodec['read'] {
  if (!needsClassValidator) return (args) => ({ value: build(args) });
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

/** The input of a tool that brings its own schema. Unless it says how to read them, it receives the plain arguments. */
export function compileSchemaInput({ at, reserved, schema, read = (args) => ({ value: args }) }: SchemaDeclaration): CompiledInput {
  return {
    input: { schema, hidden: [], reserved, normalize: optionalNullRemoval(schema), read },
    findings: reservedFindings(at, schema, reserved),
  };
}

/** What stands in for an input that cannot be used; its findings keep the application from starting. */
export function unusableInput({ at, reserved }: Declaration, ...findings: readonly Omit<Finding, 'at'>[]): CompiledInput {
  const { input } = compileSchemaInput({ at, reserved, schema: NO_ARGUMENTS });
  return { input, findings: findings.map(({ problem, remedy }) => ({ at, problem, remedy })) };
}

/** The positional arguments for the method: the instance, the named values, the context. Gaps, and arguments the model left out, are undefined. */
export function argumentsOf(method: ToolMethod, built: unknown, context: ToolCallContext): unknown[] {
  const list: unknown[] = [];
  for (const parameter of method.parameters) {
    while (list.length < parameter.index) list.push(undefined);
    list[parameter.index] = valueFor(parameter, built, context);
  }
  return list;
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
  const remedy = 'Give the class: @ToolInput(SearchCustomers), and import it as a value, not by "import type".';
  return unusableInput(declaration, { problem, remedy });
}

const NO_DTO = new Set<unknown>([String, Number, Boolean, Symbol, BigInt, Array, Object, Function, Promise, Map, Set, Date]);

/** An arrow function has no prototype. */
export function isDtoClass(type: unknown): type is Type {
  return typeof type === 'function' && type.prototype !== undefined && !NO_DTO.has(type);
}

function compileParameters({ at, reserved }: Declaration, method: ToolMethod): CompiledInput {
  const parameters = method.parameters.filter((parameter): parameter is NamedParameter => parameter.kind === 'param');
  const { schema, findings } = parameterSchema(parameters, method.designTypes);
  const compiled = compileSchemaInput({ at, reserved, schema });
  const told = findings.map(({ path, problem, remedy }) => ({ at, problem: `"${path}" ${problem}.`, remedy }));
  return { input: compiled.input, findings: [...told, ...compiled.findings] };
}

function roleFindings(at: string, { parameters }: ToolMethod): Finding[] {
  const count = (kind: ToolParameter['kind']): number => parameters.filter((parameter) => parameter.kind === kind).length;
  const names = parameters.flatMap((parameter) => (parameter.kind === 'param' ? [parameter.name] : []));
  const twice = [...new Set(names.filter((name, index) => names.indexOf(name) !== index))];
  const findings = twice.map((name) => ({ at, problem: `Two parameters are named "${name}".`, remedy: 'Name each argument once.' }));
  const say = (problem: string, remedy: string): number => findings.push({ at, problem, remedy });
  if (count('input') > 0 && count('param') > 0)
    say('The method takes both a @ToolInput() and @ToolParam()s.', 'Make the parameters properties of the DTO.');
  if (count('input') > 1) say('The method takes two @ToolInput()s.', 'Join them into one DTO class.');
  if (count('context') > 1) say('The method takes two @ToolContext()s.', 'Remove one; they are the same.');
  if (new Set(parameters.map(({ index }) => index)).size < parameters.length) say('A parameter has two roles.', 'Leave it one decorator.');
  return findings;
}

function undecoratedFindings(at: string, { parameters, designTypes }: ToolMethod): Finding[] {
  const decorated = new Set(parameters.map(({ index }) => index));
  const remedy = 'Add @ToolInput(), @ToolParam(name, { description }) or @ToolContext(), or remove the parameter.';
  return [...designTypes.keys()]
    .filter((index) => !decorated.has(index))
    .map((index) => ({ at, problem: `Parameter ${index + 1} has no decorator, so nothing would ever be passed.`, remedy }));
}

function reservedFindings(at: string, schema: JSONSchema7, reserved: readonly string[]): Finding[] {
  const remedy =
    "Take it from the @ToolContext() parameter: who a call acts for is never the model's choice. Or rename it, or list it in allowReserved, with the reason.";
  return propertyNamesOf(schema)
    .filter((name) => isReserved(name, reserved))
    .map((name) => ({ at, problem: `The argument "${name}" has a reserved name.`, remedy }));
}
