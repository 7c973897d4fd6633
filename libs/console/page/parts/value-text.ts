import { type JsonObject, type JsonValue, visible } from '@toolloop/protocol';
import type { Words } from '../words/words.js';

/**
 * One value of a result, in the language's form of numbers, money and dates. A character that is
 * not seen and could turn around what follows it is written out: people decide by what they read.
 */
export function valueText(value: JsonValue | undefined, words: Words): string {
  if (value === undefined || value === null) return '–';
  if (typeof value === 'number') return words.number(value);
  if (typeof value === 'string')
    return /^\d{4}-\d\d-\d\dT\d\d:\d\d/.test(value) ? words.time(value) : visible(value);
  if (typeof value === 'boolean') return words.t(value ? 'value.yes' : 'value.no');
  if (isObject(value)) return moneyText(value, words) ?? visible(JSON.stringify(value));
  return value.map((one) => valueText(one, words)).join(', ');
}

/** A sum with its currency; undefined for anything else. */
export function moneyText(value: JsonObject, words: Words): string | undefined {
  const { amount, currency, ...rest } = value;
  if (Object.keys(rest).length > 0 || typeof currency !== 'string' || !/^[A-Z]{3}$/.test(currency))
    return undefined;
  return Number.isFinite(Number(amount)) ? words.money(Number(amount), currency) : undefined;
}

export function isObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
