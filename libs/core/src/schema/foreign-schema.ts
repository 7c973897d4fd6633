import { isObject, isRecord, visible } from '@toolloop/protocol';
import type { JSONSchema7 } from 'json-schema';
import { toJson } from './canonical-json.js';
import { withRoot } from './closed-schema.js';
import { joinedSchema } from './joined-schemas.js';
import { withoutNullUnions } from './null-unions.js';
import { schemaInWords } from './schema-in-words.js';
import { definitionNamed, FORBIDDEN_KEYWORDS } from './subset.js';
import { pointerSegment } from './argument-problems.js';

/**
 * Copies a schema of a stranger without what cannot be applied everywhere, or could take for ever:
 * unions, conditions, references that leave the schema or go round in a circle. The conditions of a
 * schema all hold at once, so that a copy without one of them accepts more, and never less. What
 * one schema can say of the branches of a union is written; what is lost of an input by that is
 * told in words.
 *
 * @param use the whole of an `input` is an object; the items of an `output`, which may be large,
 *   are not compared with each other
 * @throws {ForeignDeclarationError} For a schema that is too large or too deep, or has names or
 *   values with characters that are not seen.
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
  return {
    schema,
    unapplied: [...narrowing.unapplied],
    ...(narrowing.told !== undefined && { told: narrowing.told }),
    values,
  };
}

/** A schema of others as it is applied: never stricter than it was written. */
export interface NarrowedSchema {
  readonly schema: JSONSchema7;
  /**
   * The keywords that are not applied, each as the JSON pointer to where it stood. Annotations and
   * addresses are not among them.
   */
  readonly unapplied: readonly string[];
  /**
   * The conditions for the whole of an input that are not applied, in words for the model. Those
   * for its parts stand in their descriptions.
   */
  readonly told?: string;
  /** The number of values in what was copied. */
  readonly values: number;
}

type JsonSchema = Readonly<Record<string, unknown>>;

/**
 * The most that a schema of others may hold: characters, values and levels of its JSON. It is
 * compiled to code that is many times as large.
 */
const MOST_CHARACTERS = 64 * 1_024;
const MOST_VALUES = 2_000;
const MOST_LEVELS = 64;

/**
 * Thrown for a declaration of others that cannot be used. The message fits behind "It cannot be
 * used: ".
 */
export class ForeignDeclarationError extends Error {
  override readonly name = 'ForeignDeclarationError';
}

/**
 * Counts the values in a schema of others, and refuses one that is too large to be walked and
 * copied. It visits level by level, since the schema may be deeper than the stack, or contain
 * itself.
 *
 * @throws {ForeignDeclarationError} For such a value.
 */
function countValues(source: unknown): number {
  let values = 0;
  let characters = 0;
  let level: readonly unknown[] = [source];
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth > MOST_LEVELS)
      throw new ForeignDeclarationError(`a schema is nested deeper than ${MOST_LEVELS} levels`);
    const next: unknown[] = [];
    for (const value of level) {
      const parts = isObject(value) ? Object.entries(value) : [];
      for (const [key, part] of parts) {
        characters += key.length + (typeof part === 'string' ? part.length : 0);
        next.push(part);
      }
      values += parts.length;
      if (values > MOST_VALUES)
        throw new ForeignDeclarationError(`a schema holds more than ${MOST_VALUES} values`);
      if (characters > MOST_CHARACTERS)
        throw new ForeignDeclarationError(`a schema has more than ${MOST_CHARACTERS} characters`);
    }
    level = next;
  }
  return values;
}

/**
 * The keywords whose value is data, a bound or a text, and is copied as it is. All others are left
 * out, but for those that hold schemas.
 */
const COPIED = new Set([
  ...'type enum const default format pattern required nullable deprecated readOnly writeOnly examples contentEncoding contentMediaType'.split(
    ' ',
  ),
  ...'minLength maxLength minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minItems maxItems uniqueItems'.split(
    ' ',
  ),
  ...'minProperties maxProperties'.split(' '),
]);

const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && Number(value) >= 0;
const isNumber = (value: unknown): boolean => typeof value === 'number';
const TYPES: ReadonlySet<unknown> = new Set([
  'string',
  'number',
  'integer',
  'boolean',
  'object',
  'array',
  'null',
]);

/**
 * The forms that values of keywords have. Older drafts and other languages write some otherwise,
 * such as `exclusiveMinimum: true` or the pattern `(?i)a`.
 */
const FORMS: Readonly<Record<string, (value: unknown) => boolean>> = {
  type: (value) => [value].flat().length > 0 && [value].flat().every((type) => TYPES.has(type)),
  enum: (value) => Array.isArray(value) && value.length > 0,
  required: (value) => Array.isArray(value) && value.every((name) => typeof name === 'string'),
  default: (value) => !isObject(value),
  format: (value) => typeof value === 'string',
  pattern: (value) => typeof value === 'string' && isExpression(value),
  uniqueItems: (value) => typeof value === 'boolean',
  nullable: (value) => typeof value === 'boolean',
  multipleOf: (value) => typeof value === 'number' && value > 0,
  ...Object.fromEntries(
    'minimum maximum exclusiveMinimum exclusiveMaximum'
      .split(' ')
      .map((keyword) => [keyword, isNumber]),
  ),
  ...Object.fromEntries(
    'minLength maxLength minItems maxItems minProperties maxProperties'
      .split(' ')
      .map((keyword) => [keyword, isCount]),
  ),
};

function isExpression(text: string): boolean {
  try {
    return new RegExp(text, 'u').source !== '';
  } catch {
    return false;
  }
}

/**
 * The keywords whose value is a schema, each with the one that it must not stand beside: it would
 * be about what that has left over.
 */
const PARTS: Readonly<Record<string, string>> = {
  additionalProperties: 'patternProperties',
  items: 'prefixItems',
  properties: '',
  propertyNames: '',
};

function isPart(keyword: string, value: unknown, around: JsonSchema): boolean {
  const { [keyword]: beside } = PARTS;
  return (
    beside !== undefined &&
    (isRecord(value) || typeof value === 'boolean') &&
    !Object.hasOwn(around, beside)
  );
}

/** One copy. */
class Narrowing {
  readonly unapplied = new Set<string>();
  /** The words about the conditions of the whole that are lost. */
  told: string | undefined;
  /** The schemas that are referred to by their place and no name, by their names in the copy. */
  private readonly placed = new Map<string, unknown>();
  /** The definitions that are referred to; the others are left out. */
  private readonly used = new Set<string>();
  private root: JsonSchema = {};
  private toldCharacters = 0;
  private expanded = 0;

  constructor(
    private readonly definitions: JsonSchema,
    private readonly use: 'input' | 'output',
  ) {}

  whole(source: JsonSchema): JsonSchema {
    const { $defs: _definitions, ...schema } = source;
    this.root = source;
    const isInput = this.use === 'input';
    const whole = asRecord(
      this.read(
        isInput && schema['type'] === undefined ? { ...schema, type: 'object' } : schema,
        '',
      ),
    );
    const named: Record<string, unknown> = {};
    // Reading one may find another, visited in its turn.
    for (const name of this.used)
      named[withoutUnseen(name)] = this.read(
        this.definitionOf(name),
        `/$defs${pointerSegment(name)}`,
      );
    const $defs = Object.keys(named).length > 0 && { $defs: named };
    if (!isInput) return { ...whole, ...$defs };
    const types: readonly unknown[] = [whole['type'] ?? 'object'].flat();
    // Some providers refuse an object without properties.
    return {
      properties: {},
      ...whole,
      type: types.includes('object') ? 'object' : whole['type'],
      ...$defs,
    };
  }

  private read(source: unknown, at: string): unknown {
    if (!isRecord(source)) return typeof source === 'boolean' ? source : {};
    // What it refers to is found from another address.
    if (at !== '' && Object.hasOwn(source, '$id')) return this.elsewhere(source, at);
    const { schema, wider } = joinedSchema(source, (one) => this.expand(one));
    const { copy, left } = this.copied(schema, at);
    const lost = [...wider, ...left];
    for (const keyword of lost) this.unapplied.add(`${at}${pointerSegment(keyword)}`);
    return this.use === 'input'
      ? this.withWords(copy, { ...schema, ...source }, { at, lost })
      : copy;
  }

  /** Copies the keywords that are applied, and names those of the others that decide something. */
  private copied(
    schema: JsonSchema,
    at: string,
  ): { readonly copy: JsonSchema; readonly left: readonly string[] } {
    const read = Object.entries(schema).map(
      ([keyword, value]) =>
        [keyword, this.valueOf(keyword, value, `${at}${pointerSegment(keyword)}`, schema)] as const,
    );
    const left = read.flatMap(([keyword, value]) =>
      value === undefined && (FORBIDDEN_KEYWORDS.has(keyword) || SOMETIMES.has(keyword))
        ? [keyword]
        : [],
    );
    return { copy: Object.fromEntries(read.filter(([, value]) => value !== undefined)), left };
  }

  private elsewhere(source: JsonSchema, at: string): JsonSchema {
    const texts = Object.entries(source).filter(
      ([keyword, value]) => TEXTS.has(keyword) && typeof value === 'string',
    );
    for (const keyword of Object.keys(source))
      if (!TEXTS.has(keyword)) this.unapplied.add(`${at}${pointerSegment(keyword)}`);
    return Object.fromEntries(texts.map(([keyword, value]) => [keyword, visible(String(value))]));
  }

  /**
   * Tells the model what the copy does not say: of the whole in the description of the tool, of a
   * part in its own.
   */
  private withWords(
    copy: JsonSchema,
    source: JsonSchema,
    { at, lost }: { readonly at: string; readonly lost: readonly string[] },
  ): JsonSchema {
    const words = lost
      .map((keyword) => lostInWords(keyword, source))
      .filter((text) => text !== '')
      .join(' ');
    if (words === '' || this.toldCharacters > MOST_TOLD) return copy;
    this.toldCharacters += words.length;
    for (const name of namesIn(lost.map((keyword) => source[keyword])))
      if (Object.hasOwn(this.definitions, name)) this.used.add(name);
    if (at === '') this.told = words;
    const { description } = copy;
    return at === ''
      ? copy
      : {
          ...copy,
          description: typeof description === 'string' ? `${description} ${words}` : words,
        };
  }

  /**
   * The definition that a part of a union is, which one schema is to say. A few are looked up: a
   * definition may contain itself.
   */
  private expand(union: JsonSchema): JsonSchema {
    const { $ref, ...around } = union;
    const name = targetOf($ref);
    const definition =
      name === undefined || this.expanded >= MOST_EXPANDED ? undefined : this.definitions[name];
    if (!isRecord(definition)) return union;
    this.expanded += 1;
    return { ...definition, ...around };
  }

  /** Returns the value of a keyword in the copy; undefined where it has none. */
  private valueOf(keyword: string, value: unknown, place: string, around: JsonSchema): unknown {
    if (TEXTS.has(keyword)) return typeof value === 'string' ? visible(value) : undefined;
    if (COPIED.has(keyword))
      return this.isCopied(keyword, value) ? withoutUnseen(value) : undefined;
    if (keyword === '$ref') return this.referenceOf(value);
    if (keyword === 'properties') return isRecord(value) ? this.named(value, place) : undefined;
    return isPart(keyword, value, around) ? this.read(value, place) : undefined;
  }

  /**
   * A value of another form than the keyword has is left out. A default that is an object would be
   * filled in again within itself; a result may have more items than can be compared.
   */
  private isCopied(keyword: string, value: unknown): boolean {
    if (keyword === 'uniqueItems' && this.use === 'output') return false;
    const { [keyword]: hasForm } = FORMS;
    return hasForm?.(value) ?? true;
  }

  private named(schemas: object, at: string): JsonSchema {
    return Object.fromEntries(
      Object.entries(schemas).map(([name, one]) => [
        withoutUnseen(name),
        this.read(one, `${at}${pointerSegment(name)}`),
      ]),
    );
  }

  /**
   * Only what the schema itself defines is referred to, and nothing that refers back to it at once.
   */
  private referenceOf(value: unknown): string | undefined {
    const target = this.nameOf(value);
    const passed = new Set<string>();
    for (
      let name = target;
      name !== undefined;
      name = this.nameOf(asRecord(this.definitionOf(name))['$ref'])
    ) {
      if (passed.has(name) || this.definitionOf(name) === undefined) return undefined;
      passed.add(name);
    }
    if (target === undefined) return undefined;
    this.used.add(target);
    return `#/$defs${pointerSegment(target)}`;
  }

  private definitionOf(name: string): unknown {
    return Object.hasOwn(this.definitions, name) ? this.definitions[name] : this.placed.get(name);
  }

  /**
   * The name of what is referred to. A schema in another place of the whole becomes a definition.
   */
  private nameOf(reference: unknown): string | undefined {
    const name = targetOf(reference);
    if (name !== undefined || typeof reference !== 'string' || !/^#(?:\/|$)/.test(reference))
      return name;
    const segments = segmentsOf(reference);
    const schema = segments.reduce<unknown>((part, segment) => partAt(part, segment), this.root);
    if (!isRecord(schema)) return undefined;
    const own = `at_${segments.join('_').replaceAll(/\W/g, '_') || 'whole'}`;
    if (
      Object.hasOwn(this.definitions, own) ||
      (this.placed.size >= MOST_EXPANDED && !this.placed.has(own))
    )
      return undefined;
    if (!this.placed.has(own)) this.placed.set(own, schema);
    return own;
  }
}

/**
 * The most definitions that are written into unions, and the most schemas that become definitions
 * since others refer to their place.
 */
const MOST_EXPANDED = 32;
/** The most characters that are told of one schema. */
const MOST_TOLD = 6_000;

/** The names of the definitions that words refer to. */
function namesIn(lost: readonly unknown[]): readonly string[] {
  const references = JSON.stringify(lost).matchAll(/"\$ref":("(?:[^"\\]|\\.)*")/g);
  return [...references].flatMap(([, reference = '']) => targetOf(JSON.parse(reference)) ?? []);
}

function segmentsOf(reference: string): readonly string[] {
  const pointer = reference.slice(2).replace(/^definitions\//, '$defs/');
  return pointer === ''
    ? []
    : pointer.split('/').map((segment) => segment.replaceAll('~1', '/').replaceAll('~0', '~'));
}

function partAt(part: unknown, segment: string): unknown {
  return typeof part === 'object' && part !== null && Object.hasOwn(part, segment)
    ? Reflect.get(part, segment)
    : undefined;
}

/**
 * Words a keyword of a schema that its copy does not have; empty if it is told with another one.
 */
function lostInWords(keyword: string, source: JsonSchema): string {
  const { [keyword]: value } = source;
  const worded = Object.hasOwn(IN_WORDS, keyword) ? IN_WORDS[keyword] : undefined;
  if (worded) return worded(value, source);
  return value === undefined ? '' : `Its ${keyword}: ${visible(cut(JSON.stringify(value)))}.`;
}

type Wording = (value: unknown, source: JsonSchema) => string;

const branch = (keyword: string, { [keyword]: value }: JsonSchema): string =>
  value === undefined ? '' : `, ${keyword} ${schemaInWords(value)}`;
const toldWithOthers: Wording = () => '';
const listForm: Wording = (_, source) =>
  `Its form: ${schemaInWords({ ...source, type: 'array' })}.`;

const IN_WORDS: Readonly<Record<string, Wording>> = {
  anyOf: (value) => `One of: ${schemaInWords({ anyOf: value })}.`,
  oneOf: (value) => `One of: ${schemaInWords({ oneOf: value })}.`,
  allOf: (value) => `All of: ${schemaInWords({ allOf: value })}.`,
  not: (value) => `Not: ${schemaInWords(value)}.`,
  if: (value, source) =>
    `If it is ${schemaInWords(value)}${branch('then', source)}${branch('else', source)}.`,
  $ref: () => 'Its form is described elsewhere.',
  prefixItems: listForm,
  items: (value, source) => (Array.isArray(value) ? listForm(value, source) : ''),
  patternProperties: (_, source) => `Its form: ${schemaInWords({ ...source, type: 'object' })}.`,
  ...Object.fromEntries(
    ['then', 'else', 'additionalProperties', 'additionalItems', 'uniqueItems'].map((keyword) => [
      keyword,
      toldWithOthers,
    ]),
  ),
};
const MOST_OF_A_VALUE = 300;

function cut(text: string): string {
  return text.length > MOST_OF_A_VALUE ? `${text.slice(0, MOST_OF_A_VALUE)}…` : text;
}

/** The keywords whose value is a text for the reader. */
const TEXTS = new Set(['title', 'description']);

/**
 * The keywords of the subset that are left out where they stand beside another, or hold what is not
 * applied.
 */
const SOMETIMES = new Set([
  'additionalProperties',
  'items',
  'properties',
  '$ref',
  ...Object.keys(FORMS),
]);

function targetOf(reference: unknown): string | undefined {
  return typeof reference === 'string'
    ? definitionNamed(reference.replace(/^#\/definitions\//, '#/$defs/'))
    : undefined;
}

function asRecord(value: unknown): JsonSchema {
  return isRecord(value) ? value : {};
}

/**
 * Refuses names and values with characters that are not seen: changed, they would be others, and a
 * reader could not tell what they are.
 */
function withoutUnseen<Value>(value: Value): Value {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  if (visible(text) === text) return value;
  throw new ForeignDeclarationError(
    `${visible(text).slice(0, 80)} has characters that are not seen`,
  );
}
