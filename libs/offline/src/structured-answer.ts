import { isJsonList, isJsonObject, type JsonValue } from '@toolloop/protocol';
import { answeringCalls, inline, moneyOf } from './answer.js';
import { accepts, isScalar, resolved, typeOf, type Schema, type SchemaNode } from './json-schema.js';
import type { MadeCall, Situation } from './situation.js';
import { entityOf, listOf, ownEntries } from './situation.js';
import { nounOf } from './tools.js';
import { list, stem, wordsOf } from './words.js';

/** Something the results say: what it is called, in stems, and its value. */
type Fact = readonly [name: readonly string[], value: JsonValue];

/** The sources of an answer: the phrased answer, and the facts in the results. */
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
  return built !== undefined && accepts(root, built, root) ? built : standIn(root, root);
}

function factsOf({ name, value, args }: MadeCall, { profiles, entities }: Situation): Fact[] {
  const { owner = '', method = name } = profiles.get(name) ?? {};
  const profile = profiles.get(name);
  const bound = profile && entityOf(profile, entities);
  const own: Fact = [stemsIn(nounOf(method) || owner), value];
  const count: Fact = [['count'], listOf(value)?.length ?? null];
  return [own, count, ...factsIn(value, []), ...factsIn(bound?.data ?? null, stemsIn(owner)), ...factsIn(args, [])];
}

/** The facts in a value by its keys; `path` are the stems of the keys that led to it. */
function factsIn(value: JsonValue, path: readonly string[]): Fact[] {
  if (isJsonList(value)) return value.flatMap((item) => factsIn(item, path));
  const entries = isJsonObject(value) && path.length <= DEEPEST ? ownEntries(value) : [];
  const facts = entries.map(([key, entry]): Fact => [path.concat(stemsIn(key)), entry]);
  return facts.concat(facts.flatMap(([name, entry]) => factsIn(entry, name)));
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
  const values = valuesFor(name, facts);
  if (typeOf(schema) === 'object') {
    const own = values.find(isJsonObject);
    return buildObject(schema, own ? { ...source, facts: factsIn(own, []) } : source, depth);
  }
  if (typeOf(schema) === 'array') return buildList(schema, values, source, depth);
  const found = values.flatMap(formsOf).find((value) => accepts(schema, value, root));
  return found ?? (name.length === 0 ? fitted(text, schema, root) : undefined);
}

/** The first list among the values; for objects any list of them will do when no name agrees. */
function buildList({ items, maxItems }: Schema, values: readonly JsonValue[], source: Source, depth: number): JsonValue[] | undefined {
  const { root, facts } = source;
  const inner = Array.isArray(items) ? false : resolved(items, root);
  const isRecords = typeof inner !== 'boolean' && typeOf(inner) === 'object';
  const records = facts.flatMap(([, value]) => (isRecords && listOf(value)?.some(isJsonObject) ? [value] : []));
  const rows = [...values, ...records].map((value) => listOf(value) ?? (isScalar(value) ? [value] : [])).find(({ length }) => length > 0);
  const built = rows?.map((row) => (isJsonObject(row) ? build(inner, [], { ...source, facts: factsIn(row, []) }, depth + 1) : row));
  return built?.flatMap((row) => (row !== undefined && accepts(inner, row, root) ? [row] : [])).slice(0, maxItems);
}

function buildObject({ properties = {}, required = [] }: Schema, source: Source, depth: number): JsonValue {
  const { root, text, facts } = source;
  const texts = Object.keys(properties).filter((key) => depth === 0 && fitted(text, properties[key], root) !== undefined);
  const isFree = (key: string): boolean => required.includes(key) && valuesFor(stemsIn(key), facts).length === 0;
  const textKey = texts.find((key) => TEXT_NAMES.has(wordsOf(key).at(-1) ?? '')) ?? texts.find(isFree);
  const entries = Object.entries(properties).flatMap(([key, node]): [string, JsonValue][] => {
    const built = key === textKey ? fitted(text, node, root) : build(node, stemsIn(key), source, depth + 1);
    if (built !== undefined && accepts(node, built, root)) return [[key, built]];
    return required.includes(key) ? [[key, standIn(node, root)]] : [];
  });
  return Object.fromEntries(entries);
}

/** The forms a fact can take: as it is, money's amount and currency, a list's length, a text's number, a number's text. */
function formsOf(value: JsonValue): JsonValue[] {
  const money = moneyOf(value);
  if (money) return [money.amount, inline(value), money.currency];
  if (!isScalar(value)) return [listOf(value)?.length ?? []].flat();
  return [value, ...(/^-?\d+(?:\.\d+)?$/.test(String(value)) ? [Number(value), String(value)] : [])];
}

/** A text cut to what the schema allows; undefined where the schema wants no running text. */
function fitted(text: string, node: SchemaNode, root: Schema): string | undefined {
  const schema = resolved(node, root);
  if (typeof schema === 'boolean' || typeOf(schema) !== 'string' || schema.enum) return undefined;
  const short = Array.from(text).slice(0, schema.maxLength).join('');
  return accepts(schema, short, root) ? short : undefined;
}

const TEXTS = list('unknown 1970-01-01 1970-01-01T00:00:00Z unknown@example.com https://example.com 00000000-0000-0000-0000-000000000000');

/** A value of the right type where the results hold none: null where it may be, else the least that is valid. */
function standIn(node: SchemaNode, root: Schema, depth = 0): JsonValue {
  const schema = resolved(node, root);
  if (typeof schema === 'boolean' || depth > DEEPEST) return null;
  const { properties = {}, required = [], items, minItems: length = 0, minLength = 0 } = schema;
  const [inner] = [items].flat();
  const record = Object.fromEntries(required.map((key) => [key, standIn(properties[key], root, depth + 1)]));
  const rows = Array.from({ length }, () => standIn(inner, root, depth + 1));
  const least = [null, false, 0, '', ...TEXTS, ...numbersFor(schema), '-'.repeat(minLength), record, rows];
  const given = [schema.const, schema.default, ...(schema.enum ?? []), ...least];
  return given.find((value) => value !== undefined && accepts(schema, value, root)) ?? null;
}

function numbersFor({ minimum, maximum, exclusiveMinimum = 0, multipleOf = 1 }: Schema): (number | undefined)[] {
  const least = Math.ceil((minimum ?? Math.min(exclusiveMinimum, maximum ?? Infinity)) / multipleOf) * multipleOf;
  return [minimum, maximum, least, least + multipleOf];
}
