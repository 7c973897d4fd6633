import type { AnswerFormat } from '@toolloop/core';
import { isWireObject, type WireObject, wireObjectsIn } from '@toolloop/wire';

/** How a request says what form the answer must have: as `output_config.format`, or in words where that cannot express the schema. */
export interface OutputFormat {
  readonly format?: WireObject;
  readonly instruction?: string;
}

/** What structured outputs take as it is (https://platform.claude.com/docs/en/build-with-claude/structured-outputs#json-schema-limitations). */
const KNOWN_KEYWORDS = new Set(['type', 'title', 'description', 'enum', 'const', '$ref', 'required']);
const KNOWN_FORMATS = new Set<unknown>(['date-time', 'time', 'date', 'duration', 'email', 'hostname', 'uri', 'ipv4', 'ipv6', 'uuid']);
const REBUILDERS = new Map<string, (value: unknown) => unknown>([
  ['properties', narrowedValues],
  ['$defs', narrowedValues],
  ['items', narrowedPart],
  ['anyOf', (value) => wireObjectsIn(value).map(narrowed)],
  ['additionalProperties', () => false],
  ['format', (value) => (KNOWN_FORMATS.has(value) ? value : undefined)],
  ['minItems', (value) => (value === 0 || value === 1 ? value : undefined)],
]);
const MOST_OPTIONAL = 24;
const MOST_UNIONS = 16;

const encoded = new WeakMap<AnswerFormat, OutputFormat>();

export function toOutputFormat(answer: AnswerFormat): OutputFormat {
  const known = encoded.get(answer);
  if (known !== undefined) return known;
  const { schema } = answer;
  const isExpressible = isWireObject(schema) && schema.type === 'object' && isClosed(schema) && isWithinLimits(schema);
  const output = isExpressible ? { format: { type: 'json_schema', schema: narrowed(schema) } } : toInstruction(answer);
  encoded.set(answer, output);
  return output;
}

function toInstruction({ schema }: AnswerFormat): OutputFormat {
  const text = JSON.stringify(schema);
  return { instruction: `Give your final answer as one JSON object and nothing else. It must match this JSON Schema: ${text}` };
}

/** Objects with names nobody knows beforehand cannot be expressed, and nor can a schema that contains itself. */
function isClosed(schema: WireObject): boolean {
  const definitions = isWireObject(schema.$defs) ? schema.$defs : {};
  const hasEnd = (part: WireObject, above: readonly unknown[]): boolean => {
    const { $ref: reference } = part;
    const target = typeof reference === 'string' ? definitions[reference.replace('#/$defs/', '')] : undefined;
    if (isOpen(part) || above.includes(reference) || (reference !== undefined && target === undefined)) return false;
    const below = isWireObject(target) ? [target] : partsOf(part);
    const path = reference === undefined ? above : [...above, reference];
    return below.every((one) => hasEnd(one, path));
  };
  return hasEnd(schema, []);
}

function isOpen(schema: WireObject): boolean {
  const { properties, additionalProperties } = schema;
  if (!typesOf(schema).includes('object') || additionalProperties === false) return false;
  return additionalProperties !== undefined || properties === undefined;
}

function isWithinLimits(schema: WireObject): boolean {
  let [optional, unions] = [0, 0];
  const count = (part: WireObject): void => {
    const { properties, required, anyOf } = part;
    if (isWireObject(properties)) optional += Object.keys(properties).length - (Array.isArray(required) ? required.length : 0);
    if (anyOf !== undefined || typesOf(part).length > 1) unions += 1;
    [...partsOf(part), ...namedParts(part.$defs)].forEach(count);
  };
  count(schema);
  return optional <= MOST_OPTIONAL && unions <= MOST_UNIONS;
}

/** The schema in the keywords the API knows. The others are told in the description: the loop checks the answer anyway. */
function narrowed(schema: WireObject): WireObject {
  const types = typesOf(schema);
  if (types.length > 1 && types.includes('object')) return narrowed(asAlternatives(schema, types));
  const told: Record<string, unknown> = {};
  const untold: string[] = [];
  for (const [keyword, value] of Object.entries(schema)) {
    const rebuilt = rebuild(keyword, value);
    if (rebuilt === undefined) untold.push(`${keyword}: ${JSON.stringify(value)}`);
    else told[keyword] = rebuilt;
  }
  if (schema.type === 'object') told.additionalProperties = false;
  if (untold.length > 0) told.description = [schema.description, ...untold].filter(Boolean).join('; ');
  return told;
}

/** How a keyword is said to the API; undefined for what it does not know. */
function rebuild(keyword: string, value: unknown): unknown {
  const own = REBUILDERS.get(keyword);
  if (own !== undefined) return own(value);
  return KNOWN_KEYWORDS.has(keyword) ? value : undefined;
}

function narrowedValues(value: unknown): WireObject {
  return isWireObject(value) ? Object.fromEntries(Object.entries(value).map(([name, part]) => [name, narrowedPart(part)])) : {};
}

function narrowedPart(part: unknown): unknown {
  return isWireObject(part) ? narrowed(part) : part;
}

/** An object or null: a list of types may hold only simple ones. */
function asAlternatives({ description, $defs, ...rest }: WireObject, types: readonly unknown[]): WireObject {
  const anyOf = types.map((type) => (type === 'object' ? { ...rest, type } : { type }));
  return { ...(description !== undefined && { description }), ...($defs !== undefined && { $defs }), anyOf };
}

function typesOf({ type }: WireObject): readonly unknown[] {
  return Array.isArray(type) ? type : [type];
}

function partsOf({ properties, items, anyOf }: WireObject): readonly WireObject[] {
  return [...namedParts(properties), ...wireObjectsIn(anyOf), ...(isWireObject(items) ? [items] : [])];
}

function namedParts(value: unknown): readonly WireObject[] {
  return isWireObject(value) ? wireObjectsIn(Object.values(value)) : [];
}
