import type { Type } from '@nestjs/common';
import type { Finding } from '@toolloop/protocol';
import type { JSONSchema7 } from 'json-schema';
import type { ToolInputCodec } from '../contracts/tool.js';
import { missingPackage } from '../findings/late-packages.js';
import type { ToolMethod } from '../tools/decorators/tool-metadata.js';
import { TOOL_PARAM, type ToolParameter } from '../tools/decorators/tool-parameters.decorator.js';
import { DtoClasses, type DtoFinding, dtoSchema } from './dto-schema.js';
import { instanceBuilder, instanceProblems } from './instance-builder.js';
import { optionalNullRemoval } from './optional-nulls.js';
import { type NamedParameter, parameterSchema } from './parameter-schema.js';
import { isReserved } from './reserved-names.js';
import { type BacktrackingFinding, propertyNamesOf } from './subset.js';

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
