import type { JsonObject, JsonValue } from '@toolloop/core';
import { isJson, isJsonObject, isScalar, type Schema } from './json.js';
import { factsFor, factsIn, factsOf, stemsIn, type Fact } from './result.facts.js';
import { accepts, resolved, typeOf } from './schema.check.js';
import { placeholder } from './schema.placeholder.js';
import type { Situation } from './situation.js';
import { inline, listOf, moneyOf, toNumber } from './value.phrasing.js';
import { wordsOf } from './words.js';

type Node = Schema | boolean | undefined;

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
  const built = build(schema, [], { root: schema, text, facts: factsOf(situation) }, 0);
  return built === undefined || !accepts(schema, built, schema) ? placeholder(schema, schema) : built;
}

/** Builds a value for one place of the schema; undefined when only an invention would fit. */
function build(node: Node, name: readonly string[], source: Source, depth: number): JsonValue | undefined {
  const schema = resolved(node, source.root);
  if (typeof schema === 'boolean') return schema ? source.text : undefined;
  if (isJson(schema.const)) return schema.const;
  const branch = branchOf(schema);
  if (branch) return build(branch, name, source, depth);
  const type = depth < DEEPEST ? typeOf(schema) : undefined;
  if (type === 'object') return buildObject(schema, name, source, depth);
  if (type === 'array') return buildList(schema, name, source, depth);
  return buildScalar(schema, name, source);
}

/** The first alternative that is not null, of a schema that is nothing but alternatives. */
function branchOf(schema: Schema): Schema | undefined {
  if (schema.type !== undefined || schema.properties) return undefined;
  const branches = schema.anyOf ?? schema.oneOf ?? schema.allOf ?? [];
  return branches.filter((branch) => typeof branch !== 'boolean').find((branch) => branch.type !== 'null');
}

function buildObject(schema: Schema, name: readonly string[], source: Source, depth: number): JsonObject {
  const own = factsFor(name, source.facts).find(({ value }) => isJsonObject(value));
  const narrowed = own ? { ...source, facts: factsIn(own.value, []) } : source;
  const textKey = textKeyOf(schema, narrowed, depth);
  const required = new Set(schema.required ?? []);
  const entries = Object.entries(schema.properties ?? {}).flatMap(([key, node]): [string, JsonValue][] => {
    const text = key === textKey ? fitted(source.text, node, source.root) : undefined;
    const built = text ?? build(node, stemsIn(key), narrowed, depth + 1);
    if (built !== undefined && accepts(node, built, source.root)) return [[key, built]];
    return required.has(key) ? [[key, placeholder(node, source.root)]] : [];
  });
  return Object.fromEntries(entries);
}

/** Where the phrased answer goes: a property called answer, text and so on, else the first required text the results do not fill. */
function textKeyOf(schema: Schema, { root, facts }: Source, depth: number): string | undefined {
  const texts = Object.keys(schema.properties ?? {}).filter((key) => isTextPlace(schema.properties?.[key], root));
  const byName = texts.find((key) => TEXT_NAMES.has(wordsOf(key).at(-1) ?? ''));
  const isFree = (key: string): boolean => (schema.required ?? []).includes(key) && factsFor(stemsIn(key), facts).length === 0;
  return depth === 0 ? (byName ?? texts.find(isFree)) : undefined;
}

function isTextPlace(node: Node, root: Schema): boolean {
  const schema = resolved(node, root);
  if (typeof schema === 'boolean') return false;
  return typeOf(schema) === 'string' && !schema.enum && schema.format === undefined && schema.pattern === undefined;
}

function buildList(schema: Schema, name: readonly string[], source: Source, depth: number): JsonValue | undefined {
  const { items, maxItems = MOST_ITEMS } = schema;
  const list = Array.isArray(items) ? undefined : listFor(schema, name, source);
  if (!list || Array.isArray(items)) return undefined;
  return list.slice(0, maxItems).flatMap((item) => {
    const value = isJsonObject(item) ? build(items, [], { ...source, facts: factsIn(item, []) }, depth + 1) : item;
    return value !== undefined && accepts(items, value, source.root) ? [value] : [];
  });
}

/** The list a name means; for objects any list of them will do, when no name agrees. */
function listFor({ items }: Schema, name: readonly string[], { facts, root }: Source): readonly JsonValue[] | undefined {
  const named = lists(factsFor(name, facts))[0];
  const inner = Array.isArray(items) ? false : resolved(items, root);
  const wantsObjects = typeof inner !== 'boolean' && typeOf(inner) === 'object';
  return named ?? (wantsObjects ? lists(facts).find((list) => list.some(isJsonObject)) : undefined);
}

/** The lists among facts; one value is a list of one. */
function lists(facts: readonly Fact[]): (readonly JsonValue[])[] {
  return facts.flatMap(({ value }) => {
    const list = listOf(value) ?? (isScalar(value) ? [value] : undefined);
    return list ? [list] : [];
  });
}

function buildScalar(schema: Schema, name: readonly string[], { facts, root, text }: Source): JsonValue | undefined {
  const found = factsFor(name, facts).flatMap(({ value }) => forms(value));
  const fact = found.find((value) => accepts(schema, value, root));
  const takesText = name.length === 0 && isTextPlace(schema, root);
  return fact ?? (takesText ? fitted(text, schema, root) : undefined);
}

/** The forms a fact can take: as it is, money's amount and currency, a list's length, a text's number, a number's text. */
function forms(value: JsonValue): JsonValue[] {
  const money = moneyOf(value);
  if (money) return [money.amount, inline(value), money.currency];
  const list = listOf(value);
  if (list) return [list.length];
  if (isJsonObject(value)) return [];
  const number = toNumber(value);
  return [value, ...(number === undefined ? [] : [number, String(number)])];
}

/** A text cut to what the schema allows; undefined when no cut helps. */
function fitted(text: string, node: Node, root: Schema): string | undefined {
  const schema = resolved(node, root);
  if (typeof schema === 'boolean') return text;
  const short = Array.from(text)
    .slice(0, schema.maxLength ?? Infinity)
    .join('');
  return accepts(schema, short, root) ? short : undefined;
}
