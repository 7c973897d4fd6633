import { Injectable } from '@nestjs/common';
import { type ArgumentProblem, isDeeperThan } from '@toolloop/protocol';
import type { Ajv, Options, ValidateFunction } from 'ajv';
import type { RegExpEngine } from 'ajv/dist/types/index.js';
import type { JSONSchema7 } from 'json-schema';
import { ajvFormats, ajvModule } from '../findings/late-packages.js';
import { argumentProblems } from './argument-problems.js';
import { adaptToClassValidator } from './class-validator-patterns.js';
import { expressionOf, foreignMatcher, linearMatcher, type Matcher } from './patterns.js';

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
 * The deepest arguments that are accepted: far deeper than any real ones, and far shallower than
 * the stack of the code that visits them.
 */
const MAX_DEPTH = 100;

const TOO_DEEP: readonly ArgumentProblem[] = [
  { pointer: '', message: `is nested deeper than ${MAX_DEPTH} levels; send flatter arguments` },
];

/**
 * The schemas that were compiled last, by their text. Sources that are listed again and
 * applications that are started again, as tests start them, bring equal schemas, and to compile
 * them is most of what a small application takes to start.
 */
const lastCompiled = new Map<string, CompiledSchema>();

const MOST_COMPILED = 500;

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
 * The engine for the patterns that Ajv itself would run. It always sets the flag `u`, with which a
 * pattern written without it may not even compile.
 */
const patternEngine: RegExpEngine = Object.assign(expressionOf, { code: 'new RegExp' });

/** Makes the matcher of a pattern. @throws SyntaxError for a pattern that is none */
export type MatcherFor = (pattern: string) => Matcher;

/**
 * The most patterns of others in one schema that are applied: each costs milliseconds to compile.
 */
const MOST_PATTERNS = 50;
