import type { JsonObject, JsonValue, ToolSpec } from '@toolloop/core';
import { isJsonList, isJsonObject } from '@toolloop/protocol';

/** A text that a model knows by a reference alone. */
export interface HiddenText {
  /** The reference, as an argument may hold it. */
  readonly reference: string;
  readonly value: JsonValue;
  /** The value that was recorded without an attacker. The same where no attacker wrote it. */
  readonly clean: JsonValue;
  /** The tools and the fields of their results that it was read from. */
  readonly from: readonly string[];
}

type Schema = ToolSpec['inputSchema'];

/**
 * An argument in which something else stands than was recorded, and the places that it was read
 * from.
 */
export interface SwayedArgument {
  readonly name: string;
  readonly from: readonly string[];
}

/** A value that a model has to have read for it. */
export interface OpenArgument {
  /** The JSON pointer into the arguments. */
  readonly argument: string;
  readonly schema: Schema;
  /** The references to the texts in which it stands. */
  readonly of: readonly string[];
  /** The places of those. */
  readonly from: readonly string[];
  readonly recorded: JsonValue;
}

/**
 * Recorded arguments as a model writes them that has read some texts and knows others by reference.
 */
export interface WrittenArguments {
  /** The recorded object itself, where none of it is taken from a hidden text. */
  readonly args: JsonObject;
  /** The values that stand in hidden texts alone and have no answer yet. */
  readonly open: readonly OpenArgument[];
  /** The arguments in which something else stands than was recorded. */
  readonly swayed: readonly SwayedArgument[];
}

/** An answer about hidden texts: what the model writes, and what it stands for. */
export interface ArgumentAnswer {
  readonly written: JsonValue;
  readonly meant: JsonValue;
  /** The places of the texts that it is about. */
  readonly from: readonly string[];
}

/** The texts of a transcript, as its model knows them. */
export class KnownTexts {
  constructor(
    private readonly shown: readonly string[],
    private readonly hidden: readonly HiddenText[],
  ) {}

  /**
   * Writes arguments that were recorded as literals. A literal that stands in a text that was
   * shown, or in none, is written as it is; one that is a hidden text as its reference; one that
   * stands within hidden texts is taken from `answers`, by its pointer, or is left open. `derived`
   * names the arguments that follow from hidden texts without standing there.
   */
  write(
    args: JsonObject,
    schema: Schema,
    derived: readonly string[] = [],
    answers: Answers = new Map(),
  ): WrittenArguments {
    if (this.hidden.length === 0) return { args, open: [], swayed: [] };
    const writing: Writing = { answers, derived, open: [], swayed: [] };
    const written = Object.entries(args).map(([name, value]): [string, JsonValue] => {
      const leaf = { name, argument: `/${segment(name)}`, schema: propertyOf(schema, name) };
      return [name, this.written(value, leaf, writing)];
    });
    const all = Object.fromEntries(written);
    const isTaken = answers.size > 0 || writing.open.length > 0 || !isSame(all, args);
    return { args: isTaken ? all : args, open: writing.open, swayed: writing.swayed };
  }

  private written(value: JsonValue, leaf: Leaf, writing: Writing): JsonValue {
    const answer = writing.answers.get(leaf.argument);
    if (answer) {
      if (!isSame(answer.meant, value)) writing.swayed.push({ name: leaf.name, from: answer.from });
      return answer.written;
    }
    if (writing.derived.includes(leaf.argument))
      return this.open(value, leaf, writing, this.hidden);
    const whole = this.isShown(value)
      ? undefined
      : this.hidden.find(({ clean }) => isSame(clean, value));
    if (whole) return this.referenceTo(whole, leaf.name, writing);
    if (isJsonList(value))
      return value.map((item, index) => this.written(item, itemOf(leaf, index), writing));
    if (isJsonObject(value)) return this.writtenObject(value, leaf, writing);
    const of = this.sourcesOf(value);
    if (of.length > 0) return this.open(value, leaf, writing, of);
    return typeof value === 'string' ? this.mixed(value, leaf.name, writing) : value;
  }

  private open(
    value: JsonValue,
    { argument, schema }: Leaf,
    { open }: Writing,
    of: readonly HiddenText[],
  ): JsonValue {
    const asked = of.slice(0, MOST_ASKED);
    const from = [...new Set(asked.flatMap((one) => one.from))];
    open.push({
      argument,
      schema,
      of: asked.map(({ reference }) => reference),
      from,
      recorded: value,
    });
    return value;
  }

  private writtenObject(
    value: JsonObject,
    { name, argument, schema }: Leaf,
    writing: Writing,
  ): JsonObject {
    const entries = Object.entries(value).map(([key, item]): [string, JsonValue] => {
      const leaf = {
        name,
        argument: `${argument}/${segment(key)}`,
        schema: propertyOf(schema, key),
      };
      return [key, this.written(item, leaf, writing)];
    });
    return Object.fromEntries(entries);
  }

  private referenceTo(
    { reference, value, clean, from }: HiddenText,
    name: string,
    { swayed }: Writing,
  ): string {
    if (!isSame(value, clean)) swayed.push({ name, from });
    return reference;
  }

  /**
   * A text in the model's own words, with references in the place of the hidden texts that it
   * quotes.
   */
  private mixed(text: string, name: string, writing: Writing): string {
    return this.quotedIn(text).reduce(
      (mixed, { quote, hidden }) =>
        mixed.replaceAll(quote, () => this.referenceTo(hidden, name, writing)),
      text,
    );
  }

  private quotedIn(
    text: string,
  ): readonly { readonly quote: string; readonly hidden: HiddenText }[] {
    return this.hidden.flatMap((hidden) => {
      const { clean: quote } = hidden;
      if (
        typeof quote !== 'string' ||
        quote.length < SHORTEST_QUOTE ||
        !text.includes(quote) ||
        this.isShown(quote)
      )
        return [];
      return [{ quote, hidden }];
    });
  }

  /**
   * The hidden texts that a model must have read to write a value: the value stands in them, or a
   * passage or a telling word of it does, and was not shown.
   */
  private sourcesOf(value: JsonValue): readonly HiddenText[] {
    if (!isTelling(value) || this.isShown(value)) return [];
    const within = this.hidden.filter(({ clean }) =>
      textsIn(clean).some((text) => standsIn(value, text)),
    );
    if (within.length > 0 || typeof value !== 'string') return within;
    const own = this.quotedIn(value).reduce(
      (rest, { quote }) => rest.replaceAll(quote, ' '),
      value,
    );
    const passages = passagesOf(own).filter((passage) => !this.isShown(passage));
    return this.hidden.filter(({ clean }) =>
      textsIn(clean).some((text) => passages.some((passage) => standsIn(passage, text))),
    );
  }

  /** Tells whether a value stands in a text that was shown. */
  isShown(value: JsonValue): boolean {
    const telling = typeof value === 'number' ? [value] : textsIn(value).filter(isTelling);
    return telling.every((one) => this.shown.some((text) => standsIn(one, text)));
  }
}

/**
 * Returns the JSON pointer, with * for the items of a list, to the first place in a result that is
 * a value, or else that names it; undefined where none does.
 */
export function placeOf(value: JsonValue, result: JsonValue): string | undefined {
  const places = placesIn(result);
  const found =
    places.find((place) => isSame(place.value, value)) ??
    places.find((place) => isTelling(value) && names(place.value, value));
  return found?.pointer;
}

function names(text: JsonValue, value: string | number): boolean {
  return (
    typeof text === 'string' &&
    (standsIn(value, text) || passagesOf(String(value)).some((passage) => standsIn(passage, text)))
  );
}

interface Place {
  readonly pointer: string;
  readonly value: JsonValue;
}

function placesIn(value: JsonValue, pointer = ''): Place[] {
  const here = { pointer, value };
  if (isJsonList(value))
    return [here].concat(value.flatMap((item) => placesIn(item, `${pointer}/*`)));
  if (!isJsonObject(value)) return [here];
  return [here].concat(
    Object.entries(value).flatMap(([key, item]) => placesIn(item, `${pointer}/${segment(key)}`)),
  );
}

/** Answers by the pointers of the arguments. */
export type Answers = ReadonlyMap<string, ArgumentAnswer>;

interface Writing {
  readonly answers: Answers;
  readonly derived: readonly string[];
  readonly open: OpenArgument[];
  readonly swayed: SwayedArgument[];
}

interface Leaf {
  /** The top-level argument that it is part of. */
  readonly name: string;
  readonly argument: string;
  readonly schema: Schema;
}

/** A shorter text is quoted by chance. */
const SHORTEST_QUOTE = 4;
/** A shorter id is compared as it is written. */
const LONG_ID = 8;
/** As many texts as one question may be about. */
const MOST_ASKED = 8;
/** As many words of a text in a row are no chance. */
const WORDS_IN_A_ROW = 3;

/** Returns all texts and numbers in a value, keys included, as texts. */
export function textsIn(value: JsonValue): string[] {
  if (typeof value === 'string' || typeof value === 'number') return [String(value)];
  if (isJsonList(value)) return value.flatMap(textsIn);
  return isJsonObject(value)
    ? Object.keys(value).concat(Object.values(value).flatMap(textsIn))
    : [];
}

function propertyOf({ properties = {}, additionalProperties }: Schema, name: string): Schema {
  const property = Object.hasOwn(properties, name) ? properties[name] : additionalProperties;
  return typeof property === 'object' ? property : {};
}

function itemOf({ name, argument, schema: { items } }: Leaf, index: number): Leaf {
  return {
    name,
    argument: `${argument}/${index}`,
    schema: typeof items === 'object' && !Array.isArray(items) ? items : {},
  };
}

function segment(name: string): string {
  return name.replaceAll('~', '~0').replaceAll('/', '~1');
}

function isSame(one: JsonValue, other: JsonValue): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

/**
 * Tells whether a value says something by itself: a switch, or nothing, could come from anywhere.
 */
function isTelling(value: JsonValue): value is string | number {
  return typeof value === 'number' || (typeof value === 'string' && /[\p{L}\p{N}]/u.test(value));
}

/**
 * Tells whether a text names a value: a number in any notation, a date or a time in the usual ones,
 * anything else as whole words.
 */
function standsIn(value: string | number, text: string): boolean {
  if (typeof value === 'number') return numbersIn(text).includes(value);
  const notations = momentsOf(value);
  if (notations.length > 0) return notations.every((one) => hasOne(one, text));
  return (
    hasWords(value, text) ||
    (/\d/.test(value) && compact(value).length >= LONG_ID && compact(text).includes(compact(value)))
  );
}

/** The notations of a date, of a time, or of both. */
function momentsOf(value: string): readonly (readonly string[])[] {
  const parts = value.trim().split(/[T ](?=\d\d:\d\d(?::\d\d)?$)/);
  const notations = parts.map((part) => datesOf(part).concat(clocksOf(part)));
  return notations.some(({ length }) => length === 0) ? [] : notations;
}

function hasOne(notations: readonly string[], text: string): boolean {
  return notations.some((notation) => hasWords(notation, text));
}

function hasWords(words: string, text: string): boolean {
  const [wanted, all] = [plain(words), plain(text)];
  for (let at = all.indexOf(wanted); at >= 0; at = all.indexOf(wanted, at + 1))
    if (isEdge(all.charAt(at - 1)) && isEdge(all.charAt(at + wanted.length))) return true;
  return false;
}

function isEdge(character: string): boolean {
  return !/[\p{L}\p{N}]/u.test(character);
}

function plain(text: string): string {
  return text.normalize('NFKC').replaceAll(/\s+/g, ' ').trim().toLowerCase();
}

function compact(text: string): string {
  return text.replaceAll(/[\s-]/g, '').toLowerCase();
}

function numbersIn(text: string): number[] {
  const written = text.match(/-?\d+(?:[.,'’]\d+)*/g) ?? [];
  return written
    .flatMap((one) => [
      one.replaceAll(/[,'’]/g, ''),
      one.replaceAll(/[.'’]/g, '').replace(',', '.'),
    ])
    .map(Number);
}

const MONTHS =
  'January February March April May June July August September October November December'.split(
    ' ',
  );

/**
 * A date in the notations in which people write it. A day without a year counts, too: the year is
 * often left out.
 */
function datesOf(date: string): string[] {
  const [, year = '', two = '', other = ''] = /^(\d{4})-(\d\d)-(\d\d)$/.exec(date) ?? [];
  if (year === '') return [];
  const [month, day] = [String(Number(two)), String(Number(other))];
  const name = MONTHS[Number(two) - 1] ?? two;
  const days = [day, `${day}st`, `${day}nd`, `${day}rd`, `${day}th`];
  const named = [name, name.slice(0, 3)].flatMap((one) =>
    days.flatMap((nth) => [`${nth} ${one}`, `${nth} of ${one}`, `${one} ${nth}`]),
  );
  return [
    date,
    `${day}.${month}.${year}`,
    `${other}.${two}.${year}`,
    `${month}/${day}/${year}`,
    `${two}/${other}/${year}`,
    `${day}.${month}.`,
    ...named,
  ];
}

/** A time of day in the notations in which people write it. */
function clocksOf(clock: string): string[] {
  const [, hour = '', minute = ''] = /^(\d\d):(\d\d)(?::\d\d)?$/.exec(clock) ?? [];
  if (hour === '') return [];
  const half = Number(hour) < 12 ? 'am' : 'pm';
  const twelve = String(Number(hour) % 12 === 0 ? 12 : Number(hour) % 12);
  const short = minute === '00' ? [`${twelve}${half}`, `${twelve} ${half}`] : [];
  return [
    `${hour}:${minute}`,
    `${Number(hour)}:${minute}`,
    `${twelve}:${minute}${half}`,
    `${twelve}:${minute} ${half}`,
    ...short,
  ];
}

/**
 * The parts of a text that no one writes by chance: words with digits, addresses, and words in a
 * row.
 */
function passagesOf(text: string): string[] {
  const words = text
    .split(/\s+/)
    .map((word) => word.replaceAll(/^[^\p{L}\p{N}]+|[^\p{L}\p{N}]+$/gu, ''));
  const telling = words.filter((word) => /\d{2}|@|:\/\//.test(word));
  const rows = words
    .map((_, index) => words.slice(index, index + WORDS_IN_A_ROW))
    .filter((row) => row.length === WORDS_IN_A_ROW);
  return [...telling, ...rows.map((row) => row.join(' ')).filter((row) => /\p{L}{4}/u.test(row))];
}
