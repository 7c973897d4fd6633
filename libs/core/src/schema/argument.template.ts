import type { JSONSchema7 } from 'json-schema';
import type { JsonObject, JsonValue } from '../protocol/json.js';

const FIELD = /\{([^{}]*)\}/g;

/** The arguments that a template names, each once: `{orderId}`. */
export function fieldsIn(template: string): readonly string[] {
  return [...new Set([...template.matchAll(FIELD)].map(([, name = '']) => name))];
}

/** The template with the arguments in it. */
export function rendered(template: string, args: JsonObject): string {
  return template.replaceAll(FIELD, (_, name: string) => textOf(args[name]));
}

function textOf(value: JsonValue | undefined): string {
  return typeof value === 'string' ? value : value === undefined || value === null ? '' : JSON.stringify(value);
}

/** What keeps an argument from standing in a template; undefined where it may. */
export function problemWithField(name: string, schema: JSONSchema7, hidden: readonly string[]): string | undefined {
  const property = Object.hasOwn(schema.properties ?? {}, name) ? schema.properties?.[name] : undefined;
  if (typeof property !== 'object') return 'the tool has no such argument';
  if (hidden.includes(name)) return 'the argument is hidden from the ui, where this is shown';
  if ([property.type].flat().some((type) => type === 'object' || type === 'array'))
    return 'the argument is not a string, number or boolean';
  const isAlwaysThere = schema.required?.includes(name) === true || property.default !== undefined;
  return isAlwaysThere ? undefined : 'a call may leave the argument out';
}
