import {
  isJsonList,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  type ValueOrigin,
} from '@toolloop/protocol';
import type { JSONSchema7, JSONSchema7Definition } from 'json-schema';
import { pointerSegment } from './argument-problems.js';
import { capacityOf, isClosed } from './capacity.js';
import { expressionOf, linearMatcher, type Matcher } from './patterns.js';
import { UUID } from './uuid.js';

/**
 * Counts what someone outside can have said in a value, by its schema. A field has the origin that
 * its schema names, else that of what it is in, else it is from outside. A boolean, a whole number
 * between bounds, one of listed values and a date cost what their type can tell, a list of them
 * their sum and its length, and anything else is text, which cannot be counted. Keys that no schema
 * names count as text as well. Of a text that is hidden nothing is told but that it is there: where
 * something else could have been told in its place, or it could have been left out, that costs a
 * bit.
 */
export function readOrigins(
  value: JsonValue,
  schema: JSONSchema7 | undefined,
  reading: OriginReading,
): ReadValue {
  const walk = new OriginWalk(schema ?? {}, reading);
  const shown = walk.value(value, schema ?? {}, {
    inherited: reading.inherited ?? 'outside',
    around: [],
    pointer: '',
  });
  return { shown, outsideBits: walk.bits + walk.absent.bits };
}

/** The keyword of a schema that says where a value, and all below it, comes from. */
export const ORIGIN_KEYWORD = 'x-toolloop-origin';

/**
 * The keyword beside `x-toolloop-origin: 'actor'`: the property, of the nearest object around the
 * value that has it, with the id of the actor whose words the value is.
 */
export const OWNER_KEYWORD = 'x-toolloop-owned-by';

/**
 * The keyword of a property that the application leaves out, where it is not there: then that tells
 * nothing from outside.
 */
export const ABSENCE_KEYWORD = 'x-toolloop-absence';

/**
 * The schema of any value that someone else may have written, if the application has not left it
 * out.
 */
export const LEFT_OUT_BY_APPLICATION: JSONSchema7 = Object.assign<JSONSchema7, object>(
  {},
  { [ABSENCE_KEYWORD]: 'application' },
);

/** The schema of any value that the application wrote. */
export const OF_APPLICATION: JSONSchema7 = Object.assign<JSONSchema7, object>(
  {},
  { [ORIGIN_KEYWORD]: 'application' },
);

export const ORIGINS: ReadonlySet<unknown> = new Set<ValueOrigin>([
  'application',
  'actor',
  'outside',
]);

/** The circumstances in which a value is read. */
export interface OriginReading {
  /**
   * The origin of what no field says: a type says how much a value can tell, never who wrote it.
   * @default 'outside'
   */
  readonly inherited?: ValueOrigin;
  /**
   * True where someone outside has chosen what is read: then it is all from outside, whatever its
   * fields say. @default false
   */
  readonly isChosen?: boolean;
  /** The actor of the run, whose own fields count as their words. */
  readonly actorId: string | undefined;
  /**
   * Returns the ids of a form that the user and trusted results gave. One of them says little.
   * @default none
   */
  knownIds?(isSuch: (id: string) => boolean): ReadonlySet<string>;
  /** Returns what the model reads in the place of a text from outside. @default the text itself */
  hide?(value: JsonValue, pointer: string): JsonValue;
}

/**
 * A value as a model reads it, and the bits that someone outside can have put into what is shown of
 * it; infinite for text.
 */
export interface ReadValue {
  readonly shown: JsonValue;
  readonly outsideBits: number;
}

/**
 * Tells whether every value of a schema that is from outside is hidden as a whole, so that a
 * reference to one tells nothing.
 */
export function isAlwaysHidden(schema: JSONSchema7): boolean {
  const walk = new OriginWalk(schema, { actorId: undefined });
  return walk.isAlwaysHidden(resolvedIn(schema, schema), {
    inherited: 'outside',
    around: [],
    pointer: '',
  });
}

/** The answers, by schema: each call of a tool asks, and a schema does not change. */
const outsidersBySchema = new WeakMap<JSONSchema7, boolean>();

/**
 * Tells whether some part of a schema says that it comes from outside or from an actor, so that a
 * result of a trusted tool has to be looked at.
 */
export function namesOutsiders(schema: JSONSchema7 | undefined): boolean {
  if (!schema) return false;
  const known = outsidersBySchema.get(schema);
  if (known !== undefined) return known;
  const names = someSchema(
    schema,
    (one) => originIn(one) === 'outside' || originIn(one) === 'actor',
  );
  outsidersBySchema.set(schema, names);
  return names;
}

export function someSchema(
  schema: JSONSchema7Definition,
  holds: (one: JSONSchema7) => boolean,
): boolean {
  if (typeof schema === 'boolean') return false;
  const { properties = {}, $defs = {}, definitions = {}, items, additionalProperties } = schema;
  const named = [properties, $defs, definitions].flatMap((schemas) => Object.values(schemas));
  const inner = [
    ...named,
    ...(items === undefined ? [] : [items].flat()),
    ...(additionalProperties === undefined ? [] : [additionalProperties]),
  ];
  return holds(schema) || inner.some((one) => someSchema(one, holds));
}

export function originIn(schema: object): ValueOrigin | undefined {
  const origin: unknown = Reflect.get(schema, ORIGIN_KEYWORD);
  return isOrigin(origin) ? origin : undefined;
}

export function isOrigin(value: unknown): value is ValueOrigin {
  return ORIGINS.has(value);
}

/** An object around a value, and where its properties come from. */
interface Surrounding {
  readonly value: JsonObject;
  readonly schema: JSONSchema7;
  readonly inherited: ValueOrigin;
}

interface Place {
  readonly inherited: ValueOrigin;
  /** The objects around it, the nearest first. */
  readonly around: readonly Surrounding[];
  /**
   * Its place in the whole, with * for the index of an item; told to what hides, and empty where
   * nothing does.
   */
  readonly pointer: string;
}

/**
 * The properties that objects of a schema leave out. That none has one tells one bit, as that all
 * have it tells none; where some have it, each tells one.
 */
class AbsentProperties {
  private readonly seen = new Map<
    JSONSchema7,
    { objects: number; readonly lacking: Map<string, number> }
  >();

  /** Notes an object of a schema, and which properties it lacks. */
  note(schema: JSONSchema7, lacking: readonly string[]): void {
    const noted = this.seen.get(schema) ?? { objects: 0, lacking: new Map<string, number>() };
    noted.objects += 1;
    for (const name of lacking) noted.lacking.set(name, (noted.lacking.get(name) ?? 0) + 1);
    this.seen.set(schema, noted);
  }

  get bits(): number {
    const each = [...this.seen.values()].flatMap(({ objects, lacking }) =>
      [...lacking.values()].map((count) => (count === objects ? 1 : objects)),
    );
    return each.reduce((sum, bits) => sum + bits, 0);
  }
}

class OriginWalk {
  bits = 0;
  readonly absent = new AbsentProperties();
  private readonly idsBySchema = new Map<JSONSchema7, ReadonlySet<string>>();

  constructor(
    private readonly root: JSONSchema7,
    private readonly reading: OriginReading,
  ) {}

  value(value: JsonValue, given: JSONSchema7Definition | undefined, place: Place): JsonValue {
    if (this.bits === Infinity && !this.reading.hide) return value; // nothing can be more than that
    const schema = this.resolved(given);
    const inherited = this.originOf(given, schema, place);
    const here = { ...place, inherited };
    if (isJsonList(value)) return this.list(value, schema, here);
    if (isJsonObject(value)) return this.object(value, schema, here);
    return this.scalar(value, schema, here);
  }

  private list(value: readonly JsonValue[], schema: JSONSchema7, place: Place): JsonValue {
    const items =
      typeof schema.items === 'object' && !Array.isArray(schema.items) ? schema.items : undefined;
    const told = isVouchedFor(place.inherited) ? 'vouched' : this.toldIn(items, place);
    if (told === 'text') return this.text(value, schema, place);
    if (told === 'closed') this.bits += lengthBits(value.length, schema);
    return value.map((item) =>
      this.value(item, items, { ...place, pointer: `${place.pointer}/*` }),
    );
  }

  private object(value: JsonObject, schema: JSONSchema7, place: Place): JsonValue {
    const { properties = {}, additionalProperties } = schema;
    const others = typeof additionalProperties === 'object' ? additionalProperties : undefined;
    const names = Object.keys(properties);
    const isOpen =
      this.hasAnyKeys(schema) || Object.keys(value).some((key) => !Object.hasOwn(properties, key));
    const ofKeys = this.originOf(others, this.resolved(others), place);
    if (isOpen && !isVouchedFor(ofKeys)) return this.text(value, schema, place);
    const around = [{ value, schema, inherited: place.inherited }, ...place.around];
    const isHiding = this.reading.hide !== undefined;
    const inside = { ...place, around, pointer: '' };
    this.absent.note(
      schema,
      names.filter(
        (name) => !Object.hasOwn(value, name) && this.mayHaveLeftOut(properties[name], inside),
      ),
    );
    const shown = (isHiding ? inOrder(value, names) : Object.entries(value)).map(
      ([key, one]): [string, JsonValue] => {
        const at = isHiding
          ? { ...inside, pointer: `${place.pointer}${pointerSegment(key)}` }
          : inside;
        return [
          key,
          this.value(one, Object.hasOwn(properties, key) ? properties[key] : others, at),
        ];
      },
    );
    return isHiding ? Object.fromEntries(shown) : value;
  }

  private scalar(
    value: string | number | boolean | null,
    schema: JSONSchema7,
    place: Place,
  ): JsonValue {
    if (isVouchedFor(place.inherited)) return value;
    const bits = capacityOf(value, schema);
    if (bits === undefined) return this.text(value, schema, place);
    this.bits += bits;
    return value;
  }

  /** A text tells more than can be counted, unless nothing of it is shown, or it is an id. */
  private text(value: JsonValue, schema: JSONSchema7, place: Place): JsonValue {
    const ofId = typeof value === 'string' ? this.bitsOfId(value, schema) : undefined;
    if (ofId !== undefined) {
      this.bits += ofId;
      return value;
    }
    if (this.reading.hide) {
      if (!this.isAlwaysHidden(schema, place)) this.bits += 1;
      return this.reading.hide(value, place.pointer);
    }
    this.bits += isEmpty(value) ? 1 : Infinity;
    return value;
  }

  /**
   * Returns the bits of an id, as {@link idBits} does. Someone outside may have chosen it among
   * those that are known, so that a known one costs that choice.
   */
  private bitsOfId(text: string, schema: JSONSchema7): number | undefined {
    const bits = idBits(text, schema);
    if (bits === undefined) return undefined;
    const known = this.knownIds(schema);
    return known.has(text) ? Math.min(bits, Math.log2(known.size)) : bits;
  }

  /** The known ids of a schema are looked up once for all rows of a list. */
  private knownIds(schema: JSONSchema7): ReadonlySet<string> {
    const before = this.idsBySchema.get(schema);
    if (before) return before;
    const known = this.reading.knownIds?.(idFormOf(schema)) ?? new Set<string>();
    this.idsBySchema.set(schema, known);
    return known;
  }

  /**
   * Tells whether an object of a schema may have any keys, so that it is hidden as a whole: one
   * whose properties no schema names, and one that a text from outside has chosen, unless its
   * schema lets no others through.
   */
  private hasAnyKeys({ properties = {}, additionalProperties }: JSONSchema7): boolean {
    return (
      Object.keys(properties).length === 0 ||
      (this.reading.isChosen === true && additionalProperties !== false)
    );
  }

  /**
   * Tells whether every value of a schema is hidden as a whole, so that a reference to one tells
   * nothing.
   */
  isAlwaysHidden(schema: JSONSchema7, place: Place): boolean {
    const { items, additionalProperties } = schema;
    if (!this.hasAnyKeys(schema) || isClosed(schema) || isIdForm(schema)) return false;
    if (typeof additionalProperties === 'object' && this.isVouched(additionalProperties, place))
      return false;
    return (
      typeof items !== 'object' || Array.isArray(items) || this.toldIn(items, place) === 'text'
    );
  }

  /** Tells whether someone outside may have left a property out. */
  private mayHaveLeftOut(given: JSONSchema7Definition | undefined, place: Place): boolean {
    const isOurs = [given, this.resolved(given)].some(
      (one) => typeof one === 'object' && Reflect.get(one, ABSENCE_KEYWORD) === 'application',
    );
    return !isOurs && !this.isVouched(given, place);
  }

  private isVouched(given: JSONSchema7Definition | undefined, place: Place): boolean {
    return isVouchedFor(this.originOf(given, this.resolved(given), place));
  }

  private originOf(
    given: JSONSchema7Definition | undefined,
    schema: JSONSchema7,
    { inherited, around }: Place,
  ): ValueOrigin {
    if (this.reading.isChosen) return 'outside';
    const named = typeof given === 'object' && originIn(given) !== undefined ? given : schema;
    const origin = originIn(named);
    if (origin !== 'actor') return origin ?? inherited;
    return this.isOwn(Reflect.get(named, OWNER_KEYWORD), around) ? 'actor' : 'outside';
  }

  /**
   * The id of the owner must be the application's: an outsider could write any into a field of
   * their own.
   */
  private isOwn(property: unknown, around: readonly Surrounding[]): boolean {
    if (typeof property !== 'string' || this.reading.actorId === undefined) return false;
    const record = around.find(({ value }) => Object.hasOwn(value, property));
    if (!record) return false;
    const origin = this.namedIn(record.schema.properties?.[property]) ?? record.inherited;
    const owner = record.value[property];
    const isId = typeof owner === 'string' || typeof owner === 'number';
    return origin === 'application' && isId && String(owner) === this.reading.actorId;
  }

  /**
   * Tells what each value of a list is: a part of it is vouched for, so that the list is the
   * application's own; it has closed parts, so that the length of the list tells something; or it
   * is text.
   */
  private toldIn(
    given: JSONSchema7Definition | undefined,
    place: Place,
    seen: readonly unknown[] = [],
  ): 'vouched' | 'closed' | 'text' {
    const schema = this.resolved(given);
    if (given === undefined || seen.includes(schema)) return 'text';
    const inherited = this.originOf(given, schema, place);
    if (isVouchedFor(inherited)) return 'vouched';
    const inner = partsOf(schema);
    if (inner.length === 0) return isClosed(schema) ? 'closed' : 'text';
    if (schema.properties && this.hasAnyKeys(schema)) return 'text';
    const parts = new Set(
      inner.map((one) => this.toldIn(one, { ...place, inherited }, [...seen, schema])),
    );
    return (['vouched', 'closed'] as const).find((one) => parts.has(one)) ?? 'text';
  }

  private namedIn(given: JSONSchema7Definition | undefined): ValueOrigin | undefined {
    if (this.reading.isChosen) return 'outside';
    return (
      (typeof given === 'object' ? originIn(given) : undefined) ?? originIn(this.resolved(given))
    );
  }

  private resolved(given: JSONSchema7Definition | undefined): JSONSchema7 {
    return resolvedIn(this.root, given);
  }
}

export function resolvedIn(
  root: JSONSchema7,
  given: JSONSchema7Definition | undefined,
): JSONSchema7 {
  if (typeof given !== 'object') return {};
  if (given.$ref === undefined) return given;
  const [, place, name = ''] = /^#\/(\$defs|definitions)\/(.+)$/.exec(given.$ref) ?? [];
  const definitions =
    place === undefined ? undefined : root[place === '$defs' ? '$defs' : 'definitions'];
  const found = definitions && Object.hasOwn(definitions, name) ? definitions[name] : undefined;
  return typeof found === 'object' ? found : given;
}

function isVouchedFor(origin: ValueOrigin | undefined): boolean {
  return origin === 'application' || origin === 'actor';
}

/** The properties of an object in the order of its schema: another order could tell something. */
function inOrder(
  value: JsonObject,
  names: readonly string[],
): readonly (readonly [string, JsonValue])[] {
  const declared = new Set(names);
  const keys = [
    ...names.filter((name) => Object.hasOwn(value, name)),
    ...Object.keys(value).filter((name) => !declared.has(name)),
  ];
  return keys.map((key) => [key, value[key] ?? null]);
}

function isEmpty(value: JsonValue): boolean {
  return (
    value === null || value === '' || (typeof value === 'object' && Object.keys(value).length === 0)
  );
}

/** The schemas of the properties of an object, and of the items of a list. */
function partsOf({ properties = {}, items = [] }: JSONSchema7): readonly JSONSchema7Definition[] {
  return Object.values(properties).concat([items].flat());
}

/**
 * Returns the bits of the length of a list. That of a short one costs less than that of a long one,
 * since no length is the last.
 */
function lengthBits(length: number, { minItems = 0, maxItems }: JSONSchema7): number {
  return minItems === maxItems ? 0 : 2 * Math.floor(Math.log2(length + 1)) + 1;
}

const ID = /^[A-Za-z0-9][\w.:#-]{0,63}$/;

/**
 * Returns the bits of an id: of a schema that lets through nothing but one, by its pattern or its
 * format.
 */
function idBits(text: string, schema: JSONSchema7): number | undefined {
  if (!isIdForm(schema) || !ID.test(text)) return undefined;
  return text.length * Math.log2(alphabetOf(text));
}

function isIdForm({ pattern, format }: JSONSchema7): boolean {
  return pattern !== undefined || format === 'uuid';
}

/**
 * Returns the test that a text could stand in the place of an id of a schema. A pattern that cannot
 * be read lets every id through.
 */
function idFormOf({ pattern, format, minLength = 0, maxLength }: JSONSchema7): Matcher {
  const matches = pattern === undefined ? undefined : matcherOf(pattern);
  return (text) =>
    ID.test(text) &&
    text.length >= minLength &&
    text.length <= (maxLength ?? text.length) &&
    (format !== 'uuid' || UUID.test(text)) &&
    (matches?.(text) ?? true);
}

function matcherOf(pattern: string): Matcher | undefined {
  try {
    const expression = expressionOf(pattern);
    return linearMatcher(expression) ?? ((text) => expression.test(text));
  } catch {
    return undefined;
  }
}

function alphabetOf(text: string): number {
  if (/^\d+$/.test(text)) return 10;
  if (/^[\da-f-]+$/i.test(text)) return 17;
  return /^[a-z\d-]+$/.test(text) || /^[A-Z\d-]+$/.test(text) ? 37 : 67;
}
