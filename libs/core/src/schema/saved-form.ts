/**
 * The form of stored JSON. It is written once, beside the class that is saved: the compiler checks
 * it against the type, and `check` checks the stored value against it. Unlike a tool's schema it
 * covers only the members that its reader relies on.
 */
export interface Form<Value> {
  /**
   * Finds the path of the first wrong value, such as `run.state.messages[0].role`; undefined if
   * there is none.
   */
  check(value: unknown, at: string): string | undefined;
  /** Never set: it only gives the compiler the type. */
  readonly reads?: Value;
}

/** The form of a member that may be absent. */
export interface OptionalForm<Value> {
  readonly optional: Form<Value>;
}

/**
 * The forms of the members of a type: one for each member, and an optional one for each that may be
 * absent.
 */
export type FormsOf<Value> = {
  readonly [Name in keyof Value]-?: object extends Pick<Value, Name>
    ? OptionalForm<Exclude<Value[Name], undefined>>
    : Form<Value[Name]>;
};

type AnyForms = Readonly<Record<string, Form<unknown> | OptionalForm<unknown>>>;

export const TEXT: Form<string> = {
  check: (value, at) => (typeof value === 'string' ? undefined : at),
};
export const NUMBER: Form<number> = {
  check: (value, at) => (typeof value === 'number' ? undefined : at),
};
export const YES: Form<true> = { check: (value, at) => (value === true ? undefined : at) };
export const FLAG: Form<boolean> = {
  check: (value, at) => (typeof value === 'boolean' ? undefined : at),
};

/** The form of a point in time as text. */
export const INSTANT: Form<string> = {
  check: (value, at) =>
    typeof value === 'string' && !Number.isNaN(Date.parse(value)) ? undefined : at,
};

/** Makes the form of a member that may be absent. */
export function optional<Value>(form: Form<Value>): OptionalForm<Value> {
  return { optional: form };
}

/** Makes the form of any JSON value that is present: its reader checks it itself. */
export function present<Value>(): Form<Value> {
  return { check: (value, at) => (value === undefined ? at : undefined) };
}

/** Makes the form of an object of which only these members are relied on. */
export function partly<Value>(forms: AnyForms = {}): Form<Value> {
  return { check: (value, at) => wrongMember(forms, value, at) };
}

/**
 * Makes the form of an object without other members: an unknown member would be ignored, though it
 * has a meaning for the release that wrote it.
 */
export function only<Value>(forms: AnyForms): Form<Value> {
  return { check: (value, at) => wrongMember(forms, value, at) ?? unknownMember(forms, value, at) };
}

/** Makes the form of an object; each member of its type has a form. */
export function object<Value extends object>(forms: FormsOf<Value>): Form<Value> {
  return { check: (value, at) => wrongMember({ ...forms }, value, at) };
}

export function list<Value>(of: Form<Value>): Form<readonly Value[]> {
  return {
    check: (value, at) =>
      Array.isArray(value)
        ? first(value, (one: unknown, index) => of.check(one, `${at}[${index}]`))
        : at,
  };
}

/** Makes the form of an object whose members all have one form. */
export function byName<Value>(of: Form<Value>): Form<Readonly<Record<string, Value>>> {
  return {
    check: (value, at) =>
      typeof value === 'object' && value !== null && !Array.isArray(value)
        ? first(Object.entries(value), ([name, one]) => of.check(one, `${at}.${name}`))
        : at,
  };
}

/** Makes the form of a key with its value, as a `Map` is saved. */
export function pair<Value>(second: Form<Value>): Form<readonly [string, Value]> {
  return {
    check: (value, at) =>
      Array.isArray(value) && value.length === 2
        ? (TEXT.check(value[0], at) ?? second.check(value[1], at))
        : at,
  };
}

/** Makes the form of one literal, or another form. */
export function wordOr<Word extends string, Value>(
  word: Word,
  form: Form<Value>,
): Form<Word | Value> {
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

function first<Value>(
  values: readonly Value[],
  wrong: (value: Value, index: number) => string | undefined,
): string | undefined {
  for (const [index, value] of values.entries()) {
    const at = wrong(value, index);
    if (at !== undefined) return at;
  }
  return undefined;
}
