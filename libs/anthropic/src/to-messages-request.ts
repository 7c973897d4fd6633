import type {
  AnswerFormat,
  ModelOptions,
  ModelRequest,
  ToolChoice,
  ToolSpec,
} from '@toolloop/protocol';
import {
  isWireObject,
  listOf,
  RequestBody,
  ToolEncoder,
  type WireObject,
  wireObjectsIn,
} from '@toolloop/wire';
import { type AnthropicTarget, marked, serverAt } from './anthropic-options.js';
import { habitsOf } from './server-habits.js';
import { conversationFor, type Reader, toTextBlock } from './to-conversation.js';

/**
 * Writes the body of `POST /v1/messages` as JSON text, also for an application that sends the
 * request itself.
 */
export function toMessagesRequest(request: ModelRequest, target: AnthropicTarget): string {
  const { model, baseURL } = target;
  const server = serverAt(baseURL);
  return messagesBody(request, target, { model, server, habits: habitsOf(server) }).toJson();
}

/**
 * Writes the body of `POST /v1/messages`. It is made of parts that are encoded once and known by
 * identity: an unchanged tool or message costs no work in the next step and gives the same bytes,
 * which the provider's prompt cache needs. Four places are marked for that cache, as many as the
 * API accepts: the last tool, the end of the instructions, and the last two turns of the user, of
 * which one was the last in the step before.
 */
export function messagesBody(
  request: ModelRequest,
  target: AnthropicTarget,
  reader: Reader,
): RequestBody {
  const { instructions, messages, answerFormat, options = {} } = request;
  const { promptCache = '5m', maxTokens = 16_000, parallelToolCalls = true } = target;
  const conversation = conversationFor(messages, reader);
  const output = answerFormat === undefined ? {} : toOutputFormat(answerFormat);
  const system = [...conversation.system(instructions), ...toInstructionBlocks(output)];
  const tools = toTools(request.tools, target.serverTools ?? [], target.strictTools);
  const body = new RequestBody();
  body.setAll({ model: target.model, max_tokens: options.maxOutputTokens ?? maxTokens });
  body.setJson('stream', 'true');
  body.setJson('messages', ...conversation.messages(promptCache));
  if (tools.length > 0) {
    body.setJson('tools', ...listOf(marked(tools, promptCache)));
    body.setAll({ tool_choice: toToolChoice(request.toolChoice, parallelToolCalls) });
  }
  if (system.length > 0) body.setJson('system', ...listOf(marked(system, promptCache)));
  body.setAll({ container: conversation.container });
  setOptions(body, options, target, output);
  return body;
}

function toInstructionBlocks({ instruction }: OutputFormat): readonly Uint8Array[] {
  return instruction === undefined ? [] : [Buffer.from(toTextBlock(instruction))];
}

function setOptions(
  body: RequestBody,
  options: ModelOptions,
  target: AnthropicTarget,
  { format }: OutputFormat,
): void {
  const { output_config: theirs, ...provider } = options.provider ?? {};
  const config = { effort: target.effort, format, ...(isWireObject(theirs) && theirs) };
  body.setAll({
    stop_sequences: options.stopSequences,
    thinking: target.thinking,
    ...(Object.values(config).some((value) => value !== undefined) && { output_config: config }),
    // Later versions refuse them.
    ...(target.apiVersion === '2023-06-01' && {
      temperature: options.temperature,
      top_p: options.topP,
    }),
  });
  body.merge(provider);
}

/** The most strict tools that one request may have. */
const MOST_STRICT = 20;

const encodedTools = new ToolEncoder(toTool);
const encodedStrictly = new ToolEncoder(toStrictTool);
const strictToolsets = new WeakMap<readonly ToolSpec[], Uint8Array>();

/**
 * Writes the tools of a request, each with a comma before it. The provider's own come first, since
 * the application's may grow in number. With `strict` the model is held to the schemas of the first
 * tools that allow it, as many as one request may have.
 */
function toTools(
  tools: readonly ToolSpec[],
  serverTools: readonly WireObject[],
  isStrict = false,
): readonly Uint8Array[] {
  const theirs = serverTools.map((tool) => Buffer.from(`,${JSON.stringify(tool)}`));
  if (!isStrict || tools.length === 0) return [...theirs, ...encodedTools.toItems(tools)];
  const strict = strictToolsets.get(tools) ?? toStrictTools(tools);
  strictToolsets.set(tools, strict);
  return [...theirs, strict];
}

/** Writes the tool choice; undefined where it is the provider's own default. */
export function toToolChoice(
  choice: ToolChoice | undefined,
  parallelToolCalls: boolean,
): object | undefined {
  if (choice === 'none') return { type: 'none' };
  if (choice === undefined && parallelToolCalls) return undefined;
  const single = !parallelToolCalls && { disable_parallel_tool_use: true };
  if (typeof choice === 'object') return { type: 'tool', name: choice.tool, ...single };
  return { type: choice === 'required' ? 'any' : 'auto', ...single };
}

function toStrictTools(tools: readonly ToolSpec[]): Uint8Array {
  const room = new SchemaRoom();
  let strict = 0;
  const items = tools.map((spec) => {
    const isStrict =
      strict < MOST_STRICT && isExpressible(spec.inputSchema) && room.admit(spec.inputSchema);
    if (isStrict) strict += 1;
    return (isStrict ? encodedStrictly : encodedTools).toItem(spec);
  });
  return Buffer.concat(items);
}

/**
 * Writes a tool. Labels, effect and the like stay here: the model sees description and input
 * schema.
 */
function toTool({ id: name, description, inputSchema }: ToolSpec): object {
  return { name, description, input_schema: inputSchema };
}

function toStrictTool({ id: name, description, inputSchema }: ToolSpec): object {
  return { name, description, strict: true, input_schema: narrowed({ ...inputSchema }) };
}

/**
 * The form of an answer in a request: as `output_config.format`, or in words where that cannot
 * express the schema.
 */
export interface OutputFormat {
  readonly format?: WireObject;
  readonly instruction?: string;
}

const encoded = new WeakMap<AnswerFormat, OutputFormat>();

export function toOutputFormat(answer: AnswerFormat): OutputFormat {
  const known = encoded.get(answer);
  if (known !== undefined) return known;
  const { schema } = answer;
  const isTaken = isExpressible(schema) && new SchemaRoom().admit(schema);
  const output = isTaken
    ? { format: { type: 'json_schema', schema: narrowed(schema) } }
    : toInstruction(answer);
  encoded.set(answer, output);
  return output;
}

function toInstruction({ schema }: AnswerFormat): OutputFormat {
  const text = JSON.stringify(schema);
  return {
    instruction: `Give your final answer as one JSON object and nothing else. It must match this JSON Schema: ${text}`,
  };
}

/**
 * The keywords that structured outputs accept as they are
 * (https://platform.claude.com/docs/en/build-with-claude/structured-outputs#json-schema-limitations).
 */
const KNOWN_KEYWORDS = new Set([
  'type',
  'title',
  'description',
  'enum',
  'const',
  '$ref',
  'required',
]);
const KNOWN_FORMATS = new Set<unknown>([
  'date-time',
  'time',
  'date',
  'duration',
  'email',
  'hostname',
  'uri',
  'ipv4',
  'ipv6',
  'uuid',
]);

function narrowedValues(value: unknown): WireObject {
  return isWireObject(value)
    ? Object.fromEntries(Object.entries(value).map(([name, part]) => [name, narrowedPart(part)]))
    : {};
}

function narrowedPart(part: unknown): unknown {
  return isWireObject(part) ? narrowed(part) : part;
}

/**
 * Reduces a schema to the keywords that the API knows. The others are added to the description: the
 * loop checks the answer anyway.
 */
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
  if (untold.length > 0)
    told.description = [schema.description, ...untold].filter(Boolean).join('; ');
  return told;
}

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

/**
 * The room that the limits leave for the schemas of one request together
 * (https://platform.claude.com/docs/en/build-with-claude/structured-outputs#schema-complexity-limits).
 */
export class SchemaRoom {
  private optional = 0;
  private unions = 0;

  /** Counts a schema if it still fits into the request, and tells whether it does. */
  admit(schema: WireObject): boolean {
    const { optional, unions } = weightOf(schema);
    if (this.optional + optional > MOST_OPTIONAL || this.unions + unions > MOST_UNIONS)
      return false;
    this.optional += optional;
    this.unions += unions;
    return true;
  }
}

/**
 * Tells whether the model can be held to a schema: every name in it is known beforehand, and it
 * does not contain itself.
 */
export function isExpressible(schema: unknown): schema is WireObject {
  return isWireObject(schema) && schema.type === 'object' && isClosed(schema);
}

/** Tells whether a schema has no objects with unknown names and does not contain itself. */
function isClosed(schema: WireObject): boolean {
  const definitions = isWireObject(schema.$defs) ? schema.$defs : {};
  const hasEnd = (part: WireObject, above: readonly unknown[]): boolean => {
    const { $ref: reference } = part;
    const target =
      typeof reference === 'string' ? definitions[reference.replace('#/$defs/', '')] : undefined;
    if (
      isOpen(part) ||
      above.includes(reference) ||
      (reference !== undefined && target === undefined)
    )
      return false;
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
    if (isWireObject(properties))
      optional += Object.keys(properties).length - (Array.isArray(required) ? required.length : 0);
    if (anyOf !== undefined || typesOf(part).length > 1) unions += 1;
    [...partsOf(part), ...namedParts(part.$defs)].forEach(count);
  };
  count(schema);
  return { optional, unions };
}

/** Rewrites the value of a keyword for the API; undefined for a keyword that it does not know. */
function rebuild(keyword: string, value: unknown): unknown {
  const own = REBUILDERS.get(keyword);
  if (own !== undefined) return own(value);
  return KNOWN_KEYWORDS.has(keyword) ? value : undefined;
}

/**
 * Rewrites a list of types as alternatives, e.g. of an object and null: such a list may hold simple
 * types only.
 */
function asAlternatives(
  { description, $defs, ...rest }: WireObject,
  types: readonly unknown[],
): WireObject {
  const anyOf = types.map((type) => (type === 'object' ? { ...rest, type } : { type }));
  return {
    ...(description !== undefined && { description }),
    ...($defs !== undefined && { $defs }),
    anyOf,
  };
}

function typesOf({ type }: WireObject): readonly unknown[] {
  return Array.isArray(type) ? type : [type];
}

function partsOf({ properties, items, anyOf }: WireObject): readonly WireObject[] {
  return [
    ...namedParts(properties),
    ...wireObjectsIn(anyOf),
    ...(isWireObject(items) ? [items] : []),
  ];
}

function namedParts(value: unknown): readonly WireObject[] {
  return isWireObject(value) ? wireObjectsIn(Object.values(value)) : [];
}
