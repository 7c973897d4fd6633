import type { JsonObject, JsonValue } from '@toolloop/core';
import { answeringCalls, inline, moneyOf } from './answer.js';
import { listOf, ownEntries } from './conversation.js';
import { accepts, isJson, isJsonArray, isJsonObject, isScalar, resolved, typeOf, type Schema, type SchemaNode } from './json-schema.js';
import type { Situation } from './situation.js';
import { entityOf, nounOf } from './tools.js';
import { list, stem, wordsOf } from './words.js';

/** Something the results say: what it is called, in stems, and its value. */
type Fact = readonly [name: readonly string[], value: JsonValue];

/** What an answer is built from: the phrased answer, and what the results say. */
interface Source {
  readonly root: Schema;
  readonly text: string;
  readonly facts: readonly Fact[];
}

const TEXT_NAMES = new Set(['answer', 'text', 'summary', 'message', 'reply', 'response', 'explanation', 'content']);
const DEEPEST = 6;

/** The answer as JSON of the wanted shape: values from the results where names agree, the phrased answer where text is wanted. */
export function structuredAnswer(root: Schema, text: string, situation: Situation): JsonValue {
  const { profiles, entities, conversation } = situation;
  const succeeded = conversation.calls.filter(({ status }) => status === 'succeeded');
  const facts = [...answeringCalls(situation).toReversed(), ...succeeded.toReversed()].flatMap(({ name, value, args }): Fact[] => {
    const profile = profiles.get(name);
    const bound = profile && entityOf(profile, entities)?.data;
    const owner = stemsIn(profile?.owner ?? '');
    const noun = stemsIn(nounOf(profile?.method ?? name));
    const own: Fact[] = [[noun.length > 0 ? noun : owner, value], ...factsIn(value, []), ...factsIn(bound ?? null, owner)];
    return [...own, ...factsIn(args, []), [['count'], listOf(value)?.length ?? null]];
  });
  const built = build(root, [], { root, text, facts }, 0);
  return built !== undefined && accepts(root, built, root) ? built : placeholder(root, root);
}

/** What a value says by its keys; `path` are the stems of the keys that led to it. */
function factsIn(value: JsonValue, path: readonly string[]): Fact[] {
  if (path.length > DEEPEST) return [];
  if (isJsonArray(value)) return value.flatMap((item) => factsIn(item, path));
  const entries = isJsonObject(value) ? ownEntries(value) : [];
  return entries.flatMap(([key, entry]) => [[[...path, ...stemsIn(key)], entry] as const, ...factsIn(entry, [...path, ...stemsIn(key)])]);
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
  const branch = typeOf(schema) === undefined ? (schema.anyOf ?? schema.oneOf ?? [])[0] : undefined;
  if (branch !== undefined) return build(branch, name, source, depth + 1);
  if (typeOf(schema) === 'object') return buildObject(schema, name, source, depth);
  const values = valuesFor(name, facts);
  if (typeOf(schema) !== 'array') {
    const fact = values.flatMap(formsOf).find((value) => accepts(schema, value, root));
    return fact ?? (name.length === 0 ? fitted(text, schema, root) : undefined);
  }
  const { items, maxItems = Infinity } = schema;
  const inner = Array.isArray(items) ? false : resolved(items, root);
  const isRecords = typeof inner !== 'boolean' && typeOf(inner) === 'object';
  const known =
    values.length > 0 || !isRecords ? values : facts.map(([, value]) => value).filter((value) => listOf(value)?.some(isJsonObject));
  const rows = known.flatMap((value) => [listOf(value) ?? (isScalar(value) ? [value] : [])]).find(({ length }) => length > 0);
  const built = rows?.map((item) => (isJsonObject(item) ? build(inner, [], { ...source, facts: factsIn(item, []) }, depth + 1) : item));
  return built?.flatMap((item) => (item !== undefined && accepts(inner, item, root) ? [item] : [])).slice(0, maxItems);
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

const TEXTS = list('unknown 1970-01-01 1970-01-01T00:00:00Z unknown@example.com https://example.com 00000000-0000-0000-0000-000000000000');

/** A value of the right type where the results hold none: null where it may be, else the least that is valid. */
function placeholder(node: SchemaNode, root: Schema, depth = 0): JsonValue {
  const schema = resolved(node, root);
  if (typeof schema === 'boolean' || depth > DEEPEST || accepts(schema, null, root)) return null;
  const { properties = {}, required = [], items, minimum, maximum, exclusiveMinimum = 0, multipleOf = 1 } = schema;
  const inner = Array.isArray(items) ? items[0] : items;
  const [branch] = schema.anyOf ?? schema.oneOf ?? schema.allOf ?? [];
  const least = Math.ceil((minimum ?? Math.min(exclusiveMinimum, maximum ?? Infinity)) / multipleOf) * multipleOf;
  const candidates: unknown[] = [
    ...[schema.const, schema.default, ...(schema.enum ?? []), false, 0, minimum, maximum, least, least + multipleOf, '', ...TEXTS],
    '-'.repeat(schema.minLength ?? 0),
    Array.from({ length: schema.minItems ?? 0 }, () => placeholder(inner, root, depth + 1)),
    Object.fromEntries(required.map((key) => [key, placeholder(properties[key], root, depth + 1)])),
    branch === undefined ? null : placeholder(branch, root, depth + 1),
  ];
  return candidates.filter(isJson).find((value) => accepts(schema, value, root)) ?? null;
}
