import { isWireObject, type WireObject, wireObjectsIn } from '@toolloop/wire';

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

/** What all the schemas of one request may hold together (https://platform.claude.com/docs/en/build-with-claude/structured-outputs#schema-complexity-limits). */
export class SchemaRoom {
  private optional = 0;
  private unions = 0;

  /** Whether the schema still goes into the request; then it is counted. */
  admit(schema: WireObject): boolean {
    const { optional, unions } = weightOf(schema);
    if (this.optional + optional > MOST_OPTIONAL || this.unions + unions > MOST_UNIONS) return false;
    this.optional += optional;
    this.unions += unions;
    return true;
  }
}

/** Whether the model can be held to the schema: every name in it is known beforehand, and it does not contain itself. */
export function isExpressible(schema: unknown): schema is WireObject {
  return isWireObject(schema) && schema.type === 'object' && isClosed(schema);
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

function weightOf(schema: WireObject): { readonly optional: number; readonly unions: number } {
  let [optional, unions] = [0, 0];
  const count = (part: WireObject): void => {
    const { properties, required, anyOf } = part;
    if (isWireObject(properties)) optional += Object.keys(properties).length - (Array.isArray(required) ? required.length : 0);
    if (anyOf !== undefined || typesOf(part).length > 1) unions += 1;
    [...partsOf(part), ...namedParts(part.$defs)].forEach(count);
  };
  count(schema);
  return { optional, unions };
}

/** The schema in the keywords the API knows. The others are told in the description: the loop checks the answer anyway. */
export function narrowed(schema: WireObject): WireObject {
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
