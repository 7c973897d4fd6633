import type { JsonValue } from '@toolloop/core';
import type { Leaf } from './argument.leaves.js';
import { dateOfWord } from './dates.js';
import { range, type Mention } from './question.reader.js';
import { accepts } from './schema.check.js';
import { stem } from './words.js';

/** A value a mention can stand for, and the tokens it takes up. */
export interface Form {
  readonly value: JsonValue;
  readonly tokens: readonly number[];
}

/** The likeliest form of a mention that an argument's schema accepts. */
export function formFor(leaf: Leaf, mention: Mention, today: string | undefined): Form | undefined {
  const tokens = range(mention.first, mention.last);
  const forms = namePart(leaf, mention, tokens) ?? valuesFor(leaf, mention, today).map((value) => ({ value, tokens }));
  return forms.find(({ value }) => accepts(leaf.schema, value, leaf.root));
}

function valuesFor({ type, schema }: Leaf, mention: Mention, today: string | undefined): JsonValue[] {
  if (type === 'number' || type === 'integer') return /^-?\d+(?:\.\d+)?$/.test(mention.value) ? [Number(mention.value)] : [];
  if (type !== 'string' && type !== undefined) return [];
  const { value } = mention;
  return schema.pattern === undefined ? timesOf(mention, today) : [value, value.toUpperCase(), value.toLowerCase()];
}

/** Dates and times in the forms the formats `date`, `date-time` and `time` ask for. */
function timesOf({ kind, value }: Mention, today: string | undefined): string[] {
  const date = kind === 'day' && today !== undefined ? dateOfWord(value, today) : undefined;
  if (date !== undefined) return [date, `${date}T00:00:00Z`, value];
  if (kind === 'date') return [value, `${value}T00:00:00Z`];
  return kind === 'time' ? [value, `${value}:00Z`] : [value];
}

const FIRST_NAMES = ['first', 'given'].map(stem);
const LAST_NAMES = ['last', 'surname', 'family'].map(stem);

/** The part of a full name that a first-name or last-name property asks for. */
function namePart({ stems, sense }: Leaf, { kind, value, first }: Mention, tokens: readonly number[]): Form[] | undefined {
  const parts = value.split(' ');
  if (sense !== 'name' || (kind !== 'name' && kind !== 'phrase') || parts.length < 2) return undefined;
  const isPlaced = first >= 0 && parts.length === tokens.length;
  const form = (from: number, to: number): Form => ({
    value: parts.slice(from, to).join(' '),
    tokens: isPlaced ? tokens.slice(from, to) : tokens,
  });
  if (hasAny(stems, LAST_NAMES)) return [form(parts.length - 1, parts.length)];
  return hasAny(stems, FIRST_NAMES) ? [form(0, parts.length - 1)] : undefined;
}

function hasAny(stems: ReadonlySet<string>, words: readonly string[]): boolean {
  return words.some((word) => stems.has(word));
}
