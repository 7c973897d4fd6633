/**
 * The form that JSON has once it is stored. It is written once, beside what is saved: the compiler holds it against the type, and `check` holds what was
 * stored against it. Unlike a tool's schema it looks only at what its reader relies on.
 */
export interface Form<Value> {
  /** The path of the first value that is not what it must be, such as `run.state.messages[0].role`; undefined where all of it is. */
  check(value: unknown, at: string): string | undefined;
  /** Never set: it tells the compiler what is read. */
  readonly reads?: Value;
}

/** The form of a member that may be absent. */
export interface OptionalForm<Value> {
  readonly optional: Form<Value>;
}

/** A form for each member of a type, and for no other; optional ones for those that may be absent. */
export type FormsOf<Value> = {
  readonly [Name in keyof Value]-?: object extends Pick<Value, Name> ? OptionalForm<Exclude<Value[Name], undefined>> : Form<Value[Name]>;
};

type AnyForms = Readonly<Record<string, Form<unknown> | OptionalForm<unknown>>>;

export const TEXT: Form<string> = { check: (value, at) => (typeof value === 'string' ? undefined : at) };
export const NUMBER: Form<number> = { check: (value, at) => (typeof value === 'number' ? undefined : at) };
export const YES: Form<true> = { check: (value, at) => (value === true ? undefined : at) };
export const FLAG: Form<boolean> = { check: (value, at) => (typeof value === 'boolean' ? undefined : at) };

/** A point in time as text. */
export const INSTANT: Form<string> = {
  check: (value, at) => (typeof value === 'string' && !Number.isNaN(Date.parse(value)) ? undefined : at),
};

/** A member that may be absent. */
export function optional<Value>(form: Form<Value>): OptionalForm<Value> {
  return { optional: form };
}

/** Any JSON but nothing: its reader looks at it itself. */
export function present<Value>(): Form<Value> {
  return { check: (value, at) => (value === undefined ? at : undefined) };
}

/** An object of which only these members are relied on. */
export function partly<Value>(forms: AnyForms = {}): Form<Value> {
  return { check: (value, at) => wrongMember(forms, value, at) };
}

/** An object with no other members: a name that we do not know is one that we do not heed, and what it says would be passed over. */
export function only<Value>(forms: AnyForms): Form<Value> {
  return { check: (value, at) => wrongMember(forms, value, at) ?? unknownMember(forms, value, at) };
}

/** An object; each member of its type has a form. */
export function object<Value extends object>(forms: FormsOf<Value>): Form<Value> {
  return { check: (value, at) => wrongMember({ ...forms }, value, at) };
}

export function list<Value>(of: Form<Value>): Form<readonly Value[]> {
  return {
    check: (value, at) => (Array.isArray(value) ? first(value, (one: unknown, index) => of.check(one, `${at}[${index}]`)) : at),
  };
}

/** A name and what it stands for, as a `Map` is saved. */
export function pair<Value>(second: Form<Value>): Form<readonly [string, Value]> {
  return {
    check: (value, at) => (Array.isArray(value) && value.length === 2 ? (TEXT.check(value[0], at) ?? second.check(value[1], at)) : at),
  };
}

/** One word, or another form. */
export function wordOr<Word extends string, Value>(word: Word, form: Form<Value>): Form<Word | Value> {
  return { check: (value, at) => (value === word ? undefined : form.check(value, at)) };
}

function wrongMember(forms: AnyForms, value: unknown, at: string): string | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return at;
  const held = new Map<string, unknown>(Object.entries(value));
  return first(Object.entries(forms), ([name, form]) => {
    const member = held.get(name);
    if ('check' in form) return form.check(member, `${at}.${name}`);
    return member === undefined ? undefined : form.optional.check(member, `${at}.${name}`);
  });
}

function unknownMember(forms: AnyForms, value: unknown, at: string): string | undefined {
  const names = typeof value === 'object' && value !== null ? Object.keys(value) : [];
  const unknown = names.find((name) => !Object.hasOwn(forms, name));
  return unknown === undefined ? undefined : `${at}.${unknown}`;
}

function first<Value>(values: readonly Value[], wrong: (value: Value, index: number) => string | undefined): string | undefined {
  for (const [index, value] of values.entries()) {
    const at = wrong(value, index);
    if (at !== undefined) return at;
  }
  return undefined;
}
