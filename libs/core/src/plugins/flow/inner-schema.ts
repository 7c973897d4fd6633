import type { JSONSchema7, JSONSchema7Definition } from 'json-schema';

/** Reads the schema of a property; one that lets everything through if none is declared. */
export function readProperty({ properties = {} }: JSONSchema7, name: string): JSONSchema7 {
  const property: JSONSchema7Definition | undefined = Object.hasOwn(properties, name)
    ? properties[name]
    : undefined;
  return typeof property === 'object' ? property : {};
}

/** Reads the schema of a list's items; one that lets everything through if none is declared. */
export function readItems({ items }: JSONSchema7): JSONSchema7 {
  return typeof items === 'object' && !Array.isArray(items) ? items : {};
}
