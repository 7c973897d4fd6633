import type { JsonObject, JsonValue } from '@toolloop/core';
import { answeringCalls, inline, moneyOf } from './answer.js';
import { listOf, ownEntries, type MadeCall } from './conversation.js';
import { accepts, isJson, isJsonArray, isJsonObject, isScalar, resolved, typeOf, type Schema, type SchemaNode } from './json-schema.js';
import type { Situation } from './situation.js';
import { entityOf, nounOf } from './tools.js';
import { list, stem, wordsOf } from './words.js';

/** Something the results say: what it is called, in stems, and its value. */
type Fact = readonly [name: readonly string[], value: JsonValue];

/** The sources of an answer: the phrased answer and the facts in the results. */
interface Source {
  readonly root: Schema;
  readonly text: string;
  readonly facts: readonly Fact[];
}

const TEXT_NAMES = new Set(['answer', 'text', 'summary', 'message', 'reply', 'response', 'explanation', 'content']);
const DEEPEST = 6;

/** The answer as JSON of the wanted shape: values from the results where names agree, the phrased answer where text is wanted. */
export function structuredAnswer(root: Schema, text: string, situation: Situation): JsonValue {
  const succeeded = situation.conversation.calls.filter(({ status }) => status === 'succeeded');
  const calls = [...answeringCalls(situation).toReversed(), ...succeeded.toReversed()];
  const facts = calls.flatMap((call) => factsOf(call, situation));
  const built = build(root, [], { root, text, facts }, 0);
  return built !== undefined && accepts(root, built, root) ? built : placeholder(root, root);
}

function factsOf({ name, value, args }: MadeCall, { profiles, entities }: Situation): Fact[] {
  const profile = profiles.get(name);
  const bound = profile ? entityOf(profile, entities) : undefined;
  const owner = stemsIn(profile ? profile.owner : '');
  const noun = stemsIn(nounOf(profile ? profile.method : name));
  const own: Fact = [noun.length > 0 ? noun : owner, value];
  return [
    own,
    ...factsIn(value, []),
    ...factsIn(bound?.data ?? null, owner),
    ...factsIn(args, []),
    [['count'], listOf(value)?.length ?? null],
  ];
}

/** The facts in a value by its keys; `path` are the stems of the keys that led to it. */
function factsIn(value: JsonValue, path: readonly string[]): Fact[] {
  if (path.length > DEEPEST) return [];
  if (isJsonArray(value)) return value.flatMap((item) => factsIn(item, path));
  const entries = isJsonObject(value) ? ownEntries(value) : [];
  return entries.flatMap(([key, entry]): Fact[] => {
    const name = path.concat(stemsIn(key));
    const own: Fact[] = [[name, entry]];
    return own.concat(factsIn(entry, name));
  });
}

function stemsIn(name: string): string[] {
  return wordsOf(name).map(stem);
}

/** The values of facts whose name holds all words of the wanted one, or all of whose words it holds; the closest first. */
function valuesFor(wanted: readonly string[], facts: readonly Fact[]): JsonValue[] {
  const closeness = ([name]: Fact): number => {
    const shared = wanted.filter((word) => name.includes(word)).length;
    return shared === wanted.length || shared === name.length ? shared / (wanted.length + name.length) : 0;
  };
  const close = facts.filter((fact) => closeness(fact) > 0).toSorted((one, other) => closeness(other) - closeness(one));
  return close.map(([, value]) => value);
}

/** Builds a value for one place of the schema; undefined when only an invention would fit. */
function build(node: SchemaNode, name: readonly string[], source: Source, depth: number): JsonValue | undefined {
  const { root, facts, text } = source;
  const schema = resolved(node, root);
  if (typeof schema === 'boolean' || depth > DEEPEST) return undefined;
  const type = typeOf(schema);
  const branch = branchOf(schema);
  if (type === undefined && branch !== undefined) return build(branch, name, source, depth + 1);
  if (type === 'object') return buildObject(schema, name, source, depth);
  if (type === 'array') return buildList(schema, name, source, depth);
  const fact = valuesFor(name, facts)
    .flatMap(formsOf)
    .find((value) => accepts(schema, value, root));
  return fact ?? (name.length === 0 ? fitted(text, schema, root) : undefined);
}

function branchOf({ anyOf, oneOf, allOf }: Schema): SchemaNode {
  return (anyOf ?? oneOf ?? allOf ?? [])[0];
}

/** The list that a name means; for objects any list of them will do when no name agrees. */
function buildList({ items, maxItems }: Schema, name: readonly string[], source: Source, depth: number): JsonValue[] | undefined {
  const { root, facts } = source;
  const inner = Array.isArray(items) ? false : resolved(items, root);
  const isRecords = typeof inner !== 'boolean' && typeOf(inner) === 'object';
  const records = facts.flatMap(([, value]) => (isRecords && listOf(value)?.some(isJsonObject) ? [value] : []));
  const values = [...valuesFor(name, facts), ...records];
  const rows = values.map((value) => listOf(value) ?? (isScalar(value) ? [value] : [])).find(({ length }) => length > 0);
  const built = rows?.map((row) => (isJsonObject(row) ? build(inner, [], { ...source, facts: factsIn(row, []) }, depth + 1) : row));
  return built?.flatMap((row) => (row !== undefined && accepts(inner, row, root) ? [row] : [])).slice(0, maxItems);
}

function buildObject({ properties = {}, required = [] }: Schema, name: readonly string[], source: Source, depth: number): JsonObject {
  const { root, text } = source;
  const own = valuesFor(name, source.facts).find(isJsonObject);
  const facts = own ? factsIn(own, []) : source.facts;
  const texts = Object.keys(properties).filter((key) => depth === 0 && isTextPlace(properties[key], root));
  const isFree = (key: string): boolean => required.includes(key) && valuesFor(stemsIn(key), facts).length === 0;
  const textKey = texts.find((key) => TEXT_NAMES.has(wordsOf(key).at(-1) ?? '')) ?? texts.find(isFree);
  const entries = Object.entries(properties).flatMap(([key, node]): [string, JsonValue][] => {
    const built = (key === textKey ? fitted(text, node, root) : undefined) ?? build(node, stemsIn(key), { root, text, facts }, depth + 1);
    if (built !== undefined && accepts(node, built, root)) return [[key, built]];
    return required.includes(key) ? [[key, placeholder(node, root)]] : [];
  });
  return Object.fromEntries(entries);
}

function isTextPlace(node: SchemaNode, root: Schema): boolean {
  const schema = resolved(node, root);
  return typeof schema !== 'boolean' && typeOf(schema) === 'string' && !schema.enum && (schema.format ?? schema.pattern) === undefined;
}

/** The forms a fact can take: as it is, money's amount and currency, a list's length, a text's number, a number's text. */
function formsOf(value: JsonValue): JsonValue[] {
  const money = moneyOf(value);
  if (money) return [money.amount, inline(value), money.currency];
  const length = listOf(value)?.length;
  if (length !== undefined || !isScalar(value)) return length === undefined ? [] : [length];
  return [value, ...(/^-?\d+(?:\.\d+)?$/.test(String(value)) ? [Number(value), String(value)] : [])];
}

/** A text cut to what the schema allows; undefined when no cut helps. */
function fitted(text: string, node: SchemaNode, root: Schema): string | undefined {
  const schema = resolved(node, root);
  const short = typeof schema === 'boolean' ? text : Array.from(text).slice(0, schema.maxLength).join('');
  return isTextPlace(node, root) && accepts(schema, short, root) ? short : undefined;
}

const TEXTS = [
  '',
  ...list('unknown 1970-01-01 1970-01-01T00:00:00Z unknown@example.com https://example.com 00000000-0000-0000-0000-000000000000'),
];

/** A value of the right type where the results hold none: null where it may be, else the least that is valid. */
function placeholder(node: SchemaNode, root: Schema, depth = 0): JsonValue {
  const schema = resolved(node, root);
  if (typeof schema === 'boolean' || depth > DEEPEST) return null;
  const branch = branchOf(schema);
  const first: unknown[] = [null, schema.const, schema.default, ...(schema.enum ?? []), false];
  const given = [...first, ...numbersFor(schema), ...TEXTS, ...leastOf(schema, root, depth)];
  if (branch !== undefined) given.push(placeholder(branch, root, depth + 1));
  return given.filter(isJson).find((value) => accepts(schema, value, root)) ?? null;
}

/** The shortest text, list and object of a schema. */
function leastOf(
  { properties = {}, required = [], items, minItems: length = 0, minLength = 0 }: Schema,
  root: Schema,
  depth: number,
): unknown[] {
  const [inner] = [items].flat();
  const rows: unknown = Array.from({ length }, () => placeholder(inner, root, depth + 1));
  const record = Object.fromEntries(required.map((key) => [key, placeholder(properties[key], root, depth + 1)]));
  return ['-'.repeat(minLength), record, rows];
}

function numbersFor({ minimum, maximum, exclusiveMinimum = 0, multipleOf = 1 }: Schema): unknown[] {
  const least = Math.ceil((minimum ?? Math.min(exclusiveMinimum, maximum ?? Infinity)) / multipleOf) * multipleOf;
  return [0, minimum, maximum, least, least + multipleOf];
}
