import { createHash } from 'node:crypto';
import type { AnswerFormat, ContentPart, ToolCall, ToolSpec } from '@toolloop/protocol';
import { EncodedOnce, isWireObject, type WireObject } from '@toolloop/wire';

/**
 * The keywords of strict mode (https://platform.openai.com/docs/guides/structured-outputs#supported-schemas). Any other keyword fails the whole
 * request, so such a schema is sent without `strict`: the loop checks the arguments anyway.
 */
const STRICT_KEYWORDS = new Set(
  (
    'type title description enum const properties required additionalProperties items anyOf $ref $defs definitions pattern format ' +
    'multipleOf minimum maximum exclusiveMinimum exclusiveMaximum minItems maxItems'
  ).split(' '),
);

const STRICT_FORMATS = new Set(['date-time', 'time', 'date', 'duration', 'email', 'hostname', 'ipv4', 'ipv6', 'uuid']);

/** The deepest nesting that strict mode accepts. */
const STRICT_DEPTH = 10;

/** The limits of strict mode for a schema as a whole. */
const STRICT_PROPERTIES = 5_000;
const STRICT_CHARACTERS = 120_000;
const STRICT_VALUES = 1_000;

/** The number of values in a list above which its characters are limited, too. */
const LONG_LIST = 250;
const LONG_LIST_CHARACTERS = 15_000;

const encoded = new EncodedOnce<AnswerFormat>();

/** Writes the format of an answer as the JSON text that both APIs have in common. */
export function toJsonSchemaFormat(format: AnswerFormat): string {
  const { name, schema } = format;
  return encoded.text(format, '', () => JSON.stringify({ name, schema, strict: isStrictSchema(schema) }));
}

/** Tells whether strict mode accepts a schema. It does not where a property is optional or an object is open. */
export function isStrictSchema(schema: AnswerFormat['schema']): boolean {
  return schema.type === 'object' && isStrict(schema, STRICT_DEPTH) && isWithinLimits(schema);
}

function isWithinLimits(schema: unknown): boolean {
  let [properties, characters, values] = [0, 0, 0];
  const count = (part: unknown): boolean => {
    if (!isWireObject(part)) return true;
    const list = valuesOf(part);
    const names = [part.$defs, part.definitions].filter(isWireObject).flatMap((parts) => Object.keys(parts));
    const own = isWireObject(part.properties) ? Object.keys(part.properties) : [];
    properties += own.length;
    values += Array.isArray(part.enum) ? list.length : 0;
    characters += sumLengths([...own, ...names, ...list]);
    return (list.length <= LONG_LIST || sumLengths(list) <= LONG_LIST_CHARACTERS) && subschemasOf(part).every(count);
  };
  return count(schema) && properties <= STRICT_PROPERTIES && characters <= STRICT_CHARACTERS && values <= STRICT_VALUES;
}

function valuesOf({ enum: list, const: constant }: WireObject): readonly unknown[] {
  return Array.isArray(list) ? list : constant === undefined ? [] : [constant];
}

function sumLengths(values: readonly unknown[]): number {
  return values.reduce<number>((sum, value) => sum + (typeof value === 'string' ? value.length : 0), 0);
}

function isStrict(schema: unknown, depth: number): boolean {
  if (!isWireObject(schema) || depth === 0 || !isExpressible(schema)) return false;
  return isClosed(schema) && subschemasOf(schema).every((subschema) => isStrict(subschema, depth - 1));
}

/** Tells whether strict mode knows every keyword of a schema: each type is named, a pattern has no look-around, and a reference stands alone. */
function isExpressible(schema: WireObject): boolean {
  const { type, $ref, anyOf, enum: values, const: constant, items, format, pattern } = schema;
  const keywords = Object.keys(schema);
  if (!keywords.every((keyword) => STRICT_KEYWORDS.has(keyword))) return false;
  if ($ref !== undefined) return keywords.length === 1;
  if ([type, anyOf, values, constant].every((value) => value === undefined)) return false;
  if (isOf(type, 'array') && items === undefined) return false;
  return (typeof format !== 'string' || STRICT_FORMATS.has(format)) && (typeof pattern !== 'string' || !pattern.includes('(?'));
}

function isOf(type: unknown, name: string): boolean {
  return type === name || (Array.isArray(type) && type.includes(name));
}

/** Tells whether an object names all its properties, requires all of them and allows no others. */
function isClosed({ type, properties, required, additionalProperties }: WireObject): boolean {
  if (!isOf(type, 'object') && properties === undefined) return true;
  const names = isWireObject(properties) ? Object.keys(properties) : [];
  const wanted = new Set<unknown>(Array.isArray(required) ? required : []);
  return additionalProperties === false && names.every((name) => wanted.has(name));
}

function subschemasOf({ properties, items, anyOf, $defs, definitions }: WireObject): readonly unknown[] {
  const alternatives: readonly unknown[] = Array.isArray(anyOf) ? anyOf : [];
  const named = [properties, $defs, definitions].filter(isWireObject).flatMap((schemas) => Object.values(schemas));
  return [...named, ...alternatives, ...(items === undefined ? [] : [items])];
}

/**
 * Writes tools in the format of one API. Labels, effect and the like stay here: the model sees description and input schema. An unchanged
 * toolset costs nothing, and one that grew keeps the bytes of its earlier tools.
 */
export class ToolEncoder {
  private readonly tools = new EncodedOnce<ToolSpec>();
  private readonly toolsets = new EncodedOnce<readonly ToolSpec[]>();

  constructor(private readonly toTool: (spec: ToolSpec) => object) {}

  /** Writes the tools as JSON texts, with commas between them. */
  toJson(specs: readonly ToolSpec[]): string {
    return this.toolsets.text(specs, '', () => specs.map((spec) => this.toolJson(spec)).join(','));
  }

  private toolJson(spec: ToolSpec): string {
    return this.tools.text(spec, '', () => JSON.stringify(this.toTool(spec)));
  }
}

const NONE: ReadonlyMap<string, string> = new Map();

/**
 * Maps the call ids of one message to the provider's, where these differ. Where the provider gave two calls the same id, the second keeps its own:
 * a result has to find its call. Ids longer than `most` characters are shortened: OpenAI refuses them, and vLLM, for example, makes longer ones.
 */
export function wireIdsOf(calls: readonly ToolCall[] | undefined, most: number): ReadonlyMap<string, string> {
  if (calls === undefined || calls.every((call) => call.providerCallId === undefined && call.toolCallId.length <= most)) return NONE;
  const ids = new Map<string, string>();
  const taken = new Set<string>();
  for (const { toolCallId, providerCallId } of calls) {
    const id = shortened(providerCallId === undefined || taken.has(providerCallId) ? toolCallId : providerCallId, most);
    taken.add(id);
    ids.set(toolCallId, id);
  }
  return ids;
}

function shortened(id: string, most: number): string {
  return id.length <= most ? id : `call_${createHash('sha256').update(id).digest('hex').slice(0, 32)}`;
}

/** Returns the name of a file, which providers require; made from its media type where it has none. */
export function fileName({ name, mediaType }: Extract<ContentPart, { readonly type: 'file' }>): string {
  return name ?? `file.${/^[^/]+\/([a-z0-9]+)/.exec(mediaType)?.[1] ?? 'bin'}`;
}
