import type { JSONSchema7, JSONSchema7Type, JSONSchema7TypeName } from 'json-schema';
import { enumValues, numberNames } from './input-properties.js';
import { readExpression, type ValidationRule } from './validation-rules.js';
import { needsUnicode } from './patterns.js';

/**
 * Returns the meaning of a decorator by class-validator's name of it. An unknown one is left to
 * class-validator.
 */
export function constraintSchema(name: string, values: Arguments): ConstraintSchema {
  if (Object.hasOwn(EXPRESSED, name)) return EXPRESSED[name]?.(values) ?? UNKNOWN;
  const hint = TEXT_HINTS.get(name);
  return hint === undefined ? UNKNOWN : text({}, hint);
}

/** The meaning of one class-validator decorator in JSON Schema. */
export interface ConstraintSchema {
  /** The JSON types that can satisfy it. Absent: any. */
  readonly types?: readonly JSONSchema7TypeName[];
  readonly keywords: JSONSchema7;
  /** A hint for the model about the part that the keywords cannot express. */
  readonly hint?: string;
  /**
   * `true` if the keywords express all of it; otherwise class-validator checks the value as well.
   */
  readonly exact: boolean;
  /** `true` if it applies to a `Date`, which is text in JSON. */
  readonly date?: boolean;
}

type Arguments = readonly unknown[];

type Scalar = string | number | boolean | null;

const UNKNOWN: ConstraintSchema = { keywords: {}, exact: false };

/**
 * Makes the schema of a list of values. class-validator compares by `===`, so only scalars can
 * match.
 */
function oneOf(values: unknown): ConstraintSchema {
  const scalars = Array.isArray(values) ? values.filter(isScalar) : [];
  const types = [...new Set(scalars.map(typeOf))];
  return { types, keywords: { enum: [...new Set(scalars)] }, exact: true };
}

function memberOf(members: object): ConstraintSchema {
  const hint = numberNames(members);
  return { ...oneOf(enumValues(members)), ...(hint !== undefined && { hint }) };
}

function joinValues(values: unknown): string {
  return [values]
    .flat()
    .map((value) => (typeof value === 'string' ? value : JSON.stringify(value)))
    .join(', ');
}

function exactly(type: JSONSchema7TypeName, keywords: JSONSchema7 = {}): ConstraintSchema {
  return { types: [type], keywords, exact: true };
}

function limitsDecimals(options: unknown): boolean {
  return (
    typeof options === 'object' &&
    options !== null &&
    'maxDecimalPlaces' in options &&
    options.maxDecimalPlaces !== undefined
  );
}

/**
 * Makes the schema of a bound. One that is not a number of the right kind never holds in
 * class-validator, and is left out of the schema.
 */
function bounded(
  type: 'number' | 'string' | 'array',
  keyword: 'minimum' | 'maximum' | 'minLength' | 'maxLength' | 'minItems' | 'maxItems',
  bound: unknown,
): ConstraintSchema {
  const fits = type === 'number' ? Number.isFinite(bound) : isCount(bound);
  return { ...exactly(type, fits ? { [keyword]: bound } : {}), exact: fits };
}

function isCount(value: unknown): value is number {
  return Number.isInteger(value) && Number(value) >= 0;
}

function dateBound(words: string, bound: unknown): ConstraintSchema {
  const hint = bound instanceof Date ? { hint: `${words} ${bound.toISOString()}.` } : {};
  return { ...exactly('string'), ...hint, exact: false, date: true };
}

function lengthBetween(min: unknown, max: unknown): ConstraintSchema {
  const lower = bounded('string', 'minLength', min);
  const upper = max === undefined ? text({}) : bounded('string', 'maxLength', max);
  return {
    ...lower,
    keywords: { ...(min !== 0 && lower.keywords), ...upper.keywords },
    exact: lower.exact && upper.exact,
  };
}

/**
 * Makes the schema of a pattern. A schema has no flags, so a pattern with a significant one is left
 * to class-validator.
 */
function matching(values: Arguments): ConstraintSchema {
  const { expression } = readExpression(values);
  if (!expression) return text({}, 'Matches a pattern.'); // which is none: a finding tells
  const remaining = expression.flags.replaceAll(/[dg]/g, '');
  const expressible = remaining === (needsUnicode(expression.source) ? 'u' : '');
  return expressible
    ? text({ pattern: expression.source })
    : text({}, `Matches ${String(expression)}.`);
}

function text(keywords: JSONSchema7, hint?: string): ConstraintSchema {
  return {
    types: ['string'],
    keywords,
    exact: hint === undefined,
    ...(hint !== undefined && { hint }),
  };
}

function escaped(part: string): string {
  return part.replaceAll(/[$()*+.?[\\\]^{|}/]/g, String.raw`\$&`);
}

function isEnglish(locale: unknown): boolean {
  return locale === undefined || locale === null || locale === 'en-US';
}

function uuid(version: unknown): ConstraintSchema {
  const known =
    version === undefined || version === null || version === 'all' ? '[1-8]' : joinValues(version);
  if (!/^(?:[1-8]|\[1-8\])$/.test(known)) return text({}, 'A UUID.');
  const one = `[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-${known}[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}`;
  const extremes = '|0{8}-0{4}-0{4}-0{4}-0{12}|[fF]{8}-[fF]{4}-[fF]{4}-[fF]{4}-[fF]{12}';
  return text({ format: 'uuid', pattern: `^(?:${one}${known === '[1-8]' ? extremes : ''})$` });
}

/** A text that is the same in a pattern with the flag u and without. */
const PLAIN_TEXT = /^[^\uD800-\uFFFF]+$/;

const EXPRESSED: Readonly<Record<string, (values: Arguments) => ConstraintSchema>> = {
  isDefined: () => ({ keywords: {}, exact: true }),
  isNotEmpty: () => ({ keywords: { minLength: 1 }, exact: true }),
  equals: ([value]) => oneOf([value]),
  isIn: ([values]) => oneOf(values),
  isEnum: ([members]) =>
    typeof members === 'object' && members !== null ? memberOf(members) : UNKNOWN,
  isNotIn: ([values]) => ({ ...UNKNOWN, hint: `None of: ${joinValues(values)}.` }),
  notEquals: ([value]) => ({ ...UNKNOWN, hint: `Not ${joinValues([value])}.` }),

  isBoolean: () => exactly('boolean'),
  isString: () => exactly('string'),
  isObject: () => exactly('object'),
  isNotEmptyObject: () => ({ ...exactly('object', { minProperties: 1 }), exact: false }),

  isNumber: ([options]) => ({ ...exactly('number'), exact: !limitsDecimals(options) }),
  isInt: () => exactly('integer'),
  min: ([bound]) => bounded('number', 'minimum', bound),
  max: ([bound]) => bounded('number', 'maximum', bound),
  isPositive: () => exactly('number', { exclusiveMinimum: 0 }),
  isNegative: () => exactly('number', { exclusiveMaximum: 0 }),
  isDivisibleBy: ([divisor]) => ({
    ...exactly('number', isCount(divisor) && divisor > 0 ? { multipleOf: divisor } : {}),
    exact: false,
  }),
  isLatitude: () => ({ ...exactly('number', { minimum: -90, maximum: 90 }), exact: false }),
  isLongitude: () => ({ ...exactly('number', { minimum: -180, maximum: 180 }), exact: false }),

  isDate: () => ({ ...exactly('string'), date: true }),
  minDate: ([bound]) => dateBound('Not before', bound),
  maxDate: ([bound]) => dateBound('Not after', bound),

  isArray: () => exactly('array'),
  arrayMinSize: ([size]) => bounded('array', 'minItems', size),
  arrayMaxSize: ([size]) => bounded('array', 'maxItems', size),
  arrayNotEmpty: () => exactly('array', { minItems: 1 }),
  // by an identifier, perhaps, of which nothing is recorded
  arrayUnique: () => ({ ...exactly('array', { uniqueItems: true }), exact: false }),
  arrayContains: ([values]) => ({
    ...exactly('array'),
    exact: false,
    hint: `Contains: ${joinValues(values)}.`,
  }),
  arrayNotContains: ([values]) => ({
    ...exactly('array'),
    exact: false,
    hint: `Contains none of: ${joinValues(values)}.`,
  }),

  minLength: ([length]) => bounded('string', 'minLength', length),
  maxLength: ([length]) => bounded('string', 'maxLength', length),
  isLength: ([min, max]) => lengthBetween(min ?? 0, max),
  matches: matching,
  contains: ([part]) =>
    typeof part === 'string' && PLAIN_TEXT.test(part)
      ? text({ pattern: escaped(part) })
      : text({}, `Contains: ${joinValues([part])}.`),
  notContains: ([part]) => text({}, `Does not contain: ${joinValues([part])}.`),
  isAlpha: ([locale]) =>
    isEnglish(locale) ? text({ pattern: '^[A-Za-z]+$' }) : text({}, 'Letters only.'),
  isAlphanumeric: ([locale]) =>
    isEnglish(locale) ? text({ pattern: '^[0-9A-Za-z]+$' }) : text({}, 'Letters and digits only.'),
  isAscii: () => text({ pattern: String.raw`^[\x00-\x7F]+$` }),
  isBooleanString: () => text({ enum: ['true', 'false', '1', '0'] }),
  isHexadecimal: () => text({ pattern: '^(0[xXhH])?[0-9a-fA-F]+$' }),
  isHexColor: () =>
    text({ pattern: '^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{4}|[0-9a-fA-F]{6}|[0-9a-fA-F]{8})$' }),
  isIp: ([version]) =>
    String(version) === '4' ? text({ format: 'ipv4' }) : text({}, 'An IP address.'),
  isMilitaryTime: () => text({ pattern: String.raw`^([01]\d|2[0-3]):?([0-5]\d)$` }),
  isMongoId: () => text({ pattern: '^([0-9a-fA-F]{24}|0[xXhH][0-9a-fA-F]{22})$' }),
  isNumberString: ([options]) =>
    options ? text({}, 'A number, as text.') : text({ pattern: '^[+-]?([0-9]*[.])?[0-9]+$' }),
  isOctal: () => text({ pattern: '^(0[oO])?[0-7]+$' }),
  isUuid: ([version]) => uuid(version),
};

/** The hints for the model about text that only class-validator can check. */
const TEXT_HINTS = new Map(
  Object.entries({
    isBase32: 'Base32.',
    isBase58: 'Base58.',
    isBase64: 'Base64.',
    isBIC: 'A BIC (SWIFT code).',
    isBtcAddress: 'A Bitcoin address.',
    isByteLength: 'Limited in bytes.',
    isCreditCard: 'A credit card number.',
    isCurrency: 'An amount of money, as text.',
    isDataURI: 'A data URI.',
    isDateString: 'An ISO 8601 date, or date and time: 2026-01-31 or 2026-01-31T09:30:00Z.',
    isDecimal: 'A decimal number, as text.',
    isEAN: 'An EAN.',
    isEmail: 'An email address.',
    isEthereumAddress: 'An Ethereum address.',
    IsFirebasePushId: 'A Firebase push id.',
    isFqdn: 'A domain name.',
    isFullWidth: 'Has full-width characters.',
    isHalfWidth: 'Has half-width characters.',
    isHash: 'A hash, in hex.',
    isHSL: 'An HSL colour.',
    isIBAN: 'An IBAN.',
    isIdentityCard: 'The number of an identity card.',
    isIsbn: 'An ISBN.',
    isIsin: 'An ISIN.',
    isISO31661Alpha2: 'An ISO 3166-1 country code of two letters.',
    isISO31661Alpha3: 'An ISO 3166-1 country code of three letters.',
    isISO31661Numeric: 'A numeric ISO 3166-1 country code.',
    isISO4217CurrencyCode: 'An ISO 4217 currency code.',
    isISO6391: 'An ISO 639-1 language code.',
    isIso8601: 'An ISO 8601 date, or date and time: 2026-01-31 or 2026-01-31T09:30:00Z.',
    isISRC: 'An ISRC.',
    isISSN: 'An ISSN.',
    isJson: 'JSON, as text.',
    isJwt: 'A JSON web token.',
    isLatLong: 'Latitude and longitude, separated by a comma.',
    isLocale: 'A locale such as en_US.',
    isLowercase: 'In lower case.',
    isMacAddress: 'A MAC address.',
    isMagnetURI: 'A magnet URI.',
    isMimeType: 'A MIME type.',
    isMobilePhone: 'A mobile phone number.',
    isMultibyte: 'Has a character outside ASCII.',
    isPassportNumber: 'A passport number.',
    isPhoneNumber: 'A phone number with country code, e.g. +41446681800.',
    isPort: 'A port number, as text.',
    isPostalCode: 'A postal code.',
    isRFC3339: 'An RFC 3339 date and time: 2026-01-31T09:30:00Z.',
    isRgbColor: 'An RGB colour.',
    isSemVer: 'A semantic version.',
    isStrongPassword: 'A strong password.',
    isSurrogatePair: 'Has a character outside the basic plane.',
    isTaxId: 'A tax number.',
    isTimeZone: 'An IANA time zone such as Europe/Zurich.',
    isUppercase: 'In upper case.',
    isUrl: 'A URL such as https://example.com/path.',
    isVariableWidth: 'Has characters of full and of half width.',
  }),
);

function typeOf(value: Scalar): JSONSchema7TypeName {
  if (value === null) return 'null';
  if (typeof value === 'string') return 'string';
  return typeof value === 'number' ? 'number' : 'boolean';
}

function isScalar(value: unknown): value is Scalar {
  return (
    value === null ||
    typeof value === 'string' ||
    typeof value === 'boolean' ||
    Number.isFinite(value)
  );
}

/** The combined meaning of the decorators of one value. */
export interface CombinedConstraints {
  /**
   * The types that satisfy all of them. Undefined if the type is unknown; empty if no value
   * satisfies all.
   */
  readonly types: readonly JSONSchema7TypeName[] | undefined;
  readonly keywords: JSONSchema7;
  readonly hints: readonly string[];
  readonly exact: boolean;
  readonly date: boolean;
}

export const NO_CONSTRAINTS: CombinedConstraints = {
  types: undefined,
  keywords: {},
  hints: [],
  exact: true,
  date: false,
};

type Types = readonly JSONSchema7TypeName[] | undefined;

/** Joins the constraints of one value into one schema. */
export function combineConstraints(rules: readonly ValidationRule[]): CombinedConstraints {
  return rules.reduce(
    (combined, rule) =>
      join(combined, rule.holds === 'sometimes' ? typeOnly(rule) : toSchema(rule)),
    NO_CONSTRAINTS,
  );
}

/**
 * Joins conditional constraints: they give the type, and their bounds in words, since a schema with
 * them would refuse values that class-validator accepts.
 */
export function combineTypes(rules: readonly ValidationRule[]): CombinedConstraints {
  return rules.reduce((combined, rule) => join(combined, typeOnly(rule)), NO_CONSTRAINTS);
}

function toSchema({ name, arguments: values, holds }: ValidationRule): ConstraintSchema {
  const meaning = constraintSchema(name, values);
  return holds === 'always' ? meaning : { ...meaning, exact: false };
}

function typeOnly(rule: ValidationRule): ConstraintSchema {
  const { types, date, keywords, hint } = toSchema(rule);
  const words = [...boundsInWords(keywords), ...[hint ?? []].flat()];
  return {
    keywords: {},
    exact: false,
    ...(types && { types }),
    ...(date !== undefined && { date }),
    ...(words.length > 0 && { hint: words.join(' ') }),
  };
}

/** The bounds in words, by the keyword that holds them. */
const BOUNDS: ReadonlyMap<string, (bound: string) => string> = new Map<
  string,
  (bound: string) => string
>([
  ['enum', (bound) => `One of: ${bound}.`],
  ['minimum', (bound) => `At least ${bound}.`],
  ['maximum', (bound) => `At most ${bound}.`],
  ['exclusiveMinimum', (bound) => `More than ${bound}.`],
  ['exclusiveMaximum', (bound) => `Less than ${bound}.`],
  ['multipleOf', (bound) => `A multiple of ${bound}.`],
  ['minLength', (bound) => `At least ${bound} characters.`],
  ['maxLength', (bound) => `At most ${bound} characters.`],
  ['pattern', (bound) => `Matches /${bound}/.`],
  ['minItems', (bound) => `At least ${bound} items.`],
  ['maxItems', (bound) => `At most ${bound} items.`],
  ['uniqueItems', () => 'No item twice.'],
  ['minProperties', (bound) => `At least ${bound} properties.`],
]);

/** The formats in words, of which some stand beside a pattern that says the same at more length. */
const FORMATS: ReadonlyMap<unknown, string> = new Map([
  ['uuid', 'A UUID.'],
  ['ipv4', 'An IPv4 address.'],
]);

function boundsInWords(keywords: JSONSchema7): readonly string[] {
  const format = FORMATS.get(keywords.format);
  if (format !== undefined) return [format];
  return Object.entries(keywords).flatMap(([keyword, bound]) => {
    const said = Array.isArray(bound) ? bound.map(String).join(', ') : String(bound);
    return BOUNDS.get(keyword)?.(said) ?? [];
  });
}

function join(combined: CombinedConstraints, next: ConstraintSchema): CombinedConstraints {
  if (combined === NO_CONSTRAINTS) {
    const { types, keywords, hint, exact, date = false } = next;
    return { types, keywords, hints: hint === undefined ? [] : [hint], exact, date };
  }
  const { keywords, clash } = joinKeywords(combined.keywords, next.keywords);
  return {
    types: commonTypes(combined.types, next.types),
    keywords,
    hints:
      next.hint === undefined && clash.length === 0
        ? combined.hints
        : [...combined.hints, ...[next.hint ?? []].flat(), ...clash],
    exact: combined.exact && next.exact && clash.length === 0,
    date: combined.date || next.date === true,
  };
}

/** Returns the types that two decorators have in common; an integer is a number. */
export function commonTypes(one: Types, other: Types): Types {
  if (!one || !other) return one ?? other;
  const narrowed = one.map((type) =>
    type === 'number' && other.includes('integer') ? 'integer' : type,
  );
  return narrowed.filter(
    (type) => other.includes(type) || (type === 'integer' && other.includes('number')),
  );
}

const TIGHTEST: Readonly<Record<string, (one: number, other: number) => number>> = {
  minimum: Math.max,
  exclusiveMinimum: Math.max,
  minLength: Math.max,
  minItems: Math.max,
  minProperties: Math.max,
  maximum: Math.min,
  exclusiveMaximum: Math.min,
  maxLength: Math.min,
  maxItems: Math.min,
};

/**
 * Joins keywords, of which a schema has each once: of two bounds the tighter one stays, of two
 * lists the common values, and a second pattern becomes a hint.
 */
function joinKeywords(
  one: JSONSchema7,
  other: JSONSchema7,
): { readonly keywords: JSONSchema7; readonly clash: readonly string[] } {
  // as most: they say a type and no more
  if (Object.keys(other).length === 0) return { keywords: one, clash: [] };
  const keywords = new Map<string, unknown>(Object.entries(one));
  const clash: string[] = [];
  for (const [keyword, value] of Object.entries(other)) {
    const present = keywords.get(keyword);
    const tightest = TIGHTEST[keyword];
    if (present === undefined || present === value) keywords.set(keyword, value);
    else if (tightest && typeof present === 'number' && typeof value === 'number')
      keywords.set(keyword, tightest(present, value));
    else if (keyword === 'enum') keywords.set(keyword, sharedValues(present, value));
    else clash.push(`Also ${keyword === 'pattern' ? 'matches' : keyword}: ${String(value)}.`);
  }
  return { keywords: Object.fromEntries(keywords), clash };
}

function sharedValues(one: unknown, other: unknown): unknown[] {
  return Array.isArray(one) && Array.isArray(other)
    ? one.filter((value) => other.includes(value))
    : [];
}

const KEYWORDS_OF: Readonly<Record<string, readonly string[]>> = {
  string: ['minLength', 'maxLength', 'pattern', 'format'],
  number: ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'],
  integer: ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'],
  array: ['minItems', 'maxItems', 'uniqueItems'],
  object: ['minProperties'],
};

/**
 * Makes a schema of these types with the keywords that apply to them. Values of an `enum` that have
 * other types are left out.
 */
export function typedSchema(
  types: readonly JSONSchema7TypeName[],
  keywords: JSONSchema7,
): JSONSchema7 {
  const isMeaningful = (keyword: string): boolean =>
    keyword === 'enum' || types.some((type) => KEYWORDS_OF[type]?.includes(keyword));
  const isWhole = Object.keys(keywords).every(isMeaningful);
  const kept: JSONSchema7 = isWhole
    ? keywords
    : Object.fromEntries(Object.entries(keywords).filter(([keyword]) => isMeaningful(keyword)));
  const type = types.length === 1 ? types[0] : [...types];
  return kept.enum
    ? { type, ...kept, enum: kept.enum.filter((value) => types.some((one) => hasType(value, one))) }
    : { type, ...kept };
}

function hasType(value: JSONSchema7Type, type: JSONSchema7TypeName): boolean {
  if (value === null) return type === 'null';
  if (type === 'integer') return Number.isInteger(value);
  return typeof value === type;
}
