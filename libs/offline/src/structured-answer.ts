import { isJsonObject, type JsonObject, type JsonValue } from '@toolloop/protocol';
import { answeringCalls, inline, moneyOf } from './answer.js';
import { accepts, resolved, typeOf, type Schema, type SchemaNode } from './json-schema.js';
import { entityOf, type MadeCall, type Situation } from './situation.js';
import { nounOf } from './tools.js';
import { isScalar, listOf, valuesIn } from './values.js';
import { list, stem, wordsOf } from './words.js';

/**
 * The answer as JSON of the wanted shape: values from the results where names agree, the phrased
 * answer where text is wanted.
 */
export function structuredAnswer(root: Schema, text: string, situation: Situation): JsonValue {
  const succeeded = situation.conversation.calls.filter(({ status }) => status === 'succeeded');
  const calls = [...answeringCalls(situation).toReversed(), ...succeeded.toReversed()];
  const facts = calls.flatMap((call) => factsOf(call, situation));
  const { properties = {}, required = [] } = root;
  const texts = Object.keys(properties).filter(
    (key) => fitted(text, properties[key], root) !== undefined,
  );
  const isFree = (key: string): boolean =>
    required.includes(key) && valuesFor(key, facts).length === 0;
  const textKey =
    texts.find((key) => TEXT_NAMES.has(wordsOf(key).at(-1) ?? '')) ?? texts.find(isFree);
  const said =
    textKey === undefined ? {} : { [textKey]: fitted(text, properties[textKey], root) ?? null };
  const built = { ...objectOf(root, facts, root), ...said };
  return accepts(root, built, root) ? built : (fitted(text, root, root) ?? standIn(root, root));
}

/** A value in the results, and the stems of what it is called. */
type Fact = readonly [name: readonly string[], value: JsonValue];

const TEXT_NAMES = new Set([
  'answer',
  'text',
  'summary',
  'message',
  'reply',
  'response',
  'explanation',
  'content',
]);
const DEEPEST = 6;

function factsOf({ name, value, args }: MadeCall, { profiles, entities }: Situation): Fact[] {
  const profile = profiles.get(name);
  const { owner = '', method = name } = profile ?? {};
  const bound = factsIn(entityOf(profile, entities)?.data ?? null, stemsIn(owner));
  const count = listOf(value)?.length ?? null;
  return [
    [stemsIn(nounOf(method, owner)), value],
    [['count'], count],
    ...factsIn(value),
    ...bound,
    ...factsIn(args),
  ];
}

function factsIn(value: JsonValue, owner: readonly string[] = []): Fact[] {
  return valuesIn(value).map(([key, one]): Fact => [[...owner, ...stemsIn(key)], one]);
}

function stemsIn(name: string): string[] {
  return wordsOf(name).map(stem);
}

/**
 * The values of facts whose name holds all words of the wanted one, or all of whose words it holds;
 * the closest first.
 */
function valuesFor(key: string, facts: readonly Fact[]): JsonValue[] {
  const wanted = stemsIn(key);
  const closeness = ([name]: Fact): number => {
    const shared = wanted.filter((word) => name.includes(word)).length;
    return shared === wanted.length || shared === name.length
      ? shared / (wanted.length + name.length)
      : 0;
  };
  const close = facts
    .filter((fact) => closeness(fact) > 0)
    .toSorted((one, other) => closeness(other) - closeness(one));
  return close.map(([, value]) => value);
}

function objectOf(
  { properties = {}, required = [] }: Schema,
  facts: readonly Fact[],
  root: Schema,
): JsonObject {
  const entries = Object.entries(properties).flatMap(([key, node]): [string, JsonValue][] => {
    const forms = valuesFor(key, facts).flatMap((value) => formsOf(value, node, root));
    const found =
      forms.find((form) => accepts(node, form, root)) ??
      (required.includes(key) ? standIn(node, root) : undefined);
    return found === undefined ? [] : [[key, found]];
  });
  return Object.fromEntries(entries);
}

/**
 * The forms a value can take: as the object or list that is wanted, as it is, money's amount and
 * currency, a list's length, a text's number, a number's text.
 */
function formsOf(value: JsonValue, node: SchemaNode, root: Schema): JsonValue[] {
  const found = resolved(node, root);
  const schema = typeof found === 'boolean' ? {} : found;
  if (typeOf(schema) === 'array') return listsOf(value, schema, root);
  if (typeOf(schema) === 'object')
    return isJsonObject(value) ? [objectOf(schema, factsIn(value), root)] : [];
  const money = moneyOf(value);
  if (money) return [money.amount, inline(value), money.currency];
  if (!isScalar(value)) return [listOf(value)?.length ?? []].flat();
  return [
    value,
    ...(/^-?\d+(?:\.\d+)?$/.test(String(value)) ? [Number(value), String(value)] : []),
  ];
}

function listsOf(value: JsonValue, { items, maxItems }: Schema, root: Schema): JsonValue[] {
  const [inner] = [items].flat();
  const rows = listOf(value) ?? [value];
  const forms = rows.flatMap(
    (row) => formsOf(row, inner, root).find((form) => accepts(inner, form, root)) ?? [],
  );
  return forms.length > 0 ? [forms.slice(0, maxItems)] : [];
}

/** A text cut to what the schema allows; undefined where the schema wants no running text. */
function fitted(text: string, node: SchemaNode, root: Schema): string | undefined {
  const schema = resolved(node, root);
  if (typeof schema === 'boolean' || typeOf(schema) !== 'string' || schema.enum) return undefined;
  const short = Array.from(text).slice(0, schema.maxLength).join('');
  return accepts(schema, short, root) ? short : undefined;
}

const TEXTS = list(
  'unknown 1970-01-01 1970-01-01T00:00:00Z unknown@example.com https://example.com 00000000-0000-0000-0000-000000000000',
);

/**
 * A value of the right type where the results hold none: null where it may be, else the least that
 * is valid.
 */
function standIn(node: SchemaNode, root: Schema, depth = 0): JsonValue {
  const schema = resolved(node, root);
  if (typeof schema === 'boolean' || depth > DEEPEST) return null;
  const { properties = {}, required = [], items, minItems: length = 0, minLength = 0 } = schema;
  const [inner] = [items].flat();
  const record = Object.fromEntries(
    required.map((key) => [key, standIn(properties[key], root, depth + 1)]),
  );
  const rows = Array.from({ length }, () => standIn(inner, root, depth + 1));
  const least = [
    null,
    false,
    0,
    '',
    ...TEXTS,
    ...numbersFor(schema),
    '-'.repeat(minLength),
    record,
    rows,
  ];
  const given = [schema.const, schema.default, ...(schema.enum ?? []), ...least];
  return given.find((value) => value !== undefined && accepts(schema, value, root)) ?? null;
}

function numbersFor({
  minimum,
  maximum,
  exclusiveMinimum = 0,
  multipleOf = 1,
}: Schema): (number | undefined)[] {
  const least =
    Math.ceil((minimum ?? Math.min(exclusiveMinimum, maximum ?? Infinity)) / multipleOf) *
    multipleOf;
  return [minimum, maximum, least, least + multipleOf];
}
