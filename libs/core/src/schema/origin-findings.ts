import type { Finding } from '@toolloop/protocol';
import type { JSONSchema7, JSONSchema7Definition } from 'json-schema';
import { pointerSegment } from './argument-problems.js';
import {
  ORIGINS,
  ORIGIN_KEYWORD,
  OWNER_KEYWORD,
  isOrigin,
  originIn,
  resolvedIn,
  someSchema,
} from './field-origins.js';
import type { SchemaValidators } from './validators.js';

/**
 * Finds why the schema of a result cannot be used: it does not compile, or names an origin that
 * there is not, or an actor's value without the property that says whose.
 */
export function resultSchemaFindings(
  at: string,
  schema: JSONSchema7,
  validators: SchemaValidators,
): Finding[] {
  const broken = validators.problemWith(schema);
  if (broken !== undefined)
    return [
      {
        at,
        problem: `The output schema cannot be used: ${broken}.`,
        remedy: 'Correct the schema.',
      },
    ];
  const findings: Finding[] = [];
  someSchema(schema, (one) => {
    const problem = originProblem(
      Reflect.get(one, ORIGIN_KEYWORD),
      Reflect.get(one, OWNER_KEYWORD),
    );
    if (problem) findings.push({ at, ...problem });
    return false;
  });
  return findings;
}

function originProblem(
  origin: unknown,
  owner: unknown,
): Pick<Finding, 'problem' | 'remedy'> | undefined {
  if (origin !== undefined && !isOrigin(origin))
    return {
      problem: `Its output schema names the origin ${JSON.stringify(origin)}.`,
      remedy: `Name one of ${[...ORIGINS].join(', ')}.`,
    };
  if ((origin === 'actor') === (typeof owner === 'string')) return undefined;
  return {
    problem: `Its output schema has one of "${ORIGIN_KEYWORD}": "actor" and "${OWNER_KEYWORD}", which go together.`,
    remedy: 'Name the property with the id of the actor, or leave both out.',
  };
}

/**
 * Returns the places of values in a result about which nothing says who wrote them: the whole
 * result, where it has no schema. One that can be nothing else than it is tells nothing.
 */
export function unlabelledFields(root: JSONSchema7 | undefined): readonly string[] {
  const walk = (
    given: JSONSchema7Definition,
    pointer: string,
    seen: readonly unknown[],
  ): readonly string[] => {
    const schema = resolvedIn(root ?? {}, given);
    if (
      seen.includes(schema) ||
      [given, schema].some((one) => typeof one === 'object' && originIn(one) !== undefined)
    )
      return [];
    const parts = placedParts(schema, pointer);
    if (parts.length === 0) return schema.const === undefined ? [pointer] : [];
    return parts.flatMap(([place, part]) => walk(part, place, [...seen, schema]));
  };
  return walk(root ?? {}, '', []);
}

function placedParts(
  { properties = {}, items, additionalProperties }: JSONSchema7,
  pointer: string,
): [string, JSONSchema7Definition][] {
  const named = Object.entries(properties).map(([name, one]): [string, JSONSchema7Definition] => [
    `${pointer}${pointerSegment(name)}`,
    one,
  ]);
  const others = [items ?? [], additionalProperties || []].flat();
  return named.concat(others.map((one) => [`${pointer}/*`, one]));
}
