import type { JSONSchema7, JSONSchema7Type, JSONSchema7TypeName } from 'json-schema';
import { constraintSchema, type ConstraintSchema } from './constraint.schemas.js';
import type { ValidationRule } from './validation-metadata.accessor.js';

/** All that the decorators of one value say together. */
export interface CombinedConstraints {
  /** Undefined where nothing tells the type. Empty where no value satisfies all. */
  readonly types: readonly JSONSchema7TypeName[] | undefined;
  readonly keywords: JSONSchema7;
  readonly hints: readonly string[];
  readonly exact: boolean;
  readonly date: boolean;
}

export const NO_CONSTRAINTS: CombinedConstraints = { types: undefined, keywords: {}, hints: [], exact: true, date: false };

type Types = readonly JSONSchema7TypeName[] | undefined;

/** Joins the constraints of one value into one schema. */
export function combineConstraints(rules: readonly ValidationRule[]): CombinedConstraints {
  return rules.reduce((combined, rule) => join(combined, rule.holds === 'sometimes' ? typeOnly(rule) : meaningOf(rule)), NO_CONSTRAINTS);
}

/** Joins constraints that hold at times only: they give the type and no bounds, for those would turn away what class-validator takes. */
export function combineTypes(rules: readonly ValidationRule[]): CombinedConstraints {
  return rules.reduce((combined, rule) => join(combined, typeOnly(rule)), NO_CONSTRAINTS);
}

function meaningOf({ name, arguments: values, holds }: ValidationRule): ConstraintSchema {
  const meaning = constraintSchema(name, values);
  return holds === 'always' ? meaning : { ...meaning, exact: false };
}

function typeOnly(rule: ValidationRule): ConstraintSchema {
  const { types, date, keywords, hint } = meaningOf(rule);
  const words = keywords.enum ? `One of: ${keywords.enum.map(String).join(', ')}.` : hint;
  return {
    keywords: {},
    exact: false,
    ...(types && { types }),
    ...(date !== undefined && { date }),
    ...(words !== undefined && { hint: words }),
  };
}

function join(combined: CombinedConstraints, next: ConstraintSchema): CombinedConstraints {
  const { keywords, clash } = joinKeywords(combined.keywords, next.keywords);
  return {
    types: commonTypes(combined.types, next.types),
    keywords,
    hints: [...combined.hints, ...(next.hint === undefined ? [] : [next.hint]), ...clash],
    exact: combined.exact && next.exact && clash.length === 0,
    date: combined.date || next.date === true,
  };
}

/** The types two decorators agree on; an integer is a number. */
export function commonTypes(one: Types, other: Types): Types {
  if (!one || !other) return one ?? other;
  const narrowed = one.map((type) => (type === 'number' && other.includes('integer') ? 'integer' : type));
  return narrowed.filter((type) => other.includes(type) || (type === 'integer' && other.includes('number')));
}

const TIGHTEST: Readonly<Record<string, (one: number, other: number) => number>> = {
  minimum: Math.max,
  exclusiveMinimum: Math.max,
  minLength: Math.max,
  minItems: Math.max,
  minProperties: Math.max,
  maximum: Math.min,
  exclusiveMaximum: Math.min,
  maxLength: Math.min,
  maxItems: Math.min,
};

/** A keyword can be said once: two bounds become the tighter one, two lists what they share, and of two patterns the second is told in words. */
function joinKeywords(one: JSONSchema7, other: JSONSchema7): { readonly keywords: JSONSchema7; readonly clash: readonly string[] } {
  if (Object.keys(other).length === 0) return { keywords: one, clash: [] }; // as most: they say a type and no more
  const keywords = new Map<string, unknown>(Object.entries(one));
  const clash: string[] = [];
  for (const [keyword, value] of Object.entries(other)) {
    const present = keywords.get(keyword);
    const tightest = TIGHTEST[keyword];
    if (present === undefined || present === value) keywords.set(keyword, value);
    else if (tightest && typeof present === 'number' && typeof value === 'number') keywords.set(keyword, tightest(present, value));
    else if (keyword === 'enum') keywords.set(keyword, sharedValues(present, value));
    else clash.push(`Also ${keyword === 'pattern' ? 'matches' : keyword}: ${String(value)}.`);
  }
  return { keywords: Object.fromEntries(keywords), clash };
}

function sharedValues(one: unknown, other: unknown): unknown[] {
  return Array.isArray(one) && Array.isArray(other) ? one.filter((value) => other.includes(value)) : [];
}

const KEYWORDS_OF: Readonly<Record<string, readonly string[]>> = {
  string: ['minLength', 'maxLength', 'pattern', 'format'],
  number: ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'],
  integer: ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'],
  array: ['minItems', 'maxItems', 'uniqueItems'],
  object: ['minProperties'],
};

/** A schema of these types with the keywords that mean something for them. An `enum` of other types is left out of the list. */
export function typedSchema(types: readonly JSONSchema7TypeName[], keywords: JSONSchema7): JSONSchema7 {
  const isMeaningful = (keyword: string): boolean => keyword === 'enum' || types.some((type) => KEYWORDS_OF[type]?.includes(keyword));
  const kept: JSONSchema7 = Object.fromEntries(Object.entries(keywords).filter(([keyword]) => isMeaningful(keyword)));
  const [only] = types;
  const values = kept.enum?.filter((value) => types.some((type) => hasType(value, type)));
  return { type: types.length === 1 ? only : [...types], ...kept, ...(values && { enum: values }) };
}

function hasType(value: JSONSchema7Type, type: JSONSchema7TypeName): boolean {
  if (value === null) return type === 'null';
  if (type === 'integer') return Number.isInteger(value);
  return typeof value === type;
}
