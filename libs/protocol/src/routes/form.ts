import type { JsonObject, JsonValue } from '../json.js';

/**
 * The form of a value that a route takes or gives: a schema, and the type of what fits it, which
 * exists for the compiler alone.
 */
export interface Form<Value = unknown> extends FormSchema {
  readonly [VALUE]?: Value;
}

/** A rule of a schema that can have a text of its own for those who break it. */
export type FormRule =
  'type' | 'enum' | 'minLength' | 'maxLength' | 'pattern' | 'minimum' | 'maximum' | 'maxItems';

/** A schema of OpenAPI, as far as the routes need it. */
export interface FormSchema {
  readonly type?: 'string' | 'integer' | 'number' | 'boolean' | 'array' | 'object';
  readonly format?: string;
  readonly description?: string;
  readonly default?: JsonValue;
  readonly enum?: readonly string[];
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly pattern?: string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly items?: FormSchema;
  readonly maxItems?: number;
  readonly properties?: Readonly<Record<string, FormSchema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: boolean;
  readonly anyOf?: readonly FormSchema[];
  readonly $ref?: string;
  /** Texts for those who break a rule, with `$property` for the name. No part of a document. */
  readonly texts?: Readonly<Partial<Record<FormRule, string>>>;
}

declare const VALUE: unique symbol;

/** The type of the values that fit a form. */
export type ValueOf<Of> = Of extends Form<infer Value> ? Value : never;

/** A member that may be left out. */
export interface Optional<Value = unknown> {
  readonly optional: Form<Value>;
}

type Members = Readonly<Record<string, Form | Optional>>;

/** The object whose members have these forms. */
export type ObjectOf<Of> = Flat<
  {
    readonly [Name in keyof Of as Of[Name] extends Optional ? never : Name]: ValueOf<Of[Name]>;
  } & {
    readonly [
      Name in keyof Of as Of[Name] extends Optional ? Name : never
    ]?: Of[Name] extends Optional<infer Value> ? Value : never;
  }
>;

/** One object type instead of several that are joined. */
export type Flat<Of> = Of extends infer One ? { [Name in keyof One]: One[Name] } : never;

/**
 * The forms of the members of a type that is declared elsewhere: one that is added or left out does
 * not compile.
 */
export type MembersOf<Value> = {
  readonly [Name in keyof Value]-?: object extends Pick<Value, Name> ? Optional : Form;
};

export const TEXT: Form<string> = { type: 'string' };
export const TIME: Form<string> = { type: 'string', format: 'date-time' };
export const WHOLE: Form<number> = { type: 'integer' };
export const AMOUNT: Form<number> = { type: 'number' };
export const YES_OR_NO: Form<boolean> = { type: 'boolean' };
export const OPEN: Form<JsonObject> = { type: 'object', additionalProperties: true };
export const ANY: Form<JsonValue> = {
  anyOf: [TEXT, AMOUNT, YES_OR_NO, { type: 'array', items: {} }, OPEN],
  description: 'Any JSON.',
};

/** Gives a schema a type that says more than the schema does. */
export function typed<Value>(schema: FormSchema): Form<Value> {
  return schema;
}

/** One of some texts. */
export function words<const Word extends string>(...choices: readonly Word[]): Form<Word> {
  return { type: 'string', enum: choices };
}

/** The form with texts of its own for those who break its rules. */
export function says<Value>(
  form: Form<Value>,
  texts: Partial<Record<FormRule, string>>,
): Form<Value> {
  return { ...form, texts: { ...form.texts, ...texts } };
}

/** A text of at most so many characters. */
export function atMost(maxLength: number): Form<string> {
  return { ...TEXT, maxLength };
}

/** One of some texts, which a mistake lists. */
export function oneOf<const Word extends string>(...choices: readonly Word[]): Form<Word> {
  return says(words(...choices), { enum: `$property must be one of ${choices.join(', ')}` });
}

export function list<Value>(items: Form<Value>, maxItems?: number): Form<readonly Value[]> {
  return { type: 'array', ...(maxItems !== undefined && { maxItems }), items };
}

export function optional<Value>(form: Form<Value>): Optional<Value> {
  return { optional: form };
}

/** The answer that has this name in a document. */
export function ref<Value>(name: string): Form<Value> {
  return { $ref: `#/components/schemas/${name}` };
}

/** An object with these members, whose type follows from them. */
export function object<const Of extends Members>(members: Of): Form<ObjectOf<Of>> {
  return schemaOf(members);
}

/** An object of a type that is declared elsewhere, as far as a document tells its members. */
export function declared<Value, Told extends keyof Value = keyof Value>(
  members: MembersOf<Pick<Value, Told>>,
): Form<Value> {
  return schemaOf(members);
}

function schemaOf(members: Members): FormSchema {
  const entries = Object.entries(members);
  const required = entries.flatMap(([name, member]) => ('optional' in member ? [] : [name]));
  const properties = Object.fromEntries(
    entries.map(([name, member]) => [name, 'optional' in member ? member.optional : member]),
  );
  return { type: 'object', properties, ...(required.length > 0 && { required }) };
}
