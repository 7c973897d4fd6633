import type { ArgumentProblem } from '@toolloop/protocol';
import type { ErrorObject } from 'ajv';
import { closest, distance } from 'fastest-levenshtein';

/** Describes Ajv's errors so that a model can act on them; at most ten. */
export function argumentProblems(errors: readonly ErrorObject[]): ArgumentProblem[] {
  const decided = new Set(
    errors.filter(({ keyword }) => DECISIVE.has(keyword)).map(({ instancePath }) => instancePath),
  );
  const problems = new Map<string, ArgumentProblem>();
  for (const error of errors) {
    if (problems.size === MAX_PROBLEMS) break;
    if (REDUNDANT.has(error.keyword) && decided.has(error.instancePath)) continue;
    const problem = { pointer: pointerOf(error), message: messageOf(error) };
    problems.set(`${problem.pointer} ${problem.message}`, problem);
  }
  return [...problems.values()];
}

/**
 * The most problems that are reported: enough for a model to correct its call, few enough to fit
 * the conversation.
 */
const MAX_PROBLEMS = 10;
const MAX_LISTED = 20;

/**
 * The keywords beside which an error about the type or the pattern of the same value is redundant.
 */
const DECISIVE = new Set(['enum', 'const', 'format']);
const REDUNDANT = new Set(['type', 'pattern']);

/** Writes the part of a JSON pointer that names one key. */
export function pointerSegment(key: string | number): string {
  return `/${String(key).replaceAll('~', '~0').replaceAll('/', '~1')}`;
}

function pointerOf({ keyword, instancePath, params }: ErrorObject): string {
  if (keyword === 'required')
    return instancePath + pointerSegment(quoteValue(params['missingProperty']));
  if (keyword === 'additionalProperties')
    return instancePath + pointerSegment(quoteValue(params['additionalProperty']));
  return instancePath;
}

function messageOf(error: ErrorObject): string {
  const say = Object.hasOwn(MESSAGES, error.keyword) ? MESSAGES[error.keyword] : undefined;
  return say?.(error.schema, error) ?? error.message ?? 'is not valid';
}

function toNoun(type: unknown): string {
  if (type === 'null') return 'null';
  return `${type === 'integer' || type === 'object' || type === 'array' ? 'an' : 'a'} ${quoteValue(type)}`;
}

/** Describes an unknown argument with the closest known names, since it is most often misspelt. */
function unknownArgument({ params, parentSchema }: ErrorObject): string {
  const name = quoteValue(params['additionalProperty']).slice(0, 64);
  const properties: unknown = parentSchema?.['properties'];
  const known =
    typeof properties === 'object' && properties !== null ? Object.keys(properties) : [];
  if (known.length === 0) return `unknown argument "${name}"; there are none here`;
  const candidate = closest(name, known);
  const near =
    distance(name.toLowerCase(), candidate.toLowerCase()) <= Math.max(2, candidate.length / 3);
  return near
    ? `unknown argument "${name}"; did you mean "${candidate}"?`
    : `unknown argument "${name}"; known: ${joinValues(known)}`;
}

function joinValues(values: unknown): string {
  const all = Array.isArray(values) ? values : [];
  return all.length > MAX_LISTED
    ? `${all.slice(0, MAX_LISTED).map(quoteValue).join(', ')}, …`
    : all.map(quoteValue).join(', ');
}

function quoteValue(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function amount(count: unknown, one: string, many = `${one}s`): string {
  return `${quoteValue(count)} ${count === 1 ? one : many}`;
}

const FORMATS: Readonly<Record<string, string>> = {
  date: 'a date such as 2026-01-31',
  time: 'a time such as 09:30:00Z',
  'date-time': 'a date and time such as 2026-01-31T09:30:00Z',
  duration: 'a duration such as P1DT2H',
  email: 'an email address such as jo@example.com',
  uri: 'a URI such as https://example.com/path',
  uuid: 'a UUID such as 123e4567-e89b-42d3-a456-426614174000',
  ipv4: 'an IPv4 address such as 192.0.2.1',
  ipv6: 'an IPv6 address such as 2001:db8::1',
};

const MESSAGES: Readonly<Record<string, (limit: unknown, error: ErrorObject) => string>> = {
  type: (types) => `must be ${[types].flat().map(toNoun).join(' or ')}`,
  required: () => 'is required',
  additionalProperties: (_, error) => unknownArgument(error),
  enum: (values) => `must be one of: ${joinValues(values)}`,
  const: (value) => `must be ${quoteValue(value)}`,
  minimum: (limit) => `must be at least ${quoteValue(limit)}`,
  maximum: (limit) => `must be at most ${quoteValue(limit)}`,
  exclusiveMinimum: (limit) => `must be greater than ${quoteValue(limit)}`,
  exclusiveMaximum: (limit) => `must be less than ${quoteValue(limit)}`,
  multipleOf: (limit) => `must be a multiple of ${quoteValue(limit)}`,
  minLength: (limit) =>
    limit === 1 ? 'must not be empty' : `must be at least ${quoteValue(limit)} characters long`,
  maxLength: (limit) => `must be at most ${amount(limit, 'character')} long`,
  pattern: (pattern) => `must match the pattern ${quoteValue(pattern)}`,
  format: (format) => `must be ${FORMATS[quoteValue(format)] ?? `a valid ${quoteValue(format)}`}`,
  minItems: (limit) => `must have at least ${amount(limit, 'item')}`,
  maxItems: (limit) => `must have at most ${amount(limit, 'item')}`,
  uniqueItems: (_, { params }) =>
    `must not hold the same item twice: items ${quoteValue(params['j'])} and ${quoteValue(params['i'])} are equal`,
  minProperties: (limit) => `must have at least ${amount(limit, 'property', 'properties')}`,
  maxProperties: (limit) => `must have at most ${amount(limit, 'property', 'properties')}`,
};
