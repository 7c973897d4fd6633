import type { RemovalCause } from '../contracts/injection.js';
import type { Tool } from '../contracts/tool.js';
import { canonicalDeclaration } from '../schema/canonical-json.js';
import { declaredIdIn, declaredIdOfMember, groupedId, memberKeyOf } from './tool-selection.js';

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

export function isSameCause(one: RemovalCause, other: RemovalCause): boolean {
  return one === other || canonicalDeclaration(one) === canonicalDeclaration(other);
}

/**
 * Describes a cause for the model, with how to get the tool back, in one or two sentences. The id
 * of an instance may come from outside, so it is in none of them.
 */
export function wayBack(cause: RemovalCause): string {
  switch (cause.kind) {
    case 'role':
      return roleWords(cause);
    case 'evicted':
      return `Newer ones took its place. To get it back, call ${giverIn(cause)} again.`;
    case 'process_ended':
      return `It ended with the process or the turn that held it. To get it back, call ${cause.givenBy} again.`;
    case 'surface':
      return 'It was removed with the tool over which it was called.';
    case 'phase':
      return phaseWords(cause);
    case 'search':
      return `It made room for newer ones. To get it back, search with ${cause.searchId}.`;
    case 'withheld':
      return withheldWords(cause);
    case 'source':
      return 'Its source does not offer it any more, or has changed it. If it comes back, it is among your tools again.';
    case 'removed':
      return removedWords(cause);
  }
}

function removedWords({
  howToGetBack,
  strategy,
}: Extract<RemovalCause, { readonly kind: 'removed' }>): string {
  return (
    howToGetBack ??
    `It was removed by ${strategy}. To get it back, call the tool that gave it again.`
  );
}

/**
 * Describes a removal with a role. An instance may have ended with its process by the time the
 * actor has the role again.
 */
function roleWords(cause: Extract<RemovalCause, { readonly kind: 'role' }>): string {
  const back = cause.perInstance
    ? `it comes back; if it does not, call ${giverIn(cause)} again`
    : 'it can come back';
  return `The actor of the run may not use it at present. Once they may, ${back}.`;
}

function giverIn({ givenBy = 'the tool that returned it' }: { readonly givenBy?: string }): string {
  return givenBy;
}

function withheldWords({ after }: Extract<RemovalCause, { readonly kind: 'withheld' }>): string {
  return `It was taken away${after === undefined ? '' : ` after ${after}`}. Continue without it.`;
}

function phaseWords({
  phase,
  leadingBack,
}: Extract<RemovalCause, { readonly kind: 'phase' }>): string {
  const belongs = `It belongs to the phase "${phase}", which is over.`;
  return leadingBack.length === 0
    ? belongs
    : `${belongs} ${leadingBack.join(' or ')} leads back to it.`;
}

/** The texts that each kind of cause requires, beside those that it may have. */
const NEEDED: Readonly<Record<RemovalCause['kind'], readonly string[]>> = {
  role: [],
  evicted: [],
  process_ended: ['givenBy'],
  surface: [],
  phase: ['phase'],
  search: ['searchId'],
  withheld: [],
  source: [],
  removed: ['strategy'],
};
const OPTIONAL = ['givenBy', 'after', 'howToGetBack'];

/** Tells whether a stored value is a cause that this release knows. */
export function isRemovalCause(value: unknown): value is RemovalCause {
  if (typeof value !== 'object' || value === null) return false;
  const held = new Map<string, unknown>(Object.entries(value));
  const [, needed] = Object.entries(NEEDED).find(([kind]) => kind === held.get('kind')) ?? [];
  if (!needed?.every((name) => typeof held.get(name) === 'string')) return false;
  if (OPTIONAL.some((name) => held.has(name) && typeof held.get(name) !== 'string')) return false;
  const leadingBack = held.get('leadingBack');
  return (
    held.get('kind') !== 'phase' ||
    (Array.isArray(leadingBack) && leadingBack.every((id) => typeof id === 'string'))
  );
}
