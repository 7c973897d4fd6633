import type { JsonObject, JsonValue } from '@toolloop/core';
import { answeringCalls } from './answer.js';
import { listOf, ownEntries, type MadeCall } from './conversation.js';
import { accepts, isJson, isJsonArray, isJsonObject, isScalar, resolved, typeOf, type Schema, type SchemaNode } from './json-schema.js';
import type { Situation } from './situation.js';
import { entityOf, nounOf } from './tools.js';
import { inline, moneyOf, toNumber } from './values.js';
import { stem, wordsOf } from './words.js';

/** Something the results say: what it is called, in stems, and its value. */
interface Fact {
  readonly stems: ReadonlySet<string>;
  readonly value: JsonValue;
}

/** What an answer is built from: the phrased answer, and what the results say. */
interface Source {
  readonly root: Schema;
  readonly text: string;
  readonly facts: readonly Fact[];
}

const TEXT_NAMES = new Set(['answer', 'text', 'summary', 'message', 'reply', 'response', 'explanation', 'content']);
const DEEPEST = 6;
const MOST_ITEMS = 100;

/** The answer as JSON of the wanted shape: values from the results where names agree, the phrased answer where text is wanted. */
export function structuredAnswer(schema: Schema, text: string, situation: Situation): JsonValue {
  const answering = answeringCalls(situation).toReversed();
  const others = situation.conversation.calls.filter((call) => call.status === 'succeeded' && !answering.includes(call)).toReversed();
  const facts = [...answering, ...others].flatMap((call) => factsOfCall(call, situation));
  const built = build(schema, [], { root: schema, text, facts }, 0);
  return built === undefined || !accepts(schema, built, schema) ? placeholder(schema, schema) : built;
}

function factsOfCall({ name, value, args }: MadeCall, { profiles, entities }: Situation): Fact[] {
  const profile = profiles.get(name);
  const bound = profile && entityOf(profile, entities)?.data;
  const owner = stemsIn(profile?.owner ?? '');
  const noun = stemsIn(nounOf(profile?.method ?? name));
  const list = listOf(value);
  return [
    { stems: new Set(noun.length > 0 ? noun : owner), value },
    ...factsIn(value, []),
    ...(bound ? factsIn(bound, owner) : []),
    ...factsIn(args, []),
    ...(list ? [{ stems: new Set(['count', 'total', 'number'].map(stem)), value: list.length }] : []),
  ];
}

/** What a value says by its keys; `path` are the stems of the keys that led to it. */
function factsIn(value: JsonValue, path: readonly string[], depth = 0): Fact[] {
  if (depth > DEEPEST) return [];
  if (isJsonArray(value)) return value.slice(0, MOST_ITEMS).flatMap((item) => factsIn(item, path, depth + 1));
  if (!isJsonObject(value)) return [];
  return ownEntries(value).flatMap(([key, entry]) => {
    const stems = path.concat(stemsIn(key));
    return [{ stems: new Set(stems), value: entry }, ...factsIn(entry, stems.slice(-3), depth + 1)];
  });
}

/** All stems of a name, stop words too: `to` and `from` are names here. */
function stemsIn(name: string): string[] {
  return wordsOf(name).map(stem);
}

/** The values of facts whose name holds all words of the wanted one, or all of whose words it holds; the closest first. */
function valuesFor(name: readonly string[], facts: readonly Fact[]): JsonValue[] {
  const wanted = new Set(name);
  const closeness = ({ stems }: Fact): number => {
    const shared = [...wanted].filter((word) => stems.has(word)).length;
    return shared > 0 && (shared === wanted.size || shared === stems.size) ? shared / new Set([...wanted, ...stems]).size : 0;
  };
  const close = facts.map((fact) => ({ value: fact.value, closeness: closeness(fact) })).filter((fact) => fact.closeness > 0);
  return close.toSorted((one, other) => other.closeness - one.closeness).map(({ value }) => value);
}

/** Builds a value for one place of the schema; undefined when only an invention would fit. */
function build(node: SchemaNode, name: readonly string[], source: Source, depth: number): JsonValue | undefined {
  const schema = resolved(node, source.root);
  if (typeof schema === 'boolean') return schema ? source.text : undefined;
  if (isJson(schema.const)) return schema.const;
  const branches = schema.type === undefined && !schema.properties ? (schema.anyOf ?? schema.oneOf ?? schema.allOf ?? []) : [];
  const branch = branches.find((one) => typeof one !== 'boolean' && one.type !== 'null');
  if (branch !== undefined) return build(branch, name, source, depth);
  const type = depth < DEEPEST ? typeOf(schema) : undefined;
  if (type === 'object') return buildObject(schema, name, source, depth);
  if (type === 'array') return buildList(schema, name, source, depth);
  const fact = valuesFor(name, source.facts)
    .flatMap(formsOf)
    .find((value) => accepts(schema, value, source.root));
  return fact ?? (name.length === 0 && isTextPlace(schema, source.root) ? fitted(source.text, schema, source.root) : undefined);
}

function buildObject(schema: Schema, name: readonly string[], source: Source, depth: number): JsonObject {
  const { root, text, facts } = source;
  const own = valuesFor(name, facts).find(isJsonObject);
  const narrowed = own ? { ...source, facts: factsIn(own, []) } : source;
  const { properties = {}, required = [] } = schema;
  const texts = depth === 0 ? Object.keys(properties).filter((key) => isTextPlace(properties[key], root)) : [];
  const isFree = (key: string): boolean => required.includes(key) && valuesFor(stemsIn(key), narrowed.facts).length === 0;
  const textKey = texts.find((key) => TEXT_NAMES.has(wordsOf(key).at(-1) ?? '')) ?? texts.find(isFree);
  const entries = Object.entries(properties).flatMap(([key, node]): [string, JsonValue][] => {
    const built = (key === textKey ? fitted(text, node, root) : undefined) ?? build(node, stemsIn(key), narrowed, depth + 1);
    if (built !== undefined && accepts(node, built, root)) return [[key, built]];
    return required.includes(key) ? [[key, placeholder(node, root)]] : [];
  });
  return Object.fromEntries(entries);
}

function isTextPlace(node: SchemaNode, root: Schema): boolean {
  const schema = resolved(node, root);
  return (
    typeof schema !== 'boolean' &&
    typeOf(schema) === 'string' &&
    !schema.enum &&
    schema.format === undefined &&
    schema.pattern === undefined
  );
}

/** A list that a name means; for objects any list of them will do when no name agrees. */
function buildList(
  { items, maxItems = MOST_ITEMS }: Schema,
  name: readonly string[],
  source: Source,
  depth: number,
): JsonValue | undefined {
  if (Array.isArray(items)) return undefined;
  const lists = (values: readonly JsonValue[]): (readonly JsonValue[])[] =>
    values.flatMap((value) => [listOf(value) ?? (isScalar(value) ? [value] : [])]).filter((list) => list.length > 0);
  const inner = resolved(items, source.root);
  const wantsObjects = typeof inner !== 'boolean' && typeOf(inner) === 'object';
  const [named] = lists(valuesFor(name, source.facts));
  const list = named ?? (wantsObjects ? lists(source.facts.map(({ value }) => value)).find((one) => one.some(isJsonObject)) : undefined);
  return list?.slice(0, maxItems).flatMap((item) => {
    const value = isJsonObject(item) ? build(items, [], { ...source, facts: factsIn(item, []) }, depth + 1) : item;
    return value !== undefined && accepts(items, value, source.root) ? [value] : [];
  });
}

/** The forms a fact can take: as it is, money's amount and currency, a list's length, a text's number, a number's text. */
function formsOf(value: JsonValue): JsonValue[] {
  const money = moneyOf(value);
  if (money) return [money.amount, inline(value), money.currency];
  const list = listOf(value);
  if (list) return [list.length];
  const number = toNumber(value);
  return isJsonObject(value) ? [] : [value, ...(number === undefined ? [] : [number, String(number)])];
}

/** A text cut to what the schema allows; undefined when no cut helps. */
function fitted(text: string, node: SchemaNode, root: Schema): string | undefined {
  const schema = resolved(node, root);
  const short =
    typeof schema === 'boolean'
      ? text
      : Array.from(text)
          .slice(0, schema.maxLength ?? Infinity)
          .join('');
  return accepts(schema, short, root) ? short : undefined;
}

const TEXTS = [
  '',
  'unknown',
  '1970-01-01',
  '1970-01-01T00:00:00Z',
  'unknown@example.com',
  'https://example.com',
  '00000000-0000-0000-0000-000000000000',
];

/** A value of the right type where the results hold none: null where it may be, else the least that is valid. */
function placeholder(node: SchemaNode, root: Schema, depth = 0): JsonValue {
  const schema = resolved(node, root);
  if (typeof schema === 'boolean' || depth > DEEPEST || accepts(schema, null, root)) return null;
  const named: unknown[] = [schema.const, schema.default, ...(schema.enum ?? [])];
  const given = named.filter(isJson).find((value) => accepts(schema, value, root));
  if (given !== undefined) return given;
  const [branch] = schema.anyOf ?? schema.oneOf ?? schema.allOf ?? [];
  if (branch !== undefined) return placeholder(branch, root, depth + 1);
  const { properties = {}, required = [], items, minItems = 0, minLength = 0 } = schema;
  const type = typeOf(schema);
  if (type === 'object') return Object.fromEntries(required.map((key) => [key, placeholder(properties[key], root, depth + 1)]));
  const inner = Array.isArray(items) ? items[0] : items;
  if (type === 'array') return Array.from({ length: minItems }, () => placeholder(inner, root, depth + 1));
  const texts = [...TEXTS, ...['-', '0', 'A', 'a'].map((sign) => sign.repeat(minLength))];
  const values: readonly JsonValue[] = type === 'boolean' ? [false] : type === 'string' ? texts : numbers(schema);
  return values.find((value) => accepts(schema, value, root)) ?? values[0] ?? null;
}

function numbers({ minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf = 1 }: Schema): number[] {
  const least = minimum ?? exclusiveMinimum ?? maximum ?? exclusiveMaximum ?? 0;
  const stepped = Math.ceil(least / multipleOf) * multipleOf;
  return [0, least, stepped, stepped + multipleOf, stepped - multipleOf, least + 1, least - 1];
}
