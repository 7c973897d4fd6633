import type { JsonValue } from '@toolloop/protocol';
import type { JSONSchema7 } from 'json-schema';

/**
 * Returns the bits that a value of a schema can tell: of one of listed values, a boolean, a whole
 * number between bounds, a date or a time. Undefined for everything else, which is text.
 */
export function capacityOf(value: JsonValue, schema: JSONSchema7): number | undefined {
  const listed = listedIn(schema);
  if (listed) return listed.includes(value) ? Math.log2(listed.length) : undefined;
  const range = rangeIn(schema);
  if (range && value !== null) return bitsWithin(value, range);
  if (!isClosed(schema)) return undefined;
  if (value === null || typeof value === 'boolean') return 1;
  if (typeof value === 'number') return numberBits(schema);
  return typeof value === 'string' ? timeBits(value, schema.format) : undefined;
}

/**
 * The keyword of a value that is one of these as far as its writer keeps to them: unlike `enum` it
 * refuses no other, which then counts as text.
 */
export const VALUES_KEYWORD = 'x-toolloop-values';

/**
 * The keyword of a number that is a whole one between two others, as far as its writer keeps to
 * them: unlike `minimum` and `maximum` it refuses no other, which then counts as text.
 */
export const RANGE_KEYWORD = 'x-toolloop-range';

/** Tells whether a schema lets no text through, and no number that could hold one. */
export function isClosed(schema: JSONSchema7): boolean {
  const { type, format } = schema;
  if (listedIn(schema) !== undefined || rangeIn(schema) !== undefined) return true;
  const [only, ...others] = [type ?? []].flat().filter((one) => one !== 'null');
  if (others.length > 0) return false;
  if (only === 'string') return isTimeFormat(format);
  return (
    only === 'boolean' ||
    ((only === 'number' || only === 'integer') && numberBits(schema) !== undefined)
  );
}

function listedIn(schema: JSONSchema7): readonly unknown[] | undefined {
  const { enum: values, const: only } = schema;
  const known: unknown = Reflect.get(schema, VALUES_KEYWORD);
  return (
    values ??
    (only === undefined ? undefined : [only]) ??
    (Array.isArray(known) ? known : undefined)
  );
}

/** The most bits of a number that counts as a number; a wider one could hold a message. */
const MOST_NUMBER_BITS = 20;

type Range = readonly [least: number, most: number];

/** Returns the range of a schema, if a number within counts as one. */
function rangeIn(schema: JSONSchema7): Range | undefined {
  const range: unknown = Reflect.get(schema, RANGE_KEYWORD);
  const [least, most] = Array.isArray(range) ? range.map(Number) : [];
  if (least === undefined || most === undefined) return undefined;
  return bitsOf([least, most]) <= MOST_NUMBER_BITS ? [least, most] : undefined;
}

function bitsWithin(value: JsonValue, [least, most]: Range): number | undefined {
  const isWithin = Number.isInteger(value) && Number(value) >= least && Number(value) <= most;
  return isWithin ? bitsOf([least, most]) : undefined;
}

function bitsOf([least, most]: Range): number {
  return Math.log2(Math.max(1, Math.floor(most) - Math.ceil(least) + 1));
}

function numberBits({ type, minimum, maximum, multipleOf }: JSONSchema7): number | undefined {
  if (minimum === undefined || maximum === undefined) return undefined;
  const isWhole = [type ?? []].flat().every((one) => one === 'integer' || one === 'null');
  const step = multipleOf ?? (isWhole ? 1 : undefined);
  const bits =
    step === undefined ? Infinity : Math.log2(Math.floor((maximum - minimum) / step) + 1);
  return bits <= MOST_NUMBER_BITS ? bits : undefined;
}

/** Days of ten thousand years, seconds of a day, and the zones that there are. */
const DATE_BITS = Math.log2(3_660_000);
const CLOCK_BITS = Math.log2(86_400);
const ZONE_BITS = Math.log2(2 * 60 * 24);
const DIGIT_BITS = Math.log2(10);
const DATE = String.raw`\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])`;
const HOUR = String.raw`(?:[01]\d|2[0-3])`;
const CLOCK = String.raw`${HOUR}:[0-5]\d(?::[0-5]\d)?(?<fraction>\.\d{1,9})?(?<zone>Z|[+-]${HOUR}:?[0-5]\d)?`;
const TIMES = {
  date: new RegExp(`^${DATE}$`),
  time: new RegExp(`^${CLOCK}$`),
  'date-time': new RegExp(`^${DATE}T${CLOCK}$`),
} as const;

/** The format of a schema is no proof: only a text that is a date counts as one. */
function timeBits(text: string, format: string | undefined): number | undefined {
  const found = isTimeFormat(format) ? TIMES[format].exec(text) : null;
  if (!found) return undefined;
  if (format === 'date') return DATE_BITS;
  const { fraction = '', zone = 'Z' } = found.groups ?? {};
  const clock =
    CLOCK_BITS + DIGIT_BITS * fraction.replace('.', '').length + (zone === 'Z' ? 0 : ZONE_BITS);
  return format === 'time' ? clock : DATE_BITS + clock;
}

function isTimeFormat(format: string | undefined): format is keyof typeof TIMES {
  return format !== undefined && Object.hasOwn(TIMES, format);
}
