import { declaredIdIn, declaredIdOfMember, groupedId } from './entity-keys.js';

/** What was removed, and how to get it back; JSON, oldest first. */
export type SavedTombstones = readonly (readonly [string, string])[];

/** How it begins where a role went: the tool is there again as soon as the role is. */
export const LAID_DOWN = 'The actor of the run may not use it at present.';

/** A run remembers so many of instances; who asks for a tool that went before is told what is told of one that never was. */
const MOST_TOMBSTONES = 4_000;

/**
 * The newest of them; what was removed again is new. Of tools that are no entity's all stay: there are no more of them than are declared, and a run that
 * goes on elsewhere knows by them what was taken from it.
 */
export function newestTombstones(tombstones: SavedTombstones): ReadonlyMap<string, string> {
  const newest = new Map<string, string>();
  for (const [key, text] of tombstones) {
    newest.delete(key);
    newest.set(key, text);
  }
  if (newest.size <= MOST_TOMBSTONES) return newest;
  const ofInstances = keysOfInstances([...newest.keys()]);
  for (const key of ofInstances.slice(0, Math.max(0, ofInstances.length - MOST_TOMBSTONES))) newest.delete(key);
  return newest;
}

/** Each instance's tool is there twice: under the instance, and under a rendered id of the same method. */
function keysOfInstances(keys: readonly string[]): readonly string[] {
  const methods = new Set(keys.map(declaredIdOfMember));
  const isOfInstance = (key: string, declaredId: string): boolean => methods.has(declaredId) && key !== groupedId(declaredId);
  return keys.filter((key) => declaredIdOfMember(key) !== undefined || isOfInstance(key, declaredIdIn(key)));
}
