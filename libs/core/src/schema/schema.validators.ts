import { Injectable } from '@nestjs/common';
import { Ajv, type ValidateFunction } from 'ajv';
import ajvFormats from 'ajv-formats';
import type { JSONSchema7 } from 'json-schema';
import type { ArgumentProblem } from '../protocol/tool.js';
import { isObject } from '../protocol/object.guards.js';
import { argumentProblems } from './argument-problems.js';
import { adaptToClassValidator, patternEngine } from './ajv-keywords.js';

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
