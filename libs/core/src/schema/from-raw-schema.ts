import type { JSONSchema7 } from 'json-schema';
import { toJson } from './from-value.js';
import { isRecord } from '../protocol/object.guards.js';
import { NAMED_SCHEMAS, ONE_SCHEMA } from './schema.subset.js';

/**
 * A JSON Schema from outside as one of ours: a copy without `$schema`, with `$defs` for the older `definitions`, and closed. An object that declares properties takes no others
 * unless it says `additionalProperties` itself; one that declares none stays free-form, but for the whole. Throws for what JSON cannot carry.
 */
export function closedSchema(source: object): JSONSchema7 {
  const json: unknown = toJson(source);
  if (!isRecord(json)) throw new TypeError('it is not a JSON object');
  const { $schema: _, definitions, $defs, ...whole } = json;
  const named = { ...(isRecord(definitions) && definitions), ...(isRecord($defs) && $defs) };
  const declared = whole['properties'] === undefined && { properties: {} };
  return closed({ ...whole, ...declared, ...(Object.keys(named).length > 0 && { $defs: named }) }) as JSONSchema7;
}

function closed(definition: unknown): unknown {
  if (!isRecord(definition)) return definition;
  const schema = Object.fromEntries(Object.entries(definition).map(([keyword, value]) => [keyword, closedWithin(keyword, value)]));
  const open = isRecord(schema['properties']) && schema['additionalProperties'] === undefined && schema['$ref'] === undefined;
  return open ? { ...schema, additionalProperties: false } : schema;
}

/** Values such as `default` and `enum` are data, and stay as they are. */
function closedWithin(keyword: string, value: unknown): unknown {
  if (ONE_SCHEMA.includes(keyword)) return closed(value);
  if (keyword === '$ref' && typeof value === 'string') return value.replace(/^#\/definitions\//, '#/$defs/');
  if (!NAMED_SCHEMAS.includes(keyword) || !isRecord(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, child]) => [name, closed(child)]));
}
