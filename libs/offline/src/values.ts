import type { JsonObject, JsonValue } from '@toolloop/core';
import { idsOf, isIdKey, labelOf, ownEntries } from './conversation.js';
import { isJsonArray, isJsonObject } from './json-schema.js';
import { humanised, knows, stem, wordsOf } from './words.js';

/** A value somewhere in a result, with the words of the keys that lead to it. */
export interface Field {
  readonly name: string;
  readonly stems: ReadonlySet<string>;
  readonly value: JsonValue;
}

const LONGEST_TEXT = 300;
const MOST_FIELDS = 6;
const MOST_LINES = 6;
const DEEPEST = 3;

/** `{ amount, currency }` and its like as an amount and a currency; undefined for anything else. */
export function moneyOf(value: JsonValue): { readonly amount: number; readonly currency: string } | undefined {
  if (!isJsonObject(value) || Object.keys(value).length > 3) return undefined;
  const amount = toNumber(value['amount'] ?? value['value']);
  const currency = value['currency'] ?? value['unit'];
  return amount !== undefined && typeof currency === 'string' && currency !== '' ? { amount, currency } : undefined;
}

/** A number, or the number a text is. */
export function toNumber(value: JsonValue | undefined): number | undefined {
  if (typeof value === 'number') return value;
  return typeof value === 'string' && /^-?\d+(?:\.\d+)?$/.test(value) ? Number(value) : undefined;
}

/** A value in one line. */
export function inline(value: JsonValue): string {
  const money = moneyOf(value);
  if (money) return `${/^[A-Z]{3}$/.test(money.currency) ? money.amount.toFixed(2) : money.amount} ${money.currency}`;
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (typeof value === 'number') return String(Math.round(value * 1e6) / 1e6);
  if (typeof value === 'string') return cut(value);
  if (isJsonArray(value)) return value.length === 0 ? 'none' : joined(value.slice(0, MOST_LINES).map(shortly), value.length - MOST_LINES);
  return isJsonObject(value) ? fieldList(fieldsOf(value)) : 'none';
}

function shortly(value: JsonValue): string {
  return (isJsonObject(value) && !moneyOf(value) ? nameOf(value) : undefined) ?? inline(value);
}

export function cut(text: string): string {
  const line = text.replaceAll(/\s+/g, ' ').trim();
  return line.length > LONGEST_TEXT ? `${line.slice(0, LONGEST_TEXT)}…` : line;
}

/** "a, b and c", with a note of how many more there are. */
export function joined(parts: readonly string[], more = 0, word = 'and'): string {
  if (more > 0) return `${parts.join(', ')} and ${more} more`;
  return parts.length < 2 ? (parts[0] ?? '') : `${parts.slice(0, -1).join(', ')} ${word} ${parts.at(-1)}`;
}

/** An object's name with its id, or the one of them it has. */
function nameOf(data: JsonObject): string | undefined {
  const [label, [id]] = [labelOf(data), idsOf(data)];
  return label !== undefined && id !== undefined && label !== id ? `${label} (${id})` : (label ?? id);
}

/** The values inside an object, nested objects opened. */
export function fieldsOf(data: JsonObject, path = '', depth = 0): Field[] {
  return ownEntries(data).flatMap(([key, value]) => {
    const name = `${path} ${humanised(key)}`.trim();
    if (isJsonObject(value) && !moneyOf(value)) return depth < DEEPEST ? fieldsOf(value, name, depth + 1) : [];
    return value === null ? [] : [{ name, stems: new Set(wordsOf(name).map(stem)), value }];
  });
}

export function fieldList(fields: readonly Field[]): string {
  const shown = fields
    .slice(0, MOST_FIELDS)
    .map(({ name, value }) => (isCounted(name, value) ? `${inline(value)} ${name}` : `${name} ${inline(value)}`));
  return shown.join(', ');
}

/** "days: 12" reads better as "12 days". */
export function isCounted(name: string, value: JsonValue): boolean {
  return typeof value === 'number' && /^[a-z]+[^s]s$/.test(name);
}

/** The fields that answer most of the wanted stems; none when no field answers any. */
export function askedFields(fields: readonly Field[], stems: readonly string[]): Field[] {
  const hits = fields.map((field) => stems.filter((wanted) => knows(field.stems, wanted) > 0).length);
  const most = Math.max(1, ...hits);
  return fields.filter((_, index) => hits[index] === most);
}

/** A list as lines, each an item with the fields that were asked for, or the first few. */
export function bullets(items: readonly JsonValue[], stems: readonly string[]): string {
  const lines = items.slice(0, MOST_LINES).map((item) => {
    if (!isJsonObject(item) || moneyOf(item)) return `- ${inline(item)}`;
    const others = fieldsOf(item).filter(({ name, value }) => !isIdKey(name) && value !== labelOf(item));
    const asked = askedFields(others, stems);
    const shown = fieldList(asked.length > 0 ? asked : others.slice(0, 4));
    return `- ${[nameOf(item) ?? '', shown].filter((part) => part !== '').join(': ')}`;
  });
  const more = items.length - lines.length;
  return [...lines, ...(more > 0 ? [`… and ${more} more`] : [])].join('\n');
}

export function ended(text: string): string {
  return /[.!?…]$/.test(text) ? text : `${text}.`;
}

export function capitalised(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
