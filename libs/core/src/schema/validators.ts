import { Injectable } from '@nestjs/common';
import { type ArgumentProblem, isDeeperThan } from '@toolloop/protocol';
import type { Ajv, ErrorObject, Options, ValidateFunction } from 'ajv';
import type { RegExpEngine } from 'ajv/dist/types/index.js';
import { closest, distance } from 'fastest-levenshtein';
import type { JSONSchema7 } from 'json-schema';
import { expressionOf, foreignMatcher, linearMatcher, type Matcher } from './patterns.js';
import { ajvFormats, ajvModule } from '../findings/late-packages.js';

/**
 * The deepest arguments that are accepted: far deeper than any real ones, and far shallower than
 * the stack of the code that visits them.
 */
const MAX_DEPTH = 100;
const TOO_DEEP: readonly ArgumentProblem[] = [
  { pointer: '', message: `is nested deeper than ${MAX_DEPTH} levels; send flatter arguments` },
];

/** A schema made ready to check data, and its patterns that are not applied. */
interface CompiledSchema {
  readonly validator: ValidateFunction;
  readonly unapplied: readonly string[];
}

/** The way in which a schema is compiled. */
interface Compilation {
  readonly isForeign: boolean;
  readonly mayBacktrack: boolean;
  /** `true` if our own code wrote it. */
  readonly isOwn: boolean;
}

/**
 * The schemas that were compiled last, by their text. Sources that are listed again and
 * applications that are started again, as tests start them, bring equal schemas, and to compile
 * them is most of what a small application takes to start.
 */
const lastCompiled = new Map<string, CompiledSchema>();
const MOST_COMPILED = 500;

/**
 * Checks arguments against JSON Schema 7 in the application's only Ajv: an Ajv costs milliseconds
 * and a compiled schema a hundred kilobytes, so both are made once, when first needed, and a schema
 * is cached by its identity and its text.
 */
@Injectable()
export class SchemaValidators {
  private ajv: Ajv | undefined;
  /** The Ajv for schemas of others, whose patterns have bounds of their own. */
  private foreign: Ajv | undefined;
  private readonly compiled = new WeakMap<JSONSchema7, CompiledSchema>();
  private readonly distrusted = new WeakSet<JSONSchema7>();
  private readonly backtracking = new WeakSet<JSONSchema7>();
  /** The patterns of the schema that is being compiled which are not applied. */
  private skipped: string[] = [];
  /** `true` while a schema is compiled that may backtrack. */
  private mayBacktrack = false;
  /** The number of patterns in it so far. */
  private matchers = 0;

  /**
   * Fills defaults into `data`, in place, and returns at most ten problems for the model to
   * correct. Nothing is coerced and nothing removed.
   *
   * @throws Error for a schema that does not compile
   */
  validate(schema: JSONSchema7, data: unknown): readonly ArgumentProblem[] {
    const { validator } = this.compiled.get(schema) ?? this.compile(schema);
    if (isDeeperThan(MAX_DEPTH, data)) return TOO_DEEP;
    return validator(data) ? [] : argumentProblems(validator.errors ?? []);
  }

  /**
   * Finds the reason why a schema from outside cannot be used, for a finding at bootstrap;
   * undefined when it can.
   */
  problemWith(schema: JSONSchema7, { isOwn = false } = {}): string | undefined {
    try {
      const { unapplied } = this.compiled.get(schema) ?? this.compile(schema, isOwn);
      const [pattern] = this.distrusted.has(schema) ? [] : unapplied;
      return (
        pattern &&
        `the linear engine cannot run its pattern ${pattern}; write it without look-around and back references`
      );
    } catch (error) {
      return error instanceof Error ? error.message : String(error);
    }
  }

  /**
   * Marks schemas of a source, before they are compiled: their patterns have bounds of their own,
   * and one that is not applied keeps no schema from being used. It is in
   * {@link unappliedPatterns}.
   */
  distrust(...schemas: readonly (JSONSchema7 | undefined)[]): void {
    for (const schema of schemas) if (schema) this.distrusted.add(schema);
  }

  /**
   * Lets the patterns of a schema backtrack that the linear engine cannot run, before it is
   * compiled. Those of any other schema are not applied.
   */
  letBacktrack(schema: JSONSchema7): void {
    this.backtracking.add(schema);
  }

  /** Returns the patterns of a schema that are not applied; none before it was compiled. */
  unappliedPatterns(schema: JSONSchema7): readonly string[] {
    return this.compiled.get(schema)?.unapplied ?? [];
  }

  /** The formats that are checked; any other means nothing. */
  get formats(): readonly string[] {
    return Object.keys(this.engine().formats);
  }

  private compile(schema: JSONSchema7, isOwn = true): CompiledSchema {
    const isForeign = this.distrusted.has(schema);
    const mayBacktrack = this.backtracking.has(schema);
    const text = JSON.stringify([isForeign, mayBacktrack, isOwn, schema]);
    const compiled =
      lastCompiled.get(text) ?? this.compileAnew(schema, { isForeign, mayBacktrack, isOwn });
    lastCompiled.delete(text); // used last, so that it is forgotten last
    lastCompiled.set(text, compiled);
    const [oldest] = lastCompiled.keys();
    if (lastCompiled.size > MOST_COMPILED && oldest !== undefined) lastCompiled.delete(oldest);
    this.compiled.set(schema, compiled);
    return compiled;
  }

  private compileAnew(
    schema: JSONSchema7,
    { isForeign, mayBacktrack, isOwn }: Compilation,
  ): CompiledSchema {
    if (!isOwn) void this.engine().validateSchema(schema, true);
    const ajv = isForeign ? this.foreignEngine() : this.engine();
    this.skipped = [];
    this.matchers = 0;
    this.mayBacktrack = mayBacktrack;
    const validator = ajv.compile(schema);
    ajv.removeSchema(schema); // or Ajv would hold on to it for ever
    return { validator, unapplied: [...new Set(this.skipped)] };
  }

  private engine(): Ajv {
    const matcherFor: MatcherFor = (pattern) => {
      const expression = expressionOf(pattern);
      return (
        linearMatcher(expression) ??
        (this.mayBacktrack ? (text) => expression.test(text) : this.skip(pattern))
      );
    };
    return (this.ajv ??= createAjv(matcherFor, { inlineRefs: true }));
  }

  private foreignEngine(): Ajv {
    const matcherFor: MatcherFor = (pattern) =>
      ((this.matchers += 1) > MOST_PATTERNS ? undefined : foreignMatcher(pattern)) ??
      this.skip(pattern);
    // Written out wherever it is referred to, a definition of 60 KB would be as many megabytes of
    // code.
    return (this.foreign ??= createAjv(matcherFor, { inlineRefs: false }));
  }

  private skip(pattern: string): Matcher {
    this.skipped.push(pattern);
    return () => true;
  }
}

/**
 * Creates the Ajv. `ownProperties`: a key such as `constructor` is an argument like any other,
 * never the prototype's. `strictSchema: false`: a schema from an MCP server may hold unknown
 * keywords and formats. `addUsedSchema: false`: two schemas may have the same `$id`.
 * `validateSchema: false`: compiling the schema of schemas takes longer than the rest of an
 * application's start; only a schema from outside is checked against it.
 */
function createAjv(matcherFor: MatcherFor, { inlineRefs }: Pick<Options, 'inlineRefs'>): Ajv {
  const { Ajv: Engine } = ajvModule();
  const ajv = new Engine({
    inlineRefs,
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
  ajvFormats().default(ajv);
  return adaptToClassValidator(ajv, matcherFor);
}

/**
 * Makes Ajv count characters, read dates and run patterns as class-validator and `Date` do, so that
 * a DTO's schema and its decorators never disagree. A pattern is not run on a text whose length is
 * refused already.
 */
function adaptToClassValidator(ajv: Ajv, matcherFor: MatcherFor): Ajv {
  return ajv
    .removeKeyword('pattern')
    .removeKeyword('minLength')
    .removeKeyword('maxLength')
    .addKeyword({
      keyword: 'pattern',
      type: 'string',
      schemaType: 'string',
      compile: (pattern: string, { minLength, maxLength }: JSONSchema7) => {
        const matches = matcherFor(pattern);
        return (text: string) => !hasLength(text, minLength, maxLength) || matches(text);
      },
    })
    .addKeyword({
      keyword: 'minLength',
      type: 'string',
      schemaType: 'number',
      compile: (limit: number) => (text: string) => hasLength(text, limit),
    })
    .addKeyword({
      keyword: 'maxLength',
      type: 'string',
      schemaType: 'number',
      compile: (limit: number) => (text: string) => hasLength(text, 0, limit),
    })
    .addFormat('date-time', isDateTime);
}

/**
 * The engine for the patterns that Ajv itself would run. It always sets the flag `u`, with which a
 * pattern written without it may not even compile.
 */
const patternEngine: RegExpEngine = Object.assign(expressionOf, { code: 'new RegExp' });

/** Makes the matcher of a pattern. @throws SyntaxError for a pattern that is none */
type MatcherFor = (pattern: string) => Matcher;

/**
 * The most patterns of others in one schema that are applied: each costs milliseconds to compile.
 */
const MOST_PATTERNS = 50;

/**
 * Tells whether a text has a number of characters within bounds. They are counted only where the
 * number of code units, which is never smaller, does not decide.
 */
function hasLength(text: string, least = 0, most = Number.POSITIVE_INFINITY): boolean {
  if (text.length < least) return false;
  if (least === 0 && text.length <= most) return true;
  const count = countCharacters(text);
  return count >= least && count <= most;
}

/**
 * Counts code points without the variation selectors that follow one, as `isLength` of the
 * validator library does.
 */
function countCharacters(text: string): number {
  const selectors = text.match(/[^\uFE0F\uFE0E][\uFE0F\uFE0E]/g)?.length ?? 0;
  const pairs = text.match(/[\uD800-\uDBFF][\uDC00-\uDFFF]/g)?.length ?? 0;
  return text.length - selectors - pairs;
}

/**
 * A time on a day that every year has, as nearly every one is: `Date`, which takes twenty times as
 * long, need not be asked.
 */
const COMMON_TIME =
  /^\d{4}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?Z$/;

/**
 * Tells whether a text is a time by RFC 3339, without leap seconds, which `new Date()` cannot read.
 */
function isDateTime(text: string): boolean {
  if (COMMON_TIME.test(text)) return true;
  const [, year, month, day] =
    /^(\d{4})-(\d\d)-(\d\d)[Tt ](?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/.exec(
      text,
    ) ?? [];
  return (
    new Date(`${year}-${month}-${day}T00:00:00Z`).getUTCDate() === Number(day) &&
    !Number.isNaN(Date.parse(text))
  );
}

/**
 * The most problems that are reported: enough for a model to correct its call, few enough to fit
 * the conversation.
 */
const MAX_PROBLEMS = 10;
const MAX_LISTED = 20;

/** Describes Ajv's errors so that a model can act on them; at most ten. */
export function argumentProblems(errors: readonly ErrorObject[]): ArgumentProblem[] {
  const decided = new Set(
    errors.filter(({ keyword }) => DECISIVE.has(keyword)).map(({ instancePath }) => instancePath),
  );
  const problems = new Map<string, ArgumentProblem>();
  for (const error of errors) {
    if (problems.size === MAX_PROBLEMS) break;
    if (REDUNDANT.has(error.keyword) && decided.has(error.instancePath)) continue;
    const problem = { pointer: pointerOf(error), message: messageOf(error) };
    problems.set(`${problem.pointer} ${problem.message}`, problem);
  }
  return [...problems.values()];
}

/**
 * The keywords beside which an error about the type or the pattern of the same value is redundant.
 */
const DECISIVE = new Set(['enum', 'const', 'format']);
const REDUNDANT = new Set(['type', 'pattern']);

/** Writes the part of a JSON pointer that names one key. */
export function pointerSegment(key: string | number): string {
  return `/${String(key).replaceAll('~', '~0').replaceAll('/', '~1')}`;
}

function pointerOf({ keyword, instancePath, params }: ErrorObject): string {
  if (keyword === 'required')
    return instancePath + pointerSegment(textOf(params['missingProperty']));
  if (keyword === 'additionalProperties')
    return instancePath + pointerSegment(textOf(params['additionalProperty']));
  return instancePath;
}

function messageOf(error: ErrorObject): string {
  const say = Object.hasOwn(MESSAGES, error.keyword) ? MESSAGES[error.keyword] : undefined;
  return say?.(error.schema, error) ?? error.message ?? 'is not valid';
}

function toNoun(type: unknown): string {
  if (type === 'null') return 'null';
  return `${type === 'integer' || type === 'object' || type === 'array' ? 'an' : 'a'} ${textOf(type)}`;
}

/** Describes an unknown argument with the closest known names, since it is most often misspelt. */
function unknownArgument({ params, parentSchema }: ErrorObject): string {
  const name = textOf(params['additionalProperty']).slice(0, 64);
  const properties: unknown = parentSchema?.['properties'];
  const known =
    typeof properties === 'object' && properties !== null ? Object.keys(properties) : [];
  if (known.length === 0) return `unknown argument "${name}"; there are none here`;
  const candidate = closest(name, known);
  const near =
    distance(name.toLowerCase(), candidate.toLowerCase()) <= Math.max(2, candidate.length / 3);
  return near
    ? `unknown argument "${name}"; did you mean "${candidate}"?`
    : `unknown argument "${name}"; known: ${joinValues(known)}`;
}

function joinValues(values: unknown): string {
  const all = Array.isArray(values) ? values : [];
  return all.length > MAX_LISTED
    ? `${all.slice(0, MAX_LISTED).map(textOf).join(', ')}, …`
    : all.map(textOf).join(', ');
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
  type: (types) => `must be ${[types].flat().map(toNoun).join(' or ')}`,
  required: () => 'is required',
  additionalProperties: (_, error) => unknownArgument(error),
  enum: (values) => `must be one of: ${joinValues(values)}`,
  const: (value) => `must be ${textOf(value)}`,
  minimum: (limit) => `must be at least ${textOf(limit)}`,
  maximum: (limit) => `must be at most ${textOf(limit)}`,
  exclusiveMinimum: (limit) => `must be greater than ${textOf(limit)}`,
  exclusiveMaximum: (limit) => `must be less than ${textOf(limit)}`,
  multipleOf: (limit) => `must be a multiple of ${textOf(limit)}`,
  minLength: (limit) =>
    limit === 1 ? 'must not be empty' : `must be at least ${textOf(limit)} characters long`,
  maxLength: (limit) => `must be at most ${amount(limit, 'character')} long`,
  pattern: (pattern) => `must match the pattern ${textOf(pattern)}`,
  format: (format) => `must be ${FORMATS[textOf(format)] ?? `a valid ${textOf(format)}`}`,
  minItems: (limit) => `must have at least ${amount(limit, 'item')}`,
  maxItems: (limit) => `must have at most ${amount(limit, 'item')}`,
  uniqueItems: (_, { params }) =>
    `must not hold the same item twice: items ${textOf(params['j'])} and ${textOf(params['i'])} are equal`,
  minProperties: (limit) => `must have at least ${amount(limit, 'property', 'properties')}`,
  maxProperties: (limit) => `must have at most ${amount(limit, 'property', 'properties')}`,
};
