import { type Finding, isObject, isRecord } from '@toolloop/protocol';
import type { JSONSchema7 } from 'json-schema';
import { nearestIn } from '../findings/nearest-name.js';
import { expressionOf, patternProblem } from './patterns.js';
import { pointerSegment } from './argument-problems.js';
import { type SchemaValidators } from './validators.js';

/**
 * Finds the parts of a schema that providers disagree about: everything outside plain objects,
 * arrays, enums, bounds and local `$defs`.
 */
export function subsetProblems(
  schema: JSONSchema7,
  places = placesOf(schema),
): readonly SubsetProblem[] {
  const definitions = isRecord(schema.$defs) ? schema.$defs : {};
  const problems = having(places, DOUBTFUL).flatMap((place) => problemsAt(place, definitions));
  return schema.type === 'object'
    ? problems
    : [{ pointer: '/type', problem: 'the type of the whole must be "object"' }, ...problems];
}

/** A part of a schema that not every provider understands. */
export interface SubsetProblem {
  /** The JSON pointer into the schema; empty for the whole. */
  readonly pointer: string;
  readonly problem: string;
}

/**
 * A subschema and its place, whose pointer is written where there is something to tell of it: most
 * have nothing.
 */
interface Place {
  readonly schema: Readonly<Record<string, unknown>>;
  readonly keywords: readonly string[];
  /**
   * The schema that it is a part of, and the keyword and the name that it has there; absent for the
   * whole.
   */
  readonly whole?: Place;
  readonly keyword?: string;
  readonly name?: string | undefined;
}

/** The keywords outside the subset. */
export const FORBIDDEN_KEYWORDS: ReadonlySet<string> = new Set([
  ...'oneOf anyOf allOf not if then else patternProperties dependencies dependentSchemas dependentRequired unevaluatedProperties'.split(
    ' ',
  ),
  ...'contains additionalItems prefixItems unevaluatedItems $anchor $dynamicRef $dynamicAnchor $recursiveRef $recursiveAnchor'.split(
    ' ',
  ),
]);

/**
 * The keywords whose value is one schema. Values such as `default` and `enum` are data, and are
 * never visited.
 */
export const ONE_SCHEMA = ['items', 'additionalProperties', 'propertyNames'];
/** The keywords whose value is schemas by name. */
export const NAMED_SCHEMAS = ['properties', '$defs', 'definitions'];

/**
 * Finds why the schema of an input cannot be used: it leaves the subset, or does not compile. One
 * that is made of decorators is compiled by its first call, but for what those cannot rule out.
 */
export function schemaFindings(
  at: string,
  schema: JSONSchema7,
  validators: SchemaValidators,
  { isOwn = false, places = placesOf(schema) } = {},
): Finding[] {
  const outside = subsetProblems(schema, places).map(({ pointer, problem }) => ({
    at,
    problem: `The input schema leaves the supported subset at "${pointer}": ${problem}.`,
    remedy: SUBSET_REMEDY,
  }));
  const compiles =
    isOwn && !having(places, MAY_NOT_COMPILE).some(({ schema: place }) => mayNotCompile(place));
  const broken =
    outside.length > 0 || compiles ? undefined : validators.problemWith(schema, { isOwn });
  return broken === undefined
    ? outside
    : [
        {
          at,
          problem: `The input schema cannot be used: ${broken}.`,
          remedy: 'Correct the schema.',
        },
      ];
}

const SUBSET_REMEDY =
  'Use types, enums, bounds, patterns, formats, nested objects and arrays only. For a nullable argument take an optional one, of which null means "not given"; for a union, one object with an enum, or one tool per kind.';

/**
 * Finds everything that is wrong in a schema that the application declares: why it cannot be used,
 * what is misspelt, and what contradicts itself.
 */
export function declaredFindings(
  at: string,
  schema: JSONSchema7,
  validators: SchemaValidators,
  isOwn = false,
): Finding[] {
  const places = placesOf(schema);
  const unusable = schemaFindings(at, schema, validators, { isOwn, places });
  const contradictions = contradictionsIn(
    schema,
    places,
    unusable.length === 0 ? validators : undefined,
  ).map(({ pointer, problem }) => ({
    at,
    problem: `The input schema contradicts itself at "${pointer}": ${problem}.`,
    remedy: 'Correct one of the two.',
  }));
  return [...unusable, ...misspeltFindings(at, places, validators), ...contradictions];
}

const MAY_NOT_COMPILE: ReadonlySet<string> = new Set(['enum', 'pattern']);

/**
 * Tells whether Ajv may refuse a schema that is made of decorators: a list without a value, or a
 * pattern that is none. All else in it is what our own code writes.
 */
function mayNotCompile({ enum: values, pattern }: Place['schema']): boolean {
  try {
    return (
      (Array.isArray(values) && values.length === 0) ||
      (typeof pattern === 'string' && !expressionOf(pattern))
    );
  } catch {
    return true;
  }
}

/**
 * Finds what contradicts itself in a schema: bounds between which there is no value, names and
 * counts that do not go together, and values of an enum, a const, defaults and examples that the
 * rest of the schema refuses. A default of null stands for none. Values are held only against a
 * schema that compiles, by its validators.
 */
function contradictionsIn(
  schema: JSONSchema7,
  places: readonly Place[],
  validators: Pick<SchemaValidators, 'validate' | 'letBacktrack'> | undefined,
): readonly SubsetProblem[] {
  const definitions = isRecord(schema.$defs) && { $defs: schema.$defs };
  const refusalOf: Refusal = (data, by) => {
    const part = { ...by, ...definitions };
    validators?.letBacktrack(part); // the data are the application's own
    const [problem] = isPlainly(data, by)
      ? []
      : (validators?.validate(part, structuredClone(data)) ?? []);
    return problem && `${problem.pointer && `at "${problem.pointer}" `}${problem.message}`;
  };
  return having(places, CONTRADICTABLE).flatMap((place) =>
    CHECKS.filter(({ about }) => place.keywords.some((keyword) => about.has(keyword)))
      .flatMap(({ problemsIn }) => problemsIn(place.schema, refusalOf))
      .map((problem) => ({ pointer: pointerTo(place), problem })),
  );
}

/**
 * Tells whether a scalar is as its schema has it, where that says no more than types, values and
 * bounds of a number: most defaults and values are held against so much, and each validator takes a
 * millisecond to compile.
 */
function isPlainly(data: unknown, schema: Place['schema']): boolean {
  if (!Object.keys(schema).every((keyword) => PLAIN.has(keyword))) return false;
  const { type, enum: values = [data], minimum = data, maximum = data } = schema;
  const isOfType = [type]
    .flat()
    .some((one) =>
      one === 'integer' ? Number.isInteger(data) : one === typeof data && SCALARS.has(one),
    );
  const isWithin = typeof data !== 'number' || (Number(minimum) <= data && data <= Number(maximum));
  return isOfType && isWithin && listed(values).includes(data);
}

const SCALARS: ReadonlySet<unknown> = new Set(['string', 'number', 'boolean']);
const PLAIN: ReadonlySet<string> = new Set(
  'type enum minimum maximum title description default examples'.split(' '),
);

/** Says what a schema requires of data that it refuses. */
type Refusal = (data: unknown, by: Place['schema']) => string | undefined;

function dataProblems(
  { default: given, examples, enum: values, const: only, ...rest }: Place['schema'],
  refusalOf: Refusal,
): string[] {
  const listing = { ...rest, ...(values !== undefined && { enum: values }) };
  const all = { ...listing, ...(only !== undefined && { const: only }) };
  const refused = (name: string, data: unknown, by: Place['schema']): string[] => {
    const refusal = refusalOf(data, by);
    return refusal === undefined ? [] : [`its ${name} ${JSON.stringify(data)}, which ${refusal}`];
  };
  return [
    ...listed(values)
      .flatMap((value) => refused('enum has', value, rest))
      .slice(0, 1),
    ...(only === undefined ? [] : refused('const is', only, listing)),
    ...(given === undefined || given === null ? [] : refused('default is', given, all)),
    ...listed(examples).flatMap((example) => refused('example is', example, all)),
  ];
}

function listed(values: unknown): readonly unknown[] {
  return Array.isArray(values) ? values : [];
}

const BOUNDS = [
  ...['Length', 'Items', 'Properties'].map((of) => ({ least: `min${of}`, most: `max${of}` })),
  ...['minimum', 'exclusiveMinimum'].flatMap((least) =>
    ['maximum', 'exclusiveMaximum'].map((most) => ({ least, most })),
  ),
];

/** A lower and an upper bound that are given. */
interface Bounds {
  readonly least: string;
  readonly low: number;
  readonly most: string;
  readonly high: number;
}

function boundsOf(schema: Place['schema']): Bounds[] {
  return BOUNDS.flatMap(({ least, most }) => {
    const low = schema[least];
    const high = schema[most];
    return typeof low === 'number' && typeof high === 'number' ? [{ least, low, most, high }] : [];
  });
}

function boundProblems(schema: Place['schema']): string[] {
  return boundsOf(schema).flatMap(({ least, low, most, high }) =>
    low > high ? [`its ${least} ${low} is above its ${most} ${high}`] : [],
  );
}

/** Finds bounds that are in order and leave no number of the kind between them. */
function rangeProblems(schema: Place['schema']): string[] {
  const step = stepOf(schema);
  const kind = step === undefined ? 'number' : step === 1 ? 'integer' : `multiple of ${step}`;
  return boundsOf(schema)
    .filter(({ least, low, high }) => least.endsWith('imum') && low <= high)
    .flatMap((bounds) =>
      isEmpty(bounds, step)
        ? [
            `its ${bounds.least} ${bounds.low} and its ${bounds.most} ${bounds.high} leave no ${kind}`,
          ]
        : [],
    );
}

/** Returns the whole number of which all numbers are multiples; undefined where there is none. */
function stepOf({ type, multipleOf }: Place['schema']): number | undefined {
  const step = multipleOf ?? (type === 'integer' ? 1 : undefined);
  return typeof step === 'number' && Number.isInteger(step) && step > 0 ? step : undefined;
}

function isEmpty({ least, low, most, high }: Bounds, step: number | undefined): boolean {
  const first = step === undefined ? low : Math.ceil(low / step) * step;
  const isOpen = least.startsWith('excl') && first === low;
  const lowest = isOpen && step !== undefined ? first + step : first;
  return (
    lowest > high ||
    (lowest === high && (most.startsWith('excl') || (isOpen && step === undefined)))
  );
}

/**
 * Finds names that an object requires and does not declare, and counts that its properties cannot
 * have. An open object takes other properties as well.
 */
function nameProblems({
  properties,
  required,
  additionalProperties,
  minProperties,
  maxProperties,
}: Place['schema']): string[] {
  const names = isRecord(properties) ? Object.keys(properties) : [];
  const needed = listed(required).filter((name) => typeof name === 'string');
  const few = typeof maxProperties === 'number' && maxProperties < needed.length;
  const many = typeof minProperties === 'number' && minProperties > names.length;
  const isClosed = additionalProperties === false;
  return [
    ...needed
      .filter((name) => isClosed && !names.includes(name))
      .map(
        (name) =>
          `it requires "${name}", which is none of its properties${aside(nearestIn(name, names))}`,
      ),
    ...(isClosed && many
      ? [
          `its minProperties ${minProperties} is above the number of its properties, ${names.length}`,
        ]
      : []),
    ...(few
      ? [
          `its maxProperties ${maxProperties} is below the number of its required properties, ${needed.length}`,
        ]
      : []),
  ];
}

const aside = (remedy: string | undefined): string =>
  remedy === undefined ? '' : ` (${remedy.charAt(0).toLowerCase()}${remedy.slice(1)})`;

function itemProblems({ items, uniqueItems, minItems }: Place['schema']): string[] {
  const values =
    isRecord(items) && Array.isArray(items['enum']) && uniqueItems === true
      ? items['enum'].length
      : Number.POSITIVE_INFINITY;
  return typeof minItems === 'number' && minItems > values
    ? [`its minItems ${minItems} is above the number of different items, ${values}`]
    : [];
}

/** The checks of one place, each with the keywords without which it finds nothing. */
const CHECKS: readonly {
  readonly about: ReadonlySet<string>;
  readonly problemsIn: (schema: Place['schema'], refusalOf: Refusal) => string[];
}[] = [
  { about: new Set(BOUNDS.map(({ least }) => least)), problemsIn: boundProblems },
  { about: new Set(['minimum', 'exclusiveMinimum']), problemsIn: rangeProblems },
  { about: new Set(['required', 'minProperties', 'maxProperties']), problemsIn: nameProblems },
  { about: new Set(['minItems']), problemsIn: itemProblems },
  { about: new Set(['default', 'examples', 'enum', 'const']), problemsIn: dataProblems },
];
const CONTRADICTABLE: ReadonlySet<string> = new Set(
  CHECKS.flatMap(({ about }) => Array.from(about)),
);

/** The keywords that mean something to a validator or to a reader; those of OpenAPI among them. */
const KEYWORDS: ReadonlySet<string> = new Set([
  ...'type enum const title description default examples deprecated readOnly writeOnly $comment $id $schema $ref $defs definitions format'.split(
    ' ',
  ),
  ...'minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength pattern contentEncoding contentMediaType'.split(
    ' ',
  ),
  ...'items minItems maxItems uniqueItems properties required additionalProperties propertyNames minProperties maxProperties'.split(
    ' ',
  ),
  ...'example nullable discriminator externalDocs xml'.split(' '),
]);

/** The keywords by which a place may leave the subset. */
const DOUBTFUL: ReadonlySet<string> = new Set([...FORBIDDEN_KEYWORDS, 'items', '$id', '$ref']);

/** Returns the places that have one of some keywords. */
function having(places: readonly Place[], wanted: ReadonlySet<string>): readonly Place[] {
  return places.filter(({ keywords }) => keywords.some((keyword) => wanted.has(keyword)));
}

/**
 * Finds keywords and formats that mean nothing and resemble one that does. Others may belong to
 * another program, and are left alone.
 */
function misspeltFindings(
  at: string,
  places: readonly Place[],
  validators: SchemaValidators,
): Finding[] {
  const unknown = places.filter(({ keywords }) =>
    keywords.some((keyword) => keyword === 'format' || !KEYWORDS.has(keyword)),
  );
  return unknown.flatMap((place) => {
    const { format } = place.schema;
    const wrong = (kind: string, name: string, known: readonly string[]): Finding[] => {
      const remedy =
        known.includes(name) || FORBIDDEN_KEYWORDS.has(name)
          ? undefined
          : nearestIn(name, known, 0.34);
      return remedy === undefined
        ? []
        : [
            {
              at,
              problem: `The input schema has the ${kind} "${name}" at "${pointerTo(place)}", which means nothing.`,
              remedy,
            },
          ];
    };
    const keywords = place.keywords.flatMap((name) => wrong('keyword', name, [...KEYWORDS]));
    return keywords.concat(
      typeof format === 'string' ? wrong('format', format, validators.formats) : [],
    );
  });
}

/** A pattern that the linear engine cannot run, in the schema of an input. */
export interface BacktrackingFinding extends Finding {
  /** `true` if the schema refuses texts that are too long for it. */
  readonly isBounded: boolean;
}

/** Finds the patterns of a schema that the linear engine cannot run. */
export function backtrackingIn(at: string, schema: JSONSchema7): readonly BacktrackingFinding[] {
  return having(placesOf(schema), PATTERNED).flatMap((place) => {
    const { pattern, maxLength } = place.schema;
    const expression = typeof pattern === 'string' ? readExpression(pattern) : undefined;
    const found = expression && patternProblem(expression);
    return found
      ? [
          {
            at,
            problem: `"${pointerTo(place)}" ${found.problem}.`,
            remedy: found.remedy,
            isBounded: typeof maxLength === 'number',
          },
        ]
      : [];
  });
}

/** Returns nothing for a pattern that is none: another finding tells. */
function readExpression(pattern: string): RegExp | undefined {
  try {
    return expressionOf(pattern);
  } catch {
    return undefined;
  }
}

/**
 * Finds the patterns that a tool may not run: it lets none backtrack, or the text of one has no
 * bound.
 */
export function patternFindings(
  found: readonly BacktrackingFinding[],
  mayBacktrack: boolean,
): Finding[] {
  return found
    .filter(({ isBounded }) => !mayBacktrack || !isBounded)
    .map(({ at, problem, remedy }) => ({
      at,
      problem,
      remedy: mayBacktrack ? BOUND : `${remedy}${OR_BACKTRACK}`,
    }));
}

const BOUND = 'Bound the text: write @MaxLength(), or maxLength in the schema.';
const OR_BACKTRACK =
  ", or bound the text by maxLength and let the tool backtrack: patterns: { engine: 'backtracking', reason }.";

const PATTERNED: ReadonlySet<string> = new Set(['pattern']);

/**
 * Returns every name that an argument can have by this schema, at any depth; each once, in order of
 * appearance.
 */
export function propertyNamesOf(schema: JSONSchema7): readonly string[] {
  const names = placesOf(schema).flatMap(({ schema: { properties } }) =>
    isRecord(properties) ? Object.keys(properties) : [],
  );
  return [...new Set(names)];
}

/**
 * Returns all subschemas. It is iterative, since a schema or a value from outside may be nested
 * deeper than the stack.
 */
function placesOf(root: JSONSchema7): readonly Place[] {
  const places: Place[] = [];
  const pending: Place[] = isRecord(root) ? [{ schema: root, keywords: Object.keys(root) }] : [];
  for (let next = pending.pop(); next; next = pending.pop()) {
    places.push(next);
    if (next.keywords.some((keyword) => PARTS.has(keyword)))
      pending.push(...partsOf(next).toReversed());
  }
  return places;
}

const PARTS: ReadonlySet<string> = new Set([...NAMED_SCHEMAS, ...ONE_SCHEMA]);

function partsOf(whole: Place): Place[] {
  const parts: Place[] = [];
  const add = (schema: unknown, keyword: string, name?: string): void => {
    if (isRecord(schema))
      parts.push({ schema, keywords: Object.keys(schema), whole, keyword, name });
  };
  for (const keyword of NAMED_SCHEMAS) {
    const children = whole.schema[keyword];
    if (isObject(children))
      for (const name of Object.keys(children)) add(Reflect.get(children, name), keyword, name);
  }
  for (const keyword of ONE_SCHEMA) add(whole.schema[keyword], keyword);
  return parts;
}

/** Writes the JSON pointer to a place in the schema; empty for the whole. */
function pointerTo(place: Place): string {
  let pointer = '';
  for (let at = place; at.whole; at = at.whole)
    pointer = `/${at.keyword}${at.name === undefined ? '' : pointerSegment(at.name)}${pointer}`;
  return pointer;
}

function problemsAt(place: Place, definitions: object): SubsetProblem[] {
  const { schema, keywords } = place;
  const problems: SubsetProblem[] = [];
  const say = (keyword: string, problem: string): number =>
    problems.push({ pointer: `${pointerTo(place)}/${keyword}`, problem });
  for (const keyword of keywords)
    if (FORBIDDEN_KEYWORDS.has(keyword)) say(keyword, `"${keyword}" is not supported`);
  if (Array.isArray(schema['items']))
    say('items', 'items that differ by position are not supported');
  if (place.whole && Object.hasOwn(schema, '$id')) say('$id', '"$id" is supported at the top only');
  const reference = referenceProblem(schema['$ref'], definitions);
  if (reference) say('$ref', reference);
  return problems;
}

function referenceProblem(reference: unknown, definitions: object): string | undefined {
  if (reference === undefined) return undefined;
  if (typeof reference !== 'string') return '"$ref" must be text';
  const name = definitionNamed(reference);
  if (name === undefined) return `"${reference}" is not supported; only "#/$defs/Name" is`;
  return Object.hasOwn(definitions, name) ? undefined : `"${reference}" names nothing in $defs`;
}

/** Reads the name in `$defs` from a `$ref`; undefined for any other reference. */
export function definitionNamed(reference: string): string | undefined {
  return /^#\/\$defs\/([^/]+)$/.exec(reference)?.[1]?.replaceAll('~1', '/').replaceAll('~0', '~');
}
