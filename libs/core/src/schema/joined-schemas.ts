import { isRecord } from '@toolloop/protocol';

/**
 * Joins the branches of a schema to one that takes every value that it takes: what must hold at
 * once is written together, and of what may hold each alone, all that is possible. The values of
 * branches that have no type in common, such as a text or a list of texts, can be told as exactly
 * by one schema.
 */
export function joinedSchema(source: JsonSchema, resolve: Resolve): JoinedSchema {
  if (!UNIONS.some((keyword) => source[keyword] !== undefined))
    return { schema: source, wider: [] };
  return ['anyOf', 'oneOf'].reduce(
    (joined, keyword) => {
      const next = withUnion(joined.schema, keyword, resolve);
      return { schema: next.schema, wider: [...joined.wider, ...next.wider] };
    },
    withAll(source, resolve),
  );
}

type JsonSchema = Readonly<Record<string, unknown>>;

/** A schema without `allOf`, `anyOf` and `oneOf`. */
export interface JoinedSchema {
  readonly schema: JsonSchema;
  /** Those of these keywords of which it says less than was written: it takes more values. */
  readonly wider: readonly string[];
}

/** Returns the definition that a branch refers to, or the branch itself. */
type Resolve = (branch: JsonSchema) => JsonSchema;

const NONE: readonly string[] = [];
const UNIONS = ['allOf', 'anyOf', 'oneOf'];
const TEXTS = new Set([
  'title',
  'description',
  'default',
  'examples',
  'deprecated',
  '$comment',
  'example',
]);

function withAll(source: JsonSchema, resolve: Resolve): JoinedSchema {
  const { allOf, ...around } = source;
  if (allOf === undefined) return { schema: source, wider: [] };
  const branches = branchesOf(allOf).map((branch) => joinedSchema(resolve(branch), resolve));
  return branches.reduce<JoinedSchema>(
    ({ schema, wider }, branch) => {
      const both = conjunction(schema, branch.schema);
      return {
        schema: both.schema,
        wider: both.isExact && branch.wider.length === 0 ? wider : ['allOf'],
      };
    },
    { schema: around, wider: NONE },
  );
}

function branchesOf(value: unknown): readonly JsonSchema[] {
  return Array.isArray(value) ? value.filter((branch) => isRecord(branch)) : [];
}

interface Conjunction {
  readonly schema: JsonSchema;
  readonly isExact: boolean;
}

/**
 * Writes two schemas that both hold as one. A keyword that cannot be both stays as the first has
 * it.
 */
function conjunction(one: JsonSchema, other: JsonSchema): Conjunction {
  const whole: Record<string, unknown> = { ...one };
  let isExact = true;
  for (const [keyword, value] of Object.entries(other)) {
    const known = whole[keyword];
    if (known === undefined) whole[keyword] = value;
    else if (!TEXTS.has(keyword) && !isSame(known, value)) {
      const both = BOTH[keyword]?.(known, value);
      if (both === undefined) isExact = false;
      else whole[keyword] = both;
    }
  }
  // Each forbids what the other declares, which no one can mean.
  const isOpened = [[one, other] as const, [other, one] as const].some(([closed, more]) =>
    forbids(closed, more),
  );
  const { additionalProperties: _, ...opened } = whole;
  return { schema: isOpened ? opened : whole, isExact };
}

function forbids({ additionalProperties, properties }: JsonSchema, more: JsonSchema): boolean {
  if (additionalProperties === undefined || !isRecord(more['properties'])) return false;
  const own = isRecord(properties) ? properties : {};
  return Object.keys(more['properties']).some((name) => !Object.hasOwn(own, name));
}

function isSame(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

type Join = (one: unknown, other: unknown) => unknown;

const larger: Join = (one, other) =>
  typeof one === 'number' && typeof other === 'number' ? Math.max(one, other) : undefined;
const smaller: Join = (one, other) =>
  typeof one === 'number' && typeof other === 'number' ? Math.min(one, other) : undefined;

/** The values of keywords that hold at once. */
const BOTH: Readonly<Record<string, Join>> = {
  type: (one, other) => commonTypes([one].flat(), [other].flat()),
  enum: (one, other) => {
    const values = listOf(one).filter((value) =>
      listOf(other).some((known) => isSame(known, value)),
    );
    return values.length > 0 ? values : undefined;
  },
  required: (one, other) => [...new Set([...listOf(one), ...listOf(other)])],
  properties: (one, other) => {
    if (!isRecord(one) || !isRecord(other)) return undefined;
    const both = Object.entries(other).map(([name, schema]): [string, unknown] => {
      const known = Object.hasOwn(one, name) ? one[name] : undefined;
      return [
        name,
        known === undefined || isSame(known, schema) ? schema : { allOf: [known, schema] },
      ];
    });
    return { ...one, ...Object.fromEntries(both) };
  },
  ...Object.fromEntries(
    'minimum exclusiveMinimum minLength minItems minProperties'
      .split(' ')
      .map((keyword) => [keyword, larger]),
  ),
  ...Object.fromEntries(
    'maximum exclusiveMaximum maxLength maxItems maxProperties'
      .split(' ')
      .map((keyword) => [keyword, smaller]),
  ),
};

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function commonTypes(one: readonly unknown[], other: readonly unknown[]): unknown {
  const types = one.flatMap((type) => {
    if (other.includes(type) || (type === 'integer' && other.includes('number'))) return [type];
    return type === 'number' && other.includes('integer') ? ['integer'] : [];
  });
  return types.length > 0 ? oneOrAll(types) : undefined;
}

function oneOrAll(types: readonly unknown[]): unknown {
  const all = [...new Set(types)];
  return all.length === 1 ? all[0] : all;
}

function withUnion(source: JsonSchema, keyword: string, resolve: Resolve): JoinedSchema {
  const { [keyword]: union, ...around } = source;
  if (union === undefined) return { schema: source, wider: [] };
  const given = listOf(union);
  // A branch that is `true`, or no schema at all, takes everything.
  if (given.length === 0 || given.some((branch) => !isRecord(branch) && branch !== false))
    return { schema: around, wider: [] };
  const joined = branchesOf(given).map((branch) => joinedSchema(resolve(branch), resolve));
  const branches = joined.map(({ schema }) => schema);
  const values = enumeration(branches);
  const { schema: possible, isExact } = values
    ? { schema: values, isExact: true }
    : disjunction(branches, around);
  const both = conjunction(around, possible);
  const wasExact = isExact && both.isExact && joined.every(({ wider }) => wider.length === 0);
  return { schema: both.schema, wider: wasExact ? [] : [keyword] };
}

/**
 * Returns the values of branches that each list theirs; undefined if one does not. What is said of
 * a value is said of all of them together.
 */
function enumeration(branches: readonly JsonSchema[]): JsonSchema | undefined {
  const lists = branches.map(({ const: only, enum: values, ...rest }) => {
    const isPlain = Object.keys(rest).every((keyword) => keyword === 'type' || TEXTS.has(keyword));
    return isPlain ? (only === undefined ? values : [only]) : undefined;
  });
  if (!lists.every((list) => Array.isArray(list))) return undefined;
  const values: readonly unknown[] = [...new Set(lists.flat())];
  const told = branches.flatMap(({ const: only, description }) =>
    only !== undefined && typeof description === 'string'
      ? [`${JSON.stringify(only)}: ${description}`]
      : [],
  );
  return { enum: values, ...(told.length > 0 && { description: told.join(' ') }) };
}

/** The types that each keyword is about; a value of another type passes it. */
const ABOUT: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries({
    string: 'minLength maxLength pattern contentEncoding contentMediaType',
    number: 'minimum maximum exclusiveMinimum exclusiveMaximum multipleOf',
    array: 'items minItems maxItems uniqueItems',
    object: 'properties required additionalProperties propertyNames minProperties maxProperties',
  }).flatMap(([type, keywords]) => keywords.split(' ').map((keyword) => [keyword, type])),
);

/** Writes one schema for branches of which each alone may hold. */
function disjunction(branches: readonly JsonSchema[], { type: around }: JsonSchema): Conjunction {
  const typed = branches.map((branch) => ({ branch, types: typesOf(branch, around) }));
  const all = typed.flatMap(({ types }) => types);
  const isTyped = typed.every(({ types }) => types.length > 0);
  const type = isTyped && { type: oneOrAll(all) };
  const isDisjoint = isTyped && new Set(all.map((one) => groupOf(one))).size === all.length;
  if (!isDisjoint)
    return {
      schema: {
        ...type,
        ...(isTyped && all.every((one) => one === 'object') && eitherObject(branches)),
      },
      isExact: false,
    };
  const own = typed.flatMap(({ branch, types }) =>
    Object.entries(branch).filter(([keyword]) =>
      types.some((one) => ABOUT[keyword] === groupOf(one)),
    ),
  );
  const said = typed.every(({ branch }) =>
    Object.keys(branch).every(
      (keyword) => keyword === 'type' || TEXTS.has(keyword) || ABOUT[keyword] !== undefined,
    ),
  );
  const told = branches.flatMap(({ description }) =>
    typeof description === 'string' ? [description] : [],
  );
  return {
    schema: {
      ...type,
      ...Object.fromEntries(own),
      ...(told.length > 0 && { description: told.join(' Or: ') }),
    },
    isExact: said,
  };
}

function groupOf(type: unknown): unknown {
  return type === 'integer' ? 'number' : type;
}

/**
 * The types of a branch, also if only what surrounds the union tells them. Properties alone do not:
 * another value passes them.
 */
function typesOf({ type }: JsonSchema, around: unknown): readonly unknown[] {
  if (type !== undefined) return [type].flat();
  return around === 'object' ? ['object'] : [];
}

/** Has the properties of all branches, of which only those must be given that each branch needs. */
function eitherObject(branches: readonly JsonSchema[]): JsonSchema {
  const declared = branches.map(({ properties }) => (isRecord(properties) ? properties : {}));
  const names = [...new Set(declared.flatMap((properties) => Object.keys(properties)))];
  const required = branches.map((branch) => listOf(branch['required']));
  const isClosed = branches.every(({ additionalProperties }) => additionalProperties === false);
  const properties = names.map((name): [string, unknown] => {
    const given = declared.flatMap((one) => (Object.hasOwn(one, name) ? [one[name]] : []));
    // A branch that says nothing of a name takes anything under it, unless it is closed.
    return [
      name,
      isClosed || given.length === declared.length ? eitherOf(given) : textsOf(given[0]),
    ];
  });
  return {
    ...(names.length > 0 && { properties: Object.fromEntries(properties) }),
    required: (required[0] ?? []).filter((name) =>
      required.every((needed) => needed.includes(name)),
    ),
    ...(isClosed && { additionalProperties: false }),
  };
}

function eitherOf(schemas: readonly unknown[]): unknown {
  const different = schemas.filter(
    (schema, index) => schemas.findIndex((known) => isSame(known, schema)) === index,
  );
  return different.length === 1 ? different[0] : { anyOf: different };
}

function textsOf(schema: unknown): JsonSchema {
  return isRecord(schema)
    ? Object.fromEntries(
        Object.entries(schema).filter(
          ([keyword]) => keyword === 'title' || keyword === 'description',
        ),
      )
    : {};
}
