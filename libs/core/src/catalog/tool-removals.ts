import type { RemovalCause } from '../contracts/injection.js';
import type { Tool } from '../contracts/tool.js';
import {
  declaredIdIn,
  declaredIdOfMember,
  groupedId,
  memberKeyOf,
} from '../plugins/entities/member-ids.js';

/** The removal of a tool. */
export interface Removal {
  readonly cause: RemovalCause;
  /**
   * The tool itself, if it was removed with a role: it is added again as soon as the actor has the
   * role again.
   */
  readonly removedWithRole?: Tool;
}

/** The removals of a run and their causes, oldest first; JSON. */
export type SavedRemovals = readonly (readonly [key: string, cause: RemovalCause])[];

/**
 * The removals of instances' tools that a run remembers at least; a call of one removed earlier is
 * answered like one of an unknown tool.
 */
const MOST_REMOVALS = 4_000;
/**
 * The removals beyond these that are forgotten together: looking for the oldest with each would
 * cost more than a call.
 */
const AT_ONCE = 1_000;

/**
 * Returns the keys of a tool: its rendered id and, for an entity's tool, its member key, since it
 * may be called over a surface.
 */
export function removalKeysOf(tool: Tool): readonly string[] {
  return tool.entity ? [tool.spec.id, memberKeyOf(tool, tool.entity)] : [tool.spec.id];
}

/**
 * Returns the newest removals; one that is listed twice counts as new. Those of tools without an
 * entity all stay: there are no more of them than declared tools, and a run that is resumed
 * elsewhere knows by them which tools it lost.
 */
export function newestRemovals(
  removals: Iterable<readonly [string, Removal]>,
): ReadonlyMap<string, Removal> {
  const newest = new Map<string, Removal>();
  for (const [key, removal] of removals) {
    newest.delete(key);
    newest.set(key, removal);
  }
  if (newest.size <= MOST_REMOVALS + AT_ONCE) return newest;
  const ofInstances = keysOfInstances([...newest.keys()]);
  for (const key of ofInstances.slice(0, Math.max(0, ofInstances.length - MOST_REMOVALS)))
    newest.delete(key);
  return newest;
}

/**
 * Returns the keys of instances' tools, which have two each: the member key, and a rendered id of
 * the same method.
 */
function keysOfInstances(keys: readonly string[]): readonly string[] {
  const methods = new Set(keys.map(declaredIdOfMember));
  const isOfInstance = (key: string, declaredId: string): boolean =>
    methods.has(declaredId) && key !== groupedId(declaredId);
  return keys.filter(
    (key) => declaredIdOfMember(key) !== undefined || isOfInstance(key, declaredIdIn(key)),
  );
}
