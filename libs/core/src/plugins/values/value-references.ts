import { randomBytes } from 'node:crypto';
import {
  type HiddenValue,
  isJsonList,
  isJsonObject,
  type JsonObject,
  type JsonValue,
} from '@toolloop/protocol';
import { parseJson } from '../../schema/canonical-json.js';
import { inertText } from './inert-text.js';

/**
 * The texts from outside that the models of a run and of its sub-runs know by a reference alone.
 * They are kept with the messages that name them, so that a run which waited has them again.
 */
export class RunValues {
  private readonly values = new Map<string, HiddenValue>();

  get isEmpty(): boolean {
    return this.values.size === 0;
  }

  /** Takes values that were hidden before. */
  learn(hidden: readonly HiddenValue[]): void {
    for (const value of hidden) this.values.set(value.id, value);
  }

  /**
   * Hides a value that was read from these places, and returns what the model reads instead, which
   * is the same for every value.
   */
  hide(value: JsonValue, ...from: readonly string[]): string {
    const id = this.newName();
    this.values.set(id, { id, value, from: [...new Set(from)] });
    return `⟦${id}:text⟧`;
  }

  private newName(): string {
    const name = `v-${nonce()}`;
    return this.values.has(name) ? this.newName() : name;
  }

  find(id: string): HiddenValue | undefined {
    return this.values.get(id);
  }

  /** Returns the values that a text names. */
  namedIn(text: string): readonly HiddenValue[] {
    return referencesIn(text).flatMap((id) => this.values.get(id) ?? []);
  }

  /** Returns a text with the values in the place of their references, in JSON as JSON has them. */
  revealIn(text: string): string {
    if (this.isEmpty || !text.includes(REFERENCE_MARK)) return text;
    const isJson = parseJson(text) !== undefined;
    return text.replaceAll(REFERENCE, (reference, id: string) => {
      const found = this.values.get(id);
      return found ? written(toText(found.value), isJson) : reference;
    });
  }

  /**
   * Returns the values that the arguments of a call name, in whatever way their JSON is written.
   */
  takenBy(text: string): readonly HiddenValue[] {
    return this.isEmpty ? [] : this.namedIn(JSON.stringify(parseJson(text) ?? null));
  }

  /**
   * Puts values in the place of the references to them: once, so that a reference within a value
   * stays text. An argument that is nothing but one reference becomes the value itself.
   *
   * @throws {UnknownReferenceError} For a reference to nothing.
   */
  expand(args: JsonObject): ExpandedArguments {
    const outside: OutsideArgument[] = [];
    const entries = Object.entries(args).map(([name, value]): [string, JsonValue] => {
      const used: HiddenValue[] = [];
      const expanded = this.expanded(value, used);
      if (used.length > 0)
        outside.push({ name, from: [...new Set(used.flatMap(({ from }) => from))] });
      return [name, expanded];
    });
    return { args: Object.fromEntries(entries), outside };
  }

  private expanded(value: JsonValue, used: HiddenValue[]): JsonValue {
    if (isJsonList(value)) return value.map((item) => this.expanded(item, used));
    if (isJsonObject(value))
      return Object.fromEntries(
        Object.entries(value).map(([key, item]) => [key, this.expanded(item, used)]),
      );
    if (typeof value !== 'string') return value;
    const take = (id: string): JsonValue => {
      const found = this.values.get(id);
      if (!found) throw new UnknownReferenceError(id);
      used.push(found);
      return found.value;
    };
    const [only, id] = new RegExp(`^${REFERENCE.source}$`).exec(value) ?? [];
    if (only !== undefined && id !== undefined) return take(id);
    return value.replaceAll(REFERENCE, (_, name: string) => toText(take(name)));
  }
}

/** The character with which every reference begins. */
export const REFERENCE_MARK = '⟦';

/**
 * The form of a reference in a text. Its name has forty bits that no one outside can know, so that
 * no text of theirs, and none of the user's, is ever taken for one. The name has no number, which
 * would tell how much was hidden before it. The words behind it tell the model that it stands for a
 * text from outside, and are no part of it.
 */
const REFERENCE = /⟦(v-[a-z2-7]{8})(?::[^⟦⟧]*)?⟧/g;

/** Arguments with values in the place of references, and which of them hold some. */
export interface ExpandedArguments {
  readonly args: JsonObject;
  readonly outside: readonly OutsideArgument[];
}

/**
 * A top-level argument that holds text from outside, and the places where that was read:
 * `mail__read#/body`.
 */
export interface OutsideArgument {
  readonly name: string;
  readonly from: readonly string[];
}

/** Thrown for a reference that stands for nothing. */
export class UnknownReferenceError extends Error {
  override readonly name = 'UnknownReferenceError';

  constructor(id: string) {
    super(`There is no value "${id}". Copy a reference as it stands in a result.`);
  }
}

/** Returns the names of the values to which a text refers. */
export function referencesIn(text: string): readonly string[] {
  return [...text.matchAll(REFERENCE)].flatMap(([, id]) => id ?? []);
}

/**
 * Returns the names of the values that an argument lists, each as a reference or by its name alone.
 */
export function referencedBy(of: unknown): readonly string[] {
  return Array.isArray(of)
    ? of.map((one) => referencesIn(String(one))[0] ?? String(one).replaceAll(/[⟦⟧]/g, ''))
    : [];
}

/**
 * Puts the texts into an answer for its reader, which may be JSON. No link, image or other markup
 * in them works.
 */
export function answerForReader(
  text: string,
  hidden: readonly HiddenValue[],
  isJson = false,
): string {
  const values = new Map(hidden.map((value) => [value.id, value]));
  return text.replaceAll(REFERENCE, (reference, id: string) => {
    const found = values.get(id);
    const shown = found ? inertText(toText(found.value)) : reference;
    return written(shown, isJson);
  });
}

/** Writes a text as it stands in a text of JSON, or by itself. */
function written(text: string, isJson: boolean): string {
  return isJson ? JSON.stringify(text).slice(1, -1) : text;
}

/**
 * Puts the texts into the values of a structured answer for its reader. While it is written, a
 * reference that has not ended yet is left out, so that the answer only grows.
 */
export function valueForReader(
  value: JsonValue,
  values: Pick<RunValues, 'namedIn'>,
  isWritten = true,
): JsonValue {
  const shown = (one: JsonValue): JsonValue => valueForReader(one, values, isWritten);
  if (isJsonList(value)) return value.map(shown);
  if (isJsonObject(value))
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, shown(one)]));
  if (typeof value !== 'string') return value;
  return isWritten
    ? answerForReader(value, values.namedIn(value))
    : new GrowingAnswerForReader(values).take(value);
}

/**
 * Puts the texts into an answer while it is written: a reference that has not ended yet is shown
 * once it has.
 */
export class GrowingAnswerForReader {
  private rest = '';

  constructor(
    private readonly values: Pick<RunValues, 'namedIn'>,
    /** Set where the answer is JSON, in whose texts they stand. @default false */
    private readonly isJson = false,
  ) {}

  /** Returns what can be shown by now. */
  take(text: string): string {
    const all = this.rest + text;
    const open = all.lastIndexOf(REFERENCE_MARK);
    const isOpen = open >= 0 && all.length - open < LONGEST_REFERENCE && !all.includes('⟧', open);
    this.rest = isOpen ? all.slice(open) : '';
    return this.shown(isOpen ? all.slice(0, open) : all);
  }

  /** Returns the rest, once the text has ended. */
  end(): string {
    const { rest } = this;
    this.rest = '';
    return this.shown(rest);
  }

  private shown(text: string): string {
    return text.includes(REFERENCE_MARK)
      ? answerForReader(text, this.values.namedIn(text), this.isJson)
      : text;
  }
}

/** A text that is longer, from the mark on, is no reference. */
const LONGEST_REFERENCE = 128;

function toText(value: JsonValue): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

const ALPHABET = 'abcdefghijklmnopqrstuvwxyz234567';

function nonce(): string {
  return Array.from(randomBytes(8), (byte) => ALPHABET[byte % ALPHABET.length]).join('');
}
