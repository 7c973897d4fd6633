import type { PolicyActor, PolicyEngine } from '../contracts/policy.js';
import type { ToolSelector } from '../contracts/tool-selector.js';
import type { ToolSelection } from './tool-catalog.js';
import { isToolPredicate } from './tool-selection.js';

/** Returns a number by which an object is known in a key. */
export function nameOf(object: object): number {
  const known = names.get(object);
  if (known !== undefined) return known;
  named += 1;
  names.set(object, named);
  return named;
}

const names = new WeakMap<object, number>();
let named = 0;

/**
 * Returns the key of a selection; undefined where a predicate decides, which may look at anything.
 */
export function selectionKey(selections: readonly ToolSelection[]): string | undefined {
  const lists = selections.flatMap(({ tools, exclude }) => [tools, exclude]);
  if (!lists.every((list) => list === undefined || (Array.isArray(list) && list.every(isNameable))))
    return undefined;
  return JSON.stringify(
    lists.map((list) => list?.map((one) => (typeof one === 'string' ? one : nameOf(one))) ?? null),
  );
}

function isNameable(selector: ToolSelector): boolean {
  return (
    typeof selector === 'string' || (typeof selector === 'function' && !isToolPredicate(selector))
  );
}

/**
 * Returns the key of what policies read of an actor; undefined where one of them is asked about
 * each tool in each run.
 */
export function authorityKey(
  engines: readonly PolicyEngine[],
  { assumed, ...actor }: PolicyActor,
): string | undefined {
  const held = assumed && { ...actor, roles: actor.roles.filter((role) => assumed.includes(role)) };
  const read: (string | number)[] = [];
  for (const engine of engines) {
    if (!engine.listedBy) return undefined;
    read.push(nameOf(engine), engine.listedBy(actor), held ? engine.listedBy(held) : '');
  }
  return JSON.stringify(read);
}
