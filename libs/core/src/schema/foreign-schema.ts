import { isObject, isRecord, visible } from '@toolloop/protocol';
import type { JSONSchema7 } from 'json-schema';
import { toJson } from './canonical-json.js';
import { withoutNullUnions, withRoot } from './raw-input.js';
import { definitionNamed, FORBIDDEN_KEYWORDS } from './subset.js';
import { pointerSegment } from './validators.js';

/** A schema of others as it is applied: never stricter than it was written. */
export interface NarrowedSchema {
  readonly schema: JSONSchema7;
  /** The keywords that are not applied, each as the JSON pointer to where it stood. Annotations and addresses are not among them. */
  readonly unapplied: readonly string[];
  /** The number of values in what was copied. */
  readonly values: number;
}

type JsonSchema = Readonly<Record<string, unknown>>;

/** The most that a schema of others may hold: characters, values and levels of its JSON. It is compiled to code that is many times as large. */
const MOST_CHARACTERS = 64 * 1_024;
const MOST_VALUES = 2_000;
const MOST_LEVELS = 64;

/** Thrown for a declaration of others that cannot be used. The message fits behind "It cannot be used: ". */
export class ForeignDeclarationError extends Error {
  override readonly name = 'ForeignDeclarationError';
}

/**
 * Copies a schema of a stranger without what cannot be applied everywhere, or could take for ever: unions, conditions, references that leave the schema or go round in a
 * circle. The conditions of a schema all hold at once, so that a copy without one of them accepts more, and never less.
 *
 * @param use the whole of an `input` is an object; the items of an `output`, which may be large, are not compared with each other
 * @throws {ForeignDeclarationError} For a schema that is too large or too deep, or has names or values with characters that are not seen.
 */
export function narrowedSchema(source: unknown, use: 'input' | 'output'): NarrowedSchema {
  const values = countValues(source);
  if (!isRecord(source)) throw new ForeignDeclarationError('a schema is no object');
  const { definitions, $defs, ...given } = asRecord(toJson(source));
  const named = { ...asRecord(definitions), ...asRecord($defs) };
  const json = withRoot(given, named);
  const whole: JsonSchema = Object.keys(named).length > 0 ? { ...json, $defs: named } : json;
  const read: JsonSchema = { ...withoutNullUnions(whole) };
  const narrowing = new Narrowing(asRecord(read['$defs']), use);
  const schema = narrowing.whole(read);
  return { schema, unapplied: [...narrowing.unapplied], values };
}

/**
 * Counts the values in a schema of others, and refuses one that is too large to be walked and copied. It visits level by level, since the schema may be deeper than the
 * stack, or contain itself.
 *
 * @throws {ForeignDeclarationError} For such a value.
 */
function countValues(source: unknown): number {
  let values = 0;
  let characters = 0;
  let level: readonly unknown[] = [source];
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth > MOST_LEVELS) throw new ForeignDeclarationError(`a schema is nested deeper than ${MOST_LEVELS} levels`);
    const next: unknown[] = [];
    for (const value of level) {
      const parts = isObject(value) ? Object.entries(value) : [];
      for (const [key, part] of parts) {
        characters += key.length + (typeof part === 'string' ? part.length : 0);
        next.push(part);
      }
      values += parts.length;
      if (values > MOST_VALUES) throw new ForeignDeclarationError(`a schema holds more than ${MOST_VALUES} values`);
      if (characters > MOST_CHARACTERS) throw new ForeignDeclarationError(`a schema has more than ${MOST_CHARACTERS} characters`);
    }
    level = next;
  }
  return values;
}

/** The keywords whose value is data, a bound or a text, and is copied as it is. All others are left out, but for those that hold schemas. */
const COPIED = new Set([
  ...'type enum const default format pattern required nullable deprecated readOnly writeOnly examples contentEncoding contentMediaType'.split(
    ' ',
  ),
  ...'minLength maxLength minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minItems maxItems uniqueItems'.split(' '),
  ...'minProperties maxProperties'.split(' '),
]);

/** The keywords whose value is a schema, each with the one that it must not stand beside: it would be about what that has left over. */
const PARTS: Readonly<Record<string, string>> = {
  additionalProperties: 'patternProperties',
  items: 'prefixItems',
  properties: '',
  propertyNames: '',
};

function isPart(keyword: string, value: unknown, around: JsonSchema): boolean {
  const { [keyword]: beside } = PARTS;
  return beside !== undefined && !Array.isArray(value) && !Object.hasOwn(around, beside);
}

/** One copy. */
class Narrowing {
  readonly unapplied = new Set<string>();

  constructor(
    private readonly definitions: JsonSchema,
    private readonly use: 'input' | 'output',
  ) {}

  whole({ $defs: _definitions, ...schema }: JsonSchema): JsonSchema {
    const whole = asRecord(this.read(schema, ''));
    const named = this.named(this.definitions, '/$defs');
    const types: readonly unknown[] = [whole['type'] ?? 'object'].flat();
    const type = this.use === 'input' && { type: types.includes('object') ? 'object' : whole['type'] };
    return { ...whole, ...type, ...(Object.keys(named).length > 0 && { $defs: named }) };
  }

  private read(source: unknown, at: string): unknown {
    if (!isRecord(source)) return source;
    const copy: Record<string, unknown> = {};
    // What it refers to is found from another address.
    const isElsewhere = at !== '' && Object.hasOwn(source, '$id');
    for (const [keyword, value] of Object.entries(source)) {
      const place = `${at}${pointerSegment(keyword)}`;
      const read = isElsewhere && !TEXTS.has(keyword) ? undefined : this.valueOf(keyword, value, place, source);
      if (read !== undefined) copy[keyword] = read;
      else if (isElsewhere || FORBIDDEN_KEYWORDS.has(keyword) || SOMETIMES.has(keyword)) this.unapplied.add(place);
    }
    return copy;
  }

  /** Returns the value of a keyword in the copy; undefined where it has none. */
  private valueOf(keyword: string, value: unknown, place: string, around: JsonSchema): unknown {
    if (TEXTS.has(keyword)) return typeof value === 'string' ? visible(value) : undefined;
    if (COPIED.has(keyword)) return this.isCopied(keyword, value) ? withoutUnseen(value) : undefined;
    if (keyword === '$ref') return this.referenceOf(value);
    if (keyword === 'properties' && isRecord(value)) return this.named(value, place);
    return isPart(keyword, value, around) ? this.read(value, place) : undefined;
  }

  /** A default that is an object would be filled in again within itself; a result may have more items than can be compared. */
  private isCopied(keyword: string, value: unknown): boolean {
    return keyword === 'default' ? !isObject(value) : keyword !== 'uniqueItems' || this.use === 'input';
  }

  private named(schemas: object, at: string): JsonSchema {
    return Object.fromEntries(
      Object.entries(schemas).map(([name, one]) => [withoutUnseen(name), this.read(one, `${at}${pointerSegment(name)}`)]),
    );
  }

  /** Only what the schema itself defines is referred to, and nothing that refers back to it at once. */
  private referenceOf(value: unknown): string | undefined {
    const target = targetOf(value);
    const passed = new Set<string>();
    for (let name = target; name !== undefined; name = targetOf(asRecord(this.definitions[name])['$ref'])) {
      if (passed.has(name) || !Object.hasOwn(this.definitions, name)) return undefined;
      passed.add(name);
    }
    return target === undefined ? undefined : `#/$defs${pointerSegment(target)}`;
  }
}

/** The keywords whose value is a text for the reader. */
const TEXTS = new Set(['title', 'description']);

/** The keywords of the subset that are left out where they stand beside another, or hold what is not applied. */
const SOMETIMES = new Set(['additionalProperties', 'items', '$ref', 'default', 'uniqueItems']);

function targetOf(reference: unknown): string | undefined {
  return typeof reference === 'string' ? definitionNamed(reference.replace(/^#\/definitions\//, '#/$defs/')) : undefined;
}

function asRecord(value: unknown): JsonSchema {
  return isRecord(value) ? value : {};
}

/** Refuses names and values with characters that are not seen: changed, they would be others, and a reader could not tell what they are. */
function withoutUnseen<Value>(value: Value): Value {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  if (visible(text) === text) return value;
  throw new ForeignDeclarationError(`${visible(text).slice(0, 80)} has characters that are not seen`);
}
