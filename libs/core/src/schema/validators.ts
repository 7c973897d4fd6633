import { Injectable } from '@nestjs/common';
import { type ArgumentProblem, isObject } from '@toolloop/protocol';
import { Ajv, type ErrorObject, type ValidateFunction } from 'ajv';
import ajvFormats from 'ajv-formats';
import type { RegExpEngine } from 'ajv/dist/types/index.js';
import { closest, distance } from 'fastest-levenshtein';
import type { JSONSchema7 } from 'json-schema';

/** Far deeper than any arguments, far shallower than the stack of whoever walks them afterwards. */
const MAX_DEPTH = 100;
const TOO_DEEP: readonly ArgumentProblem[] = [
  { pointer: '', message: `is nested deeper than ${MAX_DEPTH} levels; send flatter arguments` },
];

/**
 * Checks arguments against JSON Schema 7 in the application's only Ajv: an Ajv costs milliseconds and a compiled schema a hundred kilobytes, so
 * both are made once, when first needed, and a schema is known by its identity.
 */
@Injectable()
export class SchemaValidators {
  private ajv: Ajv | undefined;
  private readonly compiled = new WeakMap<JSONSchema7, ValidateFunction>();

  /**
   * Fills defaults into `data`, in place, and says what a model must mend: at most ten problems, empty when all is well. Nothing is coerced and nothing
   * removed. Throws for a schema that does not compile.
   */
  validate(schema: JSONSchema7, data: unknown): readonly ArgumentProblem[] {
    const validator = this.compiled.get(schema) ?? this.compile(schema);
    if (isTooDeep(data)) return TOO_DEEP;
    return validator(data) ? [] : argumentProblems(validator.errors ?? []);
  }

  /** Why a schema from outside cannot be used, for a finding at bootstrap; undefined when it can. */
  problemWith(schema: JSONSchema7): string | undefined {
    try {
      void this.engine().validateSchema(schema, true);
      this.compile(schema);
      return undefined;
    } catch (error) {
      return error instanceof Error ? error.message : String(error);
    }
  }

  private compile(schema: JSONSchema7): ValidateFunction {
    const ajv = this.engine();
    const validator = ajv.compile(schema);
    ajv.removeSchema(schema); // or Ajv would hold on to it for ever
    this.compiled.set(schema, validator);
    return validator;
  }

  private engine(): Ajv {
    this.ajv ??= createAjv();
    return this.ajv;
  }
}

/**
 * `ownProperties`: a key such as `constructor` is an argument like any other, never the prototype's. `strictSchema: false`: a schema from an MCP server may
 * hold keywords and formats we do not know. `addUsedSchema: false`: two schemas may have the same `$id`. `validateSchema: false`: to compile the schema
 * of schemas takes longer than all else an application starts with; only a schema from outside is held against it.
 */
function createAjv(): Ajv {
  const ajv = new Ajv({
    allErrors: true,
    useDefaults: true,
    verbose: true,
    ownProperties: true,
    strict: false,
    strictNumbers: true,
    addUsedSchema: false,
    validateSchema: false,
    code: { regExp: patternEngine },
    logger: false,
  });
  ajvFormats.default(ajv);
  return adaptToClassValidator(ajv);
}

/** Level by level, since the stack is what is in danger. */
function isTooDeep(data: unknown): boolean {
  let level = [data].filter(isObject);
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth >= MAX_DEPTH) return true;
    level = level.flatMap((container) => Object.values(container).filter(isObject));
  }
  return false;
}

/**
 * Makes Ajv count characters, read dates and run patterns as class-validator and `Date` do, so that a DTO's schema and its decorators never
 * disagree.
 */
export function adaptToClassValidator(ajv: Ajv): Ajv {
  return ajv
    .removeKeyword('minLength')
    .removeKeyword('maxLength')
    .addKeyword({
      keyword: 'minLength',
      type: 'string',
      schemaType: 'number',
      compile: (limit: number) => (text: string) => text.length >= limit && lengthOf(text) >= limit,
    })
    .addKeyword({
      keyword: 'maxLength',
      type: 'string',
      schemaType: 'number',
      compile: (limit: number) => (text: string) => text.length <= limit || lengthOf(text) <= limit,
    })
    .addFormat('date-time', isDateTime);
}

/** Whether a pattern means something else, or nothing, without the flag `u`. */
export function needsUnicode(pattern: string): boolean {
  return /\\[pP]\{|\\u\{/.test(pattern);
}

/** Ajv always sets the flag `u`; a pattern written without it may not even compile with it. So only patterns that need it get it. */
export const patternEngine: RegExpEngine = Object.assign((pattern: string) => new RegExp(pattern, needsUnicode(pattern) ? 'u' : ''), {
  code: 'new RegExp',
});

/** Code points, less the variation selectors that follow one: what `isLength` of the validator library counts. */
function lengthOf(text: string): number {
  const selectors = text.match(/[^\uFE0F\uFE0E][\uFE0F\uFE0E]/g)?.length ?? 0;
  const pairs = text.match(/[\uD800-\uDBFF][\uDC00-\uDFFF]/g)?.length ?? 0;
  return text.length - selectors - pairs;
}

/** RFC 3339, less what `new Date()` cannot read: leap seconds. */
function isDateTime(text: string): boolean {
  const [, year, month, day] =
    /^(\d{4})-(\d\d)-(\d\d)[Tt ](?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/.exec(text) ?? [];
  const date = new Date(`${year}-${month}-${day}T00:00:00Z`);
  return date.getUTCDate() === Number(day) && !Number.isNaN(Date.parse(text));
}

/** Enough for a model to mend its call, few enough to fit the conversation. */
const MAX_PROBLEMS = 10;
const MAX_LISTED = 20;

/** Ajv's errors in words a model can act on; at most ten. */
export function argumentProblems(errors: readonly ErrorObject[]): ArgumentProblem[] {
  const decided = new Set(errors.filter(({ keyword }) => DECISIVE.has(keyword)).map(({ instancePath }) => instancePath));
  const problems = new Map<string, ArgumentProblem>();
  for (const error of errors) {
    if (problems.size === MAX_PROBLEMS) break;
    if (REDUNDANT.has(error.keyword) && decided.has(error.instancePath)) continue;
    const problem = { pointer: pointerOf(error), message: messageOf(error) };
    problems.set(`${problem.pointer} ${problem.message}`, problem);
  }
  return [...problems.values()];
}

/** Beside one of these, a complaint about the type or the pattern of the same value says nothing more. */
const DECISIVE = new Set(['enum', 'const', 'format']);
const REDUNDANT = new Set(['type', 'pattern']);

/** The part of a pointer that names one key. */
export function pointerSegment(key: string | number): string {
  return `/${String(key).replaceAll('~', '~0').replaceAll('/', '~1')}`;
}

function pointerOf({ keyword, instancePath, params }: ErrorObject): string {
  if (keyword === 'required') return instancePath + pointerSegment(textOf(params['missingProperty']));
  if (keyword === 'additionalProperties') return instancePath + pointerSegment(textOf(params['additionalProperty']));
  return instancePath;
}

function messageOf(error: ErrorObject): string {
  const say = Object.hasOwn(MESSAGES, error.keyword) ? MESSAGES[error.keyword] : undefined;
  return say?.(error.schema, error) ?? error.message ?? 'is not valid';
}

function nounOf(type: unknown): string {
  if (type === 'null') return 'null';
  return `${type === 'integer' || type === 'object' || type === 'array' ? 'an' : 'a'} ${textOf(type)}`;
}

/** A wrong name is most often a right one misspelt. */
function unknownArgument({ params, parentSchema }: ErrorObject): string {
  const name = textOf(params['additionalProperty']).slice(0, 64);
  const properties: unknown = parentSchema?.['properties'];
  const known = typeof properties === 'object' && properties !== null ? Object.keys(properties) : [];
  if (known.length === 0) return `unknown argument "${name}"; there are none here`;
  const candidate = closest(name, known);
  const near = distance(name.toLowerCase(), candidate.toLowerCase()) <= Math.max(2, candidate.length / 3);
  return near ? `unknown argument "${name}"; did you mean "${candidate}"?` : `unknown argument "${name}"; known: ${listOf(known)}`;
}

function listOf(values: unknown): string {
  const all = Array.isArray(values) ? values : [];
  return all.length > MAX_LISTED ? `${all.slice(0, MAX_LISTED).map(textOf).join(', ')}, …` : all.map(textOf).join(', ');
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function amount(count: unknown, one: string, many = `${one}s`): string {
  return `${textOf(count)} ${count === 1 ? one : many}`;
}

const FORMATS: Readonly<Record<string, string>> = {
  date: 'a date such as 2026-01-31',
  time: 'a time such as 09:30:00Z',
  'date-time': 'a date and time such as 2026-01-31T09:30:00Z',
  duration: 'a duration such as P1DT2H',
  email: 'an email address such as jo@example.com',
  uri: 'a URI such as https://example.com/path',
  uuid: 'a UUID such as 123e4567-e89b-42d3-a456-426614174000',
  ipv4: 'an IPv4 address such as 192.0.2.1',
  ipv6: 'an IPv6 address such as 2001:db8::1',
};

const MESSAGES: Readonly<Record<string, (limit: unknown, error: ErrorObject) => string>> = {
  type: (types) => `must be ${[types].flat().map(nounOf).join(' or ')}`,
  required: () => 'is required',
  additionalProperties: (_, error) => unknownArgument(error),
  enum: (values) => `must be one of: ${listOf(values)}`,
  const: (value) => `must be ${textOf(value)}`,
  minimum: (limit) => `must be at least ${textOf(limit)}`,
  maximum: (limit) => `must be at most ${textOf(limit)}`,
  exclusiveMinimum: (limit) => `must be greater than ${textOf(limit)}`,
  exclusiveMaximum: (limit) => `must be less than ${textOf(limit)}`,
  multipleOf: (limit) => `must be a multiple of ${textOf(limit)}`,
  minLength: (limit) => (limit === 1 ? 'must not be empty' : `must be at least ${textOf(limit)} characters long`),
  maxLength: (limit) => `must be at most ${amount(limit, 'character')} long`,
  pattern: (pattern) => `must match the pattern ${textOf(pattern)}`,
  format: (format) => `must be ${FORMATS[textOf(format)] ?? `a valid ${textOf(format)}`}`,
  minItems: (limit) => `must have at least ${amount(limit, 'item')}`,
  maxItems: (limit) => `must have at most ${amount(limit, 'item')}`,
  uniqueItems: (_, { params }) => `must not hold the same item twice: items ${textOf(params['j'])} and ${textOf(params['i'])} are equal`,
  minProperties: (limit) => `must have at least ${amount(limit, 'property', 'properties')}`,
  maxProperties: (limit) => `must have at most ${amount(limit, 'property', 'properties')}`,
};
