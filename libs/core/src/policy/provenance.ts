import type { JSONSchema7 } from 'json-schema';
import { isJsonList, type JsonValue } from '../protocol/json.js';
import type { PolicyCall, PolicySubject } from '../protocol/policy.js';
import { isWebAddress } from '../protocol/web-address.js';

/**
 * Whether everything that decides what a call is about stems from the user's own words or from trusted results. What cannot tell an origin, such as a
 * switch or a value the schema lists, proves nothing: a call with nothing else in it is not traced.
 */
export function isTraced(subject: PolicySubject, call: PolicyCall): boolean {
  return isEachTraced(subject.labels.decisive ?? Object.keys(call.args), subject, call);
}

/** The same for every argument, those that decide nothing included. */
export function isWhollyTraced(subject: PolicySubject, call: PolicyCall): boolean {
  return isEachTraced(Object.keys(call.args), subject, call);
}

/** Whether all that a call carries out are addresses that stand whole in the user's own words: they tell their hosts no more than the user did. */
export function isOfSaidAddresses(subject: PolicySubject, call: PolicyCall): boolean {
  const values = valuesOf(Object.keys(call.args), subject, call);
  return values.length > 0 && values.every((value) => isAddress(value) && call.flow.isSaid(value));
}

function isAddress(value: string | number): value is string {
  return isWebAddress(value) && !/\s/.test(value);
}

function isEachTraced(names: readonly string[], subject: PolicySubject, call: PolicyCall): boolean {
  const values = valuesOf(names, subject, call);
  return values.length > 0 && values.every((value) => call.flow.isTraced(value));
}

function valuesOf(
  names: readonly string[],
  { inputSchema }: PolicySubject,
  { args, instanceId }: PolicyCall,
): readonly (string | number)[] {
  const values = names.flatMap((name) => tellingValues(args[name], propertyOf(inputSchema, name)));
  return instanceId === undefined ? values : [...values, instanceId];
}

function propertyOf({ properties = {} }: JSONSchema7, name: string): JSONSchema7 {
  const property = Object.hasOwn(properties, name) ? properties[name] : undefined;
  return typeof property === 'object' ? property : {};
}

/** Texts and numbers at any depth, keys of objects included, without those the schema itself gives. */
function tellingValues(value: JsonValue | undefined, schema: JSONSchema7): (string | number)[] {
  if (value === undefined || value === null || isGiven(value, schema)) return [];
  if (isJsonList(value)) return value.flatMap((item) => tellingValues(item, itemsOf(schema)));
  if (typeof value === 'object') return Object.entries(value).flatMap(([key, item]) => tellingEntry(key, item, schema));
  return typeof value === 'boolean' || value === '' ? [] : [value];
}

function tellingEntry(key: string, value: JsonValue, schema: JSONSchema7): (string | number)[] {
  const isDeclared = schema.properties !== undefined && Object.hasOwn(schema.properties, key);
  const telling = tellingValues(value, propertyOf(schema, key));
  return isDeclared ? telling : [key, ...telling];
}

function isGiven(value: JsonValue, schema: JSONSchema7): boolean {
  return schema.enum !== undefined || (schema.default !== undefined && value === schema.default);
}

function itemsOf({ items }: JSONSchema7): JSONSchema7 {
  return typeof items === 'object' && !Array.isArray(items) ? items : {};
}
