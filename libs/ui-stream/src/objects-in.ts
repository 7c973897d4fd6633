import { isJsonList, isJsonObject, type JsonObject, type JsonValue } from '@toolloop/protocol';

/**
 * Returns the objects of a list that a client sent; none if the member is absent.
 *
 * @param at the place of the list in the body, such as `tools`
 * @throws {TypeError} for anything but a list of objects: what is left out silently is lost
 */
export function objectsIn(list: JsonValue | undefined, at: string): readonly JsonObject[] {
  if (list === undefined || list === null) return [];
  if (!isJsonList(list) || !list.every(isJsonObject))
    throw new TypeError(`"${at}" must be a list of objects.`);
  return list;
}
