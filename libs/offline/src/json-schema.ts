import type { ToolSpec } from '@toolloop/core';
import type { JsonValue } from '@toolloop/protocol';
import { Ajv, type ValidateFunction } from 'ajv';
import ajvFormats from 'ajv-formats';

export type Schema = ToolSpec['inputSchema'];
export type SchemaNode = Schema | boolean | undefined;

/** The schema a local `$ref` leads to; `false` when it leads nowhere. */
export function resolved(node: SchemaNode = true, root: Schema, depth = 0): Schema | boolean {
  if (typeof node === 'boolean' || node.$ref === undefined) return node;
  let found: unknown = node.$ref.startsWith('#') && depth < 8 ? root : undefined;
  for (const part of node.$ref.split('/').slice(1))
    found = isSchema(found) ? found[part] : undefined;
  return isSchema(found) ? resolved(found, root, depth + 1) : false;
}

function isSchema(value: unknown): value is Schema & Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A schema's type; of several the first that is not null. */
export function typeOf({ type, properties }: Schema): string | undefined {
  return [type ?? []].flat().find((one) => one !== 'null') ?? (properties && 'object');
}

const ajv = new Ajv({
  strict: false,
  ownProperties: true,
  validateSchema: false,
  addUsedSchema: false,
  logger: false,
});
ajvFormats.default(ajv);
/** Compiled once per schema object: the toolset of a run keeps its schemas from step to step. */
const compiled = new WeakMap<Schema, ValidateFunction | undefined>();

/**
 * Tells whether a value satisfies a schema; one that does not compile accepts nothing, so that
 * nothing wrong is ever sent.
 */
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
