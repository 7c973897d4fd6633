import { createHash } from 'node:crypto';
import type { AnswerFormat, ContentPart, ToolCall, ToolSpec } from '@toolloop/protocol';
import { EncodedOnce, isWireObject, type WireObject } from '@toolloop/wire';

/**
 * Keywords strict mode knows (https://platform.openai.com/docs/guides/structured-outputs#supported-schemas). One it does not know fails the whole
 * request, so such a schema is sent without strictness: the loop checks what comes anyway.
 */
const STRICT_KEYWORDS = new Set(
  (
    'type title description enum const properties required additionalProperties items anyOf $ref $defs definitions pattern format ' +
    'multipleOf minimum maximum exclusiveMinimum exclusiveMaximum minItems maxItems'
  ).split(' '),
);

const STRICT_FORMATS = new Set(['date-time', 'time', 'date', 'duration', 'email', 'hostname', 'ipv4', 'ipv6', 'uuid']);

/** Levels of nesting strict mode accepts. */
const STRICT_DEPTH = 10;

/** What strict mode accepts of one schema, in all of it together. */
const STRICT_PROPERTIES = 5_000;
const STRICT_CHARACTERS = 120_000;
const STRICT_VALUES = 1_000;

/** Values of one list behind which the characters in it are counted, too. */
const LONG_LIST = 250;
const LONG_LIST_CHARACTERS = 15_000;

const encoded = new EncodedOnce<AnswerFormat>();

/** What an answer has to look like, as the JSON text that both APIs have in common. */
export function toJsonSchemaFormat(format: AnswerFormat): string {
  const { name, schema } = format;
  return encoded.text(format, '', () => JSON.stringify({ name, schema, strict: isStrictSchema(schema) }));
}

/** Whether the provider can hold the model to a schema to the letter. It cannot where a property is optional or an object open. */
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
    characters += lengthOf([...own, ...names, ...list]);
    return (list.length <= LONG_LIST || lengthOf(list) <= LONG_LIST_CHARACTERS) && subschemasOf(part).every(count);
  };
  return count(schema) && properties <= STRICT_PROPERTIES && characters <= STRICT_CHARACTERS && values <= STRICT_VALUES;
}

function valuesOf({ enum: list, const: constant }: WireObject): readonly unknown[] {
  return Array.isArray(list) ? list : constant === undefined ? [] : [constant];
}

function lengthOf(values: readonly unknown[]): number {
  return values.reduce<number>((sum, value) => sum + (typeof value === 'string' ? value.length : 0), 0);
}

function isStrict(schema: unknown, depth: number): boolean {
  if (!isWireObject(schema) || depth === 0 || !isExpressible(schema)) return false;
  return isClosed(schema) && subschemasOf(schema).every((subschema) => isStrict(subschema, depth - 1));
}

/** Strict mode wants to know every type, and no look-around in a pattern; a reference stands alone. */
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

/** Every object names all its properties, requires all of them and allows no other. */
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
 * Writes tools in the words of one API. Labels, effect and the like are ours: the model is told what a tool does and what it takes. An unchanged
 * toolset costs nothing, and one that grew keeps the bytes of its earlier tools.
 */
export class ToolEncoder {
  private readonly tools = new EncodedOnce<ToolSpec>();
  private readonly toolsets = new EncodedOnce<readonly ToolSpec[]>();

  constructor(private readonly toTool: (spec: ToolSpec) => object) {}

  /** The tools as JSON texts, with commas between them. */
  toJson(specs: readonly ToolSpec[]): string {
    return this.toolsets.text(specs, '', () => specs.map((spec) => this.toolJson(spec)).join(','));
  }

  private toolJson(spec: ToolSpec): string {
    return this.tools.text(spec, '', () => JSON.stringify(this.toTool(spec)));
  }
}

const NONE: ReadonlyMap<string, string> = new Map();

/**
 * The ids a provider knows the calls of one message by, where they differ from ours. Where it gave two calls the same id, the second goes by ours:
 * a result has to find its call. OpenAI takes ids of at most so many characters, and vLLM for one makes longer ones.
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

/** A file's name, which providers ask for; where it has none, one with the ending its media type suggests. */
export function fileName({ name, mediaType }: Extract<ContentPart, { readonly type: 'file' }>): string {
  return name ?? `file.${/^[^/]+\/([a-z0-9]+)/.exec(mediaType)?.[1] ?? 'bin'}`;
}
