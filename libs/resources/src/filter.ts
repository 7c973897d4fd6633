import { type ArgumentProblem, isRecord } from '@toolloop/protocol';
import type {
  ComparisonOperator,
  Condition,
  ResourceOrder,
  ResourceValue,
} from './resource-query.js';
import type { EntityModel, FieldKind, ResourceField, ResourceRelation } from './entity-model.js';
import { isWithin, WIDEST, WIDEST_SIGNED } from './integer-range.js';

/**
 * The fields and relations that a filter may name. Those of a relation have no relations
 * themselves.
 */
export interface FilterShape {
  readonly fields: ReadonlyMap<string, ResourceField>;
  readonly relations: ReadonlyMap<string, RelatedShape>;
}

/** A relation that a filter may follow. */
export interface RelatedShape {
  readonly relation: ResourceRelation;
  readonly shape: FilterShape;
  /** The related rows that count. @default all of the tenant */
  readonly rows?: Condition;
}

/** The operators of a filter: those of the gateway that a model may say. */
export type FilterOperator =
  'eq' | 'ne' | 'in' | 'gt' | 'gte' | 'lt' | 'lte' | 'contains' | 'starts_with' | 'is_null';

const EQUAL: readonly FilterOperator[] = ['eq', 'ne', 'in', 'is_null'];
const ORDERED: readonly FilterOperator[] = [...EQUAL, 'gt', 'gte', 'lt', 'lte'];

export const OPERATORS: Readonly<Record<FieldKind, readonly FilterOperator[]>> = {
  text: [...EQUAL, 'contains', 'starts_with'],
  enum: EQUAL,
  uuid: EQUAL,
  integer: ORDERED,
  number: ORDERED,
  decimal: ORDERED,
  boolean: ['eq', 'is_null'],
  date: ORDERED,
  datetime: ORDERED,
  json: [],
};

/** The comparison for each operator and for its negation. */
const COMPARISONS: Readonly<
  Record<FilterOperator, readonly [plain: ComparisonOperator, negated: ComparisonOperator]>
> = {
  eq: ['eq', 'ne'],
  ne: ['ne', 'eq'],
  in: ['in', 'not_in'],
  gt: ['gt', 'lte'],
  gte: ['gte', 'lt'],
  lt: ['lt', 'gte'],
  lte: ['lte', 'gt'],
  contains: ['contains', 'not_contains'],
  starts_with: ['starts_with', 'not_starts_with'],
  is_null: ['is_null', 'is_not_null'],
};

/** The operators that look for a part of a text. */
const IN_TEXTS: ReadonlySet<FilterOperator> = new Set(['contains', 'starts_with']);

const EMPTY_TEXT =
  'is an empty text, which each text has in it. Say the condition, or leave it out.';

export const EVERYTHING: Condition = { kind: 'all', of: [] };
export const NOTHING: Condition = { kind: 'any', of: [] };

/** Holds where all conditions hold. */
export function all(of: readonly Condition[]): Condition {
  const parts = of.flatMap((one) => (one.kind === 'all' ? one.of : [one]));
  if (parts.some(isNothing)) return NOTHING;
  const [only, ...others] = parts;
  return only && others.length === 0 ? only : { kind: 'all', of: parts };
}

/** Holds where one of the conditions holds. */
export function any(of: readonly Condition[]): Condition {
  const parts = of.flatMap((one) => (one.kind === 'any' ? one.of : [one]));
  if (parts.some(isEverything)) return EVERYTHING;
  const [only, ...others] = parts;
  return only && others.length === 0 ? only : { kind: 'any', of: parts };
}

/** Leaves out what is empty at any depth, of which an adapter may make nothing at all. */
export function simplified(condition: Condition): Condition {
  if (condition.kind === 'field') return condition;
  if (condition.kind === 'related') return { ...condition, where: simplified(condition.where) };
  const parts = condition.of.map(simplified);
  return condition.kind === 'all' ? all(parts) : any(parts);
}

function isNothing(condition: Condition): boolean {
  return condition.kind === 'any' && condition.of.length === 0;
}

/** Tells whether a condition holds for each row by itself. */
export function isEverything(condition: Condition): boolean {
  return condition.kind === 'all' && condition.of.length === 0;
}

/**
 * Holds for rows that have a related row of which the condition holds, or have none. If it holds
 * for no row at all, nothing needs to be looked up.
 */
function relatedRows(relation: string, has: boolean, condition: Condition): Condition {
  if (isNothing(condition)) return has ? NOTHING : EVERYTHING;
  return { kind: 'related', relation, has, where: condition };
}

/** Compares a field, whose nulls are not equal to any value. */
function compared(
  field: ResourceField,
  operator: Exclude<FilterOperator, 'is_null'>,
  value: ResourceValue | readonly ResourceValue[],
  { isNegated }: Place,
): Condition {
  const [plain, negated] = COMPARISONS[operator];
  const condition = where(field.name, isNegated ? negated : plain, value);
  const holdsForNull = (operator === 'ne') !== isNegated;
  return holdsForNull && field.nullable
    ? any([condition, where(field.name, 'is_null')])
    : condition;
}

/** Compares one field. */
export function where(
  field: string,
  operator: ComparisonOperator,
  value: ResourceValue | readonly ResourceValue[] = null,
): Condition {
  return { kind: 'field', field, operator, value };
}

/** The rows behind a row in an order: nulls are last. */
export function after(
  order: readonly ResourceOrder[],
  values: readonly (ResourceValue | undefined)[],
  model: EntityModel,
): Condition {
  const behind = order.map(({ field, descending }, index) => {
    const same = order
      .slice(0, index)
      .map((one, place) => equals(one.field, values[place] ?? null));
    const value = values[index] ?? null;
    if (value === null) return NOTHING;
    const further = where(field, descending ? 'lt' : 'gt', value);
    return all([
      ...same,
      model.fields.get(field)?.nullable ? any([further, where(field, 'is_null')]) : further,
    ]);
  });
  return any(behind.filter((one) => one !== NOTHING));
}

export function equals(field: string, value: ResourceValue): Condition {
  return value === null ? where(field, 'is_null') : where(field, 'eq', value);
}

/** The most conditions of one filter, the deepest nesting, and the most values of one list. */
export const MOST_CONDITIONS = 40;
export const MOST_LEVELS = 5;
export const MOST_VALUES = 100;

/** A place in a filter, and whether it stands under a `not`. */
interface Place {
  readonly pointer: string;
  readonly shape: FilterShape;
  readonly level: number;
  readonly isNegated: boolean;
}

/** The problems of an input while it is read, each at its place. */
export class Problems {
  readonly found: ArgumentProblem[] = [];

  say(pointer: string, message: string): void {
    this.found.push({ pointer, message });
  }
}

/**
 * Reads a filter, as a model or a policy writes it, into a condition. Every comparison is true or
 * false, also for nulls: `ne` holds for a null, and `not` turns what is within it round. A part
 * without a condition is refused, since what it was meant to narrow would be wider without it; a
 * filter as a whole may be empty. A problem is said at its place, and what is read then must not be
 * used.
 */
export function readFilter(
  filter: unknown,
  shape: FilterShape,
  pointer: string,
  problems: Problems,
): Condition {
  return new FilterReader(problems).read(filter, { pointer, shape, level: 1, isNegated: false });
}

class FilterReader {
  private count = 0;

  constructor(private readonly problems: Problems) {}

  read(filter: unknown, place: Place): Condition {
    if (!isRecord(filter)) return this.refuse(place.pointer, 'must be an object');
    if (place.level > MOST_LEVELS)
      return this.refuse(
        place.pointer,
        `is nested more than ${MOST_LEVELS} levels deep. Write a flatter filter.`,
      );
    const parts = Object.entries(filter).map(([name, value]) =>
      this.readPart(name, value, within(place, name)),
    );
    if (parts.length === 0 && place.level > 1) return this.refuseEmpty(place);
    return join(parts, place.isNegated);
  }

  private readPart(name: string, value: unknown, place: Place): Condition {
    if (name === 'and' || name === 'or') return this.readList(name, value, place);
    if (name === 'not')
      return this.read(value, { ...place, level: place.level + 1, isNegated: !place.isNegated });
    const field = place.shape.fields.get(name);
    if (field) return this.readField(field, value, place);
    const related = place.shape.relations.get(name);
    if (related) return this.readRelated(related, value, place);
    return this.refuse(
      place.pointer,
      `cannot be filtered by. Use one of ${namesIn(place.shape).join(', ')}.`,
    );
  }

  private readList(name: 'and' | 'or', value: unknown, place: Place): Condition {
    if (!Array.isArray(value)) return this.refuse(place.pointer, 'must be a list of filters');
    if (value.length === 0) return this.refuseEmpty(place);
    const parts = value.map((part: unknown, index) =>
      this.read(part, { ...within(place, String(index)), level: place.level + 1 }),
    );
    return join(parts, place.isNegated === (name === 'and'));
  }

  private readField(field: ResourceField, value: unknown, place: Place): Condition {
    if (!isRecord(value))
      return this.refuse(place.pointer, 'must be an object of operators, such as { "eq": … }');
    const parts = Object.entries(value).map(([name, operand]) =>
      this.readComparison(field, name, operand, within(place, name)),
    );
    if (parts.length === 0)
      return this.refuseEmpty(
        place,
        field.nullable ? 'For rows without a value, use { "is_null": true }.' : undefined,
      );
    return join(parts, place.isNegated);
  }

  private readComparison(
    field: ResourceField,
    name: string,
    operand: unknown,
    place: Place,
  ): Condition {
    const operator = OPERATORS[field.kind].find((one) => one === name);
    if (!operator)
      return this.refuse(
        place.pointer,
        `is no operator of ${field.name}. Use one of ${OPERATORS[field.kind].join(', ')}.`,
      );
    this.countOne(place);
    if (operator === 'is_null') return this.readNull(field, operand, place);
    const value =
      operator === 'in'
        ? this.readValues(field, operand, place)
        : this.readValue(field, operand, place.pointer);
    if (Array.isArray(value) && value.length === 0) return place.isNegated ? EVERYTHING : NOTHING;
    if (value === '' && IN_TEXTS.has(operator)) return this.refuse(place.pointer, EMPTY_TEXT);
    return compared(field, operator, value, place);
  }

  private readNull(field: ResourceField, operand: unknown, place: Place): Condition {
    if (typeof operand !== 'boolean') return this.refuse(place.pointer, 'must be true or false');
    if (!field.nullable) return operand === place.isNegated ? EVERYTHING : NOTHING;
    return where(field.name, operand === place.isNegated ? 'is_not_null' : 'is_null');
  }

  private readValues(
    field: ResourceField,
    operand: unknown,
    place: Place,
  ): readonly ResourceValue[] {
    const values: readonly unknown[] = Array.isArray(operand) ? operand : [];
    if (!Array.isArray(operand)) this.problems.say(place.pointer, 'must be a list');
    if (values.length > MOST_VALUES)
      this.problems.say(
        place.pointer,
        `has ${values.length} values: at most ${MOST_VALUES} are taken.`,
      );
    return values
      .slice(0, MOST_VALUES)
      .map((value, index) => this.readValue(field, value, `${place.pointer}/${index}`));
  }

  private readValue(field: ResourceField, operand: unknown, pointer: string): ResourceValue {
    const value = toValue(field, operand);
    if (value !== undefined) return value;
    this.problems.say(pointer, `must be ${wantedBy(field)}`);
    return null;
  }

  private countOne({ pointer }: Place): void {
    this.count += 1;
    if (this.count === MOST_CONDITIONS + 1)
      this.problems.say(
        pointer,
        `is one condition too many: at most ${MOST_CONDITIONS} are taken.`,
      );
  }

  /**
   * Reads a relation, which is a condition by itself: each is a subquery. Its negation holds for
   * rows of which no related row meets the condition, so the condition itself is read as it stands.
   */
  private readRelated(
    { relation, shape, rows = EVERYTHING }: RelatedShape,
    value: unknown,
    place: Place,
  ): Condition {
    this.countOne(place);
    if (isRecord(value) && Object.keys(value).length === 0)
      return this.refuseEmpty(
        place,
        `For rows that have any, use { "${namesIn(shape)[0] ?? ''}": { "is_null": false } }.`,
      );
    const condition = this.read(value, {
      pointer: place.pointer,
      shape,
      level: place.level + 1,
      isNegated: false,
    });
    return relatedRows(relation.name, !place.isNegated, all([rows, condition]));
  }

  private refuseEmpty({ pointer }: Place, alternative?: string): Condition {
    const advice = 'has no condition. Say the condition, or leave it out.';
    return this.refuse(pointer, [advice, alternative ?? []].flat().join(' '));
  }

  private refuse(pointer: string, message: string): Condition {
    this.problems.say(pointer, message);
    return NOTHING;
  }
}

/** Joins what is asked for together; it is denied by denying one part. */
function join(parts: readonly Condition[], isNegated: boolean): Condition {
  return isNegated ? any(parts) : all(parts);
}

function within(place: Place, name: string): Place {
  return {
    ...place,
    pointer: `${place.pointer}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`,
  };
}

function namesIn({ fields, relations }: FilterShape): readonly string[] {
  const filterable = [...fields.values()]
    .filter(({ kind }) => OPERATORS[kind].length > 0)
    .map(({ name }) => name);
  return [...filterable, ...relations.keys()];
}

const DAY = /^\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])$/;
const MOMENT = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})$/;
const DECIMAL = /^-?\d{1,30}(?:\.\d{1,20})?$/;
const NUL = String.fromCodePoint(0);

/** The parts of a field that say what its values are. */
type ValueTerms = Pick<ResourceField, 'kind' | 'values' | 'range'>;

/**
 * Reads the scalar of a field; undefined for anything else, and for a number that its column cannot
 * have. An object is never a value, so no operator comes in by one.
 */
export function toValue(field: ValueTerms, value: unknown): ResourceValue | undefined {
  if (field.kind === 'boolean') return typeof value === 'boolean' ? value : undefined;
  if (typeof value === 'number') return numberFor(field, value);
  return typeof value === 'string' && !value.includes(NUL) ? textFor(field, value) : undefined;
}

function numberFor(field: ValueTerms, value: number): ResourceValue | undefined {
  const { kind } = field;
  if (kind === 'decimal') return textFor({ kind }, String(value));
  const isOne =
    kind === 'integer'
      ? Number.isSafeInteger(value) && isTaken(field, BigInt(value))
      : kind === 'number' && Number.isFinite(value);
  return isOne ? value : undefined;
}

function isTaken({ range = WIDEST_SIGNED }: ValueTerms, number: bigint): boolean {
  return isWithin(number, range);
}

/**
 * A whole number is a text where it may be larger than JSON's numbers can say, as it is in results.
 */
function textFor(field: ValueTerms, value: string): ResourceValue | undefined {
  const { kind, values } = field;
  if (kind === 'integer')
    return WHOLE.test(value) && isTaken(field, BigInt(value)) ? toWhole(value) : undefined;
  if (kind === 'uuid') return toUuid(value);
  if (kind === 'datetime')
    return MOMENT.test(value) && !Number.isNaN(Date.parse(value)) ? new Date(value) : undefined;
  return TEXTS[kind]?.(value, values) ? value : undefined;
}

const TEXTS: Readonly<
  Partial<Record<FieldKind, (value: string, values: readonly string[] | undefined) => boolean>>
> = {
  text: () => true,
  enum: (value, values) => values?.includes(value) ?? false,
  decimal: (value) => DECIMAL.test(value),
  date: (value) => isDay(value),
};

const UUID = /^[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}$/i;

/** The spellings that PostgreSQL reads: a hyphen may be behind each four digits, but the last. */
const UUID_DIGITS = /^(?:[\da-f]{4}-?){7}[\da-f]{4}$/i;

/**
 * Reads a UUID of any version, as PostgreSQL does: in braces or not, with hyphens or without. It is
 * spelt with four hyphens, as every database reads it.
 */
function toUuid(text: string): string | undefined {
  const inner = text.startsWith('{') && text.endsWith('}') ? text.slice(1, -1) : text;
  if (UUID.test(inner)) return inner;
  if (!UUID_DIGITS.test(inner)) return undefined;
  const digits = inner.replaceAll('-', '');
  return digits.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}

/**
 * Makes a value JSON, to be kept in a cursor: an integer that may be larger than a number can say
 * is a text, and so is what is no number to JSON.
 */
export function toKept(value: unknown): unknown {
  if (value instanceof Date) return value.toISOString();
  const isText =
    typeof value === 'bigint' || (typeof value === 'number' && !Number.isFinite(value));
  return isText ? String(value) : (value ?? null);
}

/**
 * Reads the value of a field that was kept by {@link toKept}, or its text as a part of an id;
 * undefined for anything else. It is one that the database gave, whatever the column is declared
 * as.
 */
export function fromKept(
  { kind, values }: Pick<ResourceField, 'kind' | 'values'>,
  kept: unknown,
): ResourceValue | undefined {
  const field: ValueTerms = { kind, range: WIDEST, ...(values && { values }) };
  if (kept === null || typeof kept !== 'string') return kept === null ? null : toValue(field, kept);
  if (field.kind === 'number') return NO_NUMBERS.has(kept) ? Number(kept) : undefined;
  if (field.kind === 'date' || field.kind === 'datetime')
    return endless(kept) ?? toValue(field, kept);
  return toValue(field, kept);
}

/**
 * Reads a moment of PostgreSQL that comes before or after all others, of which JavaScript has no
 * date: pg says it as a number, MikroORM as a text with a zone.
 */
export function endless(text: string): string | undefined {
  return ENDLESS.exec(text)?.[1]?.toLowerCase();
}

const ENDLESS = /^(-?infinity)Z?$/i;

function toWhole(text: string): number | bigint {
  const number = Number(text);
  return Number.isSafeInteger(number) ? number : BigInt(text);
}

const WHOLE = /^-?\d{1,20}$/;
const NO_NUMBERS: ReadonlySet<string> = new Set(['NaN', 'Infinity', '-Infinity']);

function isDay(text: string): boolean {
  const time = DAY.test(text) ? Date.parse(`${text}T00:00:00Z`) : Number.NaN;
  return !Number.isNaN(time) && new Date(time).toISOString().startsWith(text);
}

/** Says the values of a field in words. */
export function wantedBy({ kind, values = [], range }: ResourceField): string {
  if (kind === 'enum') return `one of ${values.join(', ')}`;
  if (kind !== 'integer' || !range) return WANTED[kind];
  const isExact = range.most <= BigInt(Number.MAX_SAFE_INTEGER);
  const words = `a whole number from ${range.least} to ${range.most}`;
  return isExact ? words : `${words}, ${AS_TEXT}`;
}

const AS_TEXT = 'as a text where it has more than 15 digits';

const WANTED: Readonly<Record<FieldKind, string>> = {
  text: 'a text',
  enum: 'one of its values',
  uuid: 'a UUID',
  integer: `a whole number, ${AS_TEXT}`,
  number: 'a number',
  decimal: `a decimal number, ${AS_TEXT}`,
  boolean: 'true or false',
  date: 'a day such as "2026-11-16"',
  datetime: 'a moment such as "2026-11-16T09:00:00Z"',
  json: 'JSON',
};
