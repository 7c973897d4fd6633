import type { ToolSpec } from '@toolloop/core';
import type { JsonValue } from '@toolloop/protocol';
import { Ajv, type ValidateFunction } from 'ajv';
import ajvFormats from 'ajv-formats';

/** A JSON Schema as a tool carries it. */
export type Schema = ToolSpec['inputSchema'];
export type SchemaNode = Schema | boolean | undefined;

export function isScalar(value: JsonValue | undefined): value is string | number | boolean {
  return value !== undefined && value !== null && typeof value !== 'object';
}

function isJson(value: unknown): value is JsonValue {
  if (typeof value === 'object' && value !== null) return Object.values(value).every(isJson);
  return value === null || typeof value === 'string' || typeof value === 'boolean' || Number.isFinite(value);
}

/** The JSON a text holds; undefined when it holds none. */
export function parseJson(text: string): JsonValue | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isJson(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** A value as text: a string as it is, anything else as JSON. */
export function plainText(value: JsonValue): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** The schema a local `$ref` leads to; `false` when it leads nowhere. */
export function resolved(node: SchemaNode = true, root: Schema, depth = 0): Schema | boolean {
  if (typeof node === 'boolean' || node.$ref === undefined) return node;
  let found: unknown = node.$ref.startsWith('#') && depth < 8 ? root : undefined;
  for (const part of node.$ref.split('/').slice(1)) found = isSchema(found) ? found[part] : undefined;
  return isSchema(found) ? resolved(found, root, depth + 1) : false;
}

function isSchema(value: unknown): value is Schema & Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A schema's type; of several the first that is not null. */
export function typeOf({ type, properties }: Schema): string | undefined {
  return [type ?? []].flat().find((one) => one !== 'null') ?? (properties && 'object');
}

const ajv = new Ajv({ strict: false, ownProperties: true, validateSchema: false, addUsedSchema: false, logger: false });
ajvFormats.default(ajv);
/** Compiled once per schema object: the toolset of a run keeps its schemas from step to step. */
const compiled = new WeakMap<Schema, ValidateFunction | undefined>();

/** Tells whether a value satisfies a schema; one that does not compile accepts nothing, so that nothing wrong is ever sent. */
export function accepts(node: SchemaNode, value: JsonValue, root: Schema): boolean {
  const schema = resolved(node, root);
  if (typeof schema === 'boolean') return schema;
  if (!compiled.has(schema)) compiled.set(schema, compile(schema, root));
  return compiled.get(schema)?.(value) === true;
}

function compile(schema: Schema, { $defs, definitions }: Schema): ValidateFunction | undefined {
  const whole = { ...schema, ...($defs && { $defs }), ...(definitions && { definitions }) };
  try {
    return ajv.compile(whole);
  } catch {
    return undefined;
  } finally {
    ajv.removeSchema(whole); // or Ajv would keep every schema of every run
  }
}
