import { isRecord, type JsonValue } from '@toolloop/protocol';
import type { JSONSchema7 } from 'json-schema';
import { pointerSegment } from './validators.js';

/** Something in a schema that not every provider understands. */
export interface SubsetProblem {
  /** JSON pointer into the schema; empty for the whole. */
  readonly pointer: string;
  readonly problem: string;
}

/** A subschema and where it lies. */
interface Place {
  readonly schema: Readonly<Record<string, unknown>>;
  readonly pointer: string;
}

/** What stands where a subschema may stand: it may be no object at all. */
interface Candidate {
  readonly schema: unknown;
  readonly pointer: string;
}

const FORBIDDEN = new Set([
  ...'oneOf anyOf allOf not if then else patternProperties dependencies dependentSchemas dependentRequired unevaluatedProperties'.split(
    ' ',
  ),
  ...'contains additionalItems prefixItems unevaluatedItems $anchor $dynamicRef $dynamicAnchor $recursiveRef $recursiveAnchor'.split(' '),
]);

/** Keywords whose value is one schema, and keywords whose value is schemas by name. Values such as `default` and `enum` are data, never looked into. */
export const ONE_SCHEMA = ['items', 'additionalProperties', 'propertyNames'];
export const NAMED_SCHEMAS = ['properties', '$defs', 'definitions'];

/** What a schema may not say, since providers disagree about it: everything outside plain objects, arrays, enums, bounds and local `$defs`. */
export function subsetProblems(schema: JSONSchema7): readonly SubsetProblem[] {
  const definitions = isRecord(schema.$defs) ? schema.$defs : {};
  const problems = placesOf(schema).flatMap((place) => problemsAt(place, definitions));
  return schema.type === 'object' ? problems : [{ pointer: '/type', problem: 'the type of the whole must be "object"' }, ...problems];
}

/** Every name an argument can have by this schema, at any depth; each once, in order of appearance. */
export function propertyNamesOf(schema: JSONSchema7): readonly string[] {
  const names = placesOf(schema).flatMap(({ schema: { properties } }) => (isRecord(properties) ? Object.keys(properties) : []));
  return [...new Set(names)];
}

/** The JSON pointer of the first key, at any depth, that no model may send; undefined when there is none. Case, `_` and `-` make no difference. */
export function reservedNamesIn(value: JsonValue, reserved: readonly string[]): string | undefined {
  const names = comparableSet(reserved);
  const pending: { readonly value: unknown; readonly pointer: string }[] = [{ value, pointer: '' }];
  for (let place = pending.pop(); place; place = pending.pop()) {
    const entries = childrenOf(place.value);
    const keyed = !Array.isArray(place.value);
    const found = keyed ? entries.find(([key]) => names.has(comparable(key))) : undefined;
    if (found) return place.pointer + pointerSegment(found[0]);
    for (const [key, child] of entries.toReversed()) {
      if (typeof child === 'object' && child !== null) pending.push({ value: child, pointer: place.pointer + pointerSegment(key) });
    }
  }
  return undefined;
}

/** Whether an argument's name is one that no model may send. */
export function isReserved(name: string, reserved: readonly string[]): boolean {
  return comparableSet(reserved).has(comparable(name));
}

const comparableSets = new WeakMap<readonly string[], ReadonlySet<string>>();

/** Asked for every argument of every tool and for every call, and always about the same few lists. */
function comparableSet(names: readonly string[]): ReadonlySet<string> {
  const known = comparableSets.get(names) ?? new Set(names.map(comparable));
  comparableSets.set(names, known);
  return known;
}

const SEPARATORS = /[_-]/g;

function comparable(name: string): string {
  return name.toLowerCase().replaceAll(SEPARATORS, '');
}

/** Iterative: a schema or a value from outside may be nested deeper than the stack. */
function placesOf(root: JSONSchema7): Place[] {
  const places: Place[] = [];
  const pending: Candidate[] = [{ schema: root, pointer: '' }];
  for (let next = pending.pop(); next; next = pending.pop()) {
    if (!isRecord(next.schema)) continue;
    const place = { schema: next.schema, pointer: next.pointer };
    places.push(place);
    pending.push(...subschemasOf(place).toReversed());
  }
  return places;
}

function subschemasOf({ schema, pointer }: Place): Candidate[] {
  const found: Candidate[] = [];
  for (const keyword of NAMED_SCHEMAS) {
    const children = childrenOf(schema[keyword]);
    for (const [name, child] of children) found.push({ schema: child, pointer: `${pointer}/${keyword}${pointerSegment(name)}` });
  }
  for (const keyword of ONE_SCHEMA)
    if (isRecord(schema[keyword])) found.push({ schema: schema[keyword], pointer: `${pointer}/${keyword}` });
  return found;
}

function problemsAt({ schema, pointer }: Place, definitions: object): SubsetProblem[] {
  const problems = Object.keys(schema)
    .filter((keyword) => FORBIDDEN.has(keyword))
    .map((keyword) => ({ pointer: `${pointer}/${keyword}`, problem: `"${keyword}" is not supported` }));
  if (Array.isArray(schema['items']))
    problems.push({ pointer: `${pointer}/items`, problem: 'items that differ by position are not supported' });
  if (pointer !== '' && Object.hasOwn(schema, '$id'))
    problems.push({ pointer: `${pointer}/$id`, problem: '"$id" is supported at the top only' });
  const reference = referenceProblem(schema['$ref'], definitions);
  if (reference) problems.push({ pointer: `${pointer}/$ref`, problem: reference });
  return problems;
}

function referenceProblem(reference: unknown, definitions: object): string | undefined {
  if (reference === undefined) return undefined;
  if (typeof reference !== 'string') return '"$ref" must be text';
  const name = definitionNamed(reference);
  if (name === undefined) return `"${reference}" is not supported; only "#/$defs/Name" is`;
  return Object.hasOwn(definitions, name) ? undefined : `"${reference}" names nothing in $defs`;
}

/** The name in `$defs` that a `$ref` stands for; undefined for any other reference. */
export function definitionNamed(reference: string): string | undefined {
  return /^#\/\$defs\/([^/]+)$/.exec(reference)?.[1]?.replaceAll('~1', '/').replaceAll('~0', '~');
}

function childrenOf(value: unknown): readonly (readonly [string, unknown])[] {
  return typeof value === 'object' && value !== null ? Object.entries(value) : NO_CHILDREN;
}

const NO_CHILDREN: readonly (readonly [string, unknown])[] = [];
