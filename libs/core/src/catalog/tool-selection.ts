import type { Type } from '@nestjs/common';
import type { EntityReference, ToolSpec } from '@toolloop/protocol';
import { distance } from 'fastest-levenshtein';
import type { ToolSelector } from '../contracts/loop-request.js';
import type { Tool } from '../contracts/tool.js';
import { isClassOrBelow } from '../discovery/provider-instances.js';

/**
 * The classes that select a tool: its provider or entity with what that extends, and the modules
 * that contribute it.
 */
export interface ClassesOfTool {
  readonly type?: object;
  readonly modules?: readonly object[];
}

/** A tool with the class that selects it, where it has one. */
export interface CatalogEntry extends ClassesOfTool {
  readonly tool: Tool;
  /** A further short name, by which selections find it. */
  readonly shortName?: string;
  /** The place of its declaration, for findings. */
  readonly at: string;
  /**
   * Set if the tool appears only in the course of a run: policies may name it, but no selection
   * includes it.
   */
  readonly isLatent?: true;
  /** The milliseconds it took to build; unknown for tools from outside. */
  readonly buildMs?: number;
}

/**
 * Tells whether a selector includes an entry. A class includes its subclasses' tools too, a module
 * those that it contributes itself.
 */
export function selects(
  selector: ToolSelector,
  {
    tool,
    shortName,
    ...classes
  }: Pick<CatalogEntry, 'type' | 'modules' | 'shortName'> & { readonly tool: Pick<Tool, 'spec'> },
): boolean {
  const { declaredId } = tool.spec;
  if (typeof selector === 'string')
    return isGlob(selector)
      ? matchesGlob(selector, declaredId)
      : [declaredId, shortNameOf(declaredId), shortName].includes(selector);
  if (isToolPredicate(selector)) return selector(tool.spec);
  return isByClass(selector, classes);
}

/**
 * Tells whether a name or a glob matches a tool by its declared id, its rendered id, or its short
 * name.
 */
export function isNamed(
  { id, declaredId = id }: Partial<Pick<ToolSpec, 'declaredId'>> & Pick<ToolSpec, 'id'>,
  pattern: string,
): boolean {
  if (isGlob(pattern)) return pattern === declaredId || matchesGlob(pattern, declaredId);
  return pattern === declaredId || pattern === id || pattern === shortNameOf(declaredId);
}

/** Tells whether a selector is a class or a module that includes the tools of a class. */
export function selectsClass(selector: ToolSelector, classes: ClassesOfTool): boolean {
  return typeof selector !== 'string' && !isToolPredicate(selector) && isByClass(selector, classes);
}

/** Tells whether a class or a module contributes a tool. */
export function isByClass(selector: Type, { type, modules = [] }: ClassesOfTool): boolean {
  return isClassOrBelow(type, selector) || modules.includes(selector);
}

/** Returns the short name of a tool: `crm__searchCustomers` → `searchCustomers`. */
export function shortNameOf(declaredId: string): string {
  const separator = declaredId.indexOf('__');
  return separator < 0 ? declaredId : declaredId.slice(separator + 2);
}

/**
 * Returns the namespace of a tool: `crm__searchCustomers` → `crm`; undefined where there is none.
 */
export function namespaceIn(declaredId: string): string | undefined {
  const separator = declaredId.indexOf('__');
  return separator < 0 ? undefined : declaredId.slice(0, separator);
}

/**
 * Tells whether an id or a glob stands under a prefix, which may have several parts: `mcp__github`
 * is that of `mcp__github__createIssue`.
 */
export function isUnder(prefix: string, id: string): boolean {
  return id.startsWith(`${prefix}__`);
}

type ToolPredicate = Extract<ToolSelector, (...args: never[]) => boolean>;

/**
 * Tells a predicate from a class by its source text, since an old function has a prototype as well.
 */
export function isToolPredicate(
  selector: Exclude<ToolSelector, string>,
): selector is ToolPredicate {
  return !/^class\b/.test(Function.prototype.toString.call(selector));
}

/** Tells whether a text has a `*`, which matches many ids. */
export function isGlob(pattern: string): boolean {
  return pattern.includes('*');
}

/**
 * Matches a declared id with a pattern, in which `*` matches any characters or none. Linear in the
 * text, since a pattern is data and may be hostile.
 */
export function matchesGlob(pattern: string, text: string): boolean {
  const [first = '', ...rest] = pattern.split('*');
  const last = rest.pop();
  if (last === undefined) return pattern === text;
  if (!text.startsWith(first) || !text.endsWith(last) || text.length < first.length + last.length)
    return false;
  const end = text.length - last.length;
  let position = first.length;
  for (const part of rest) {
    const found = text.indexOf(part, position);
    if (found < 0 || found + part.length > end) return false;
    position = found + part.length;
  }
  return true;
}

/**
 * The longest name that is compared: it comes from a model or a client, and the time to compare two
 * texts grows with both lengths.
 */
const MOST_CHARACTERS = 128;

interface Closeness {
  /** @default 3 */
  readonly most?: number;
  /**
   * Tells the names of tools that only read: they come first among close names, unless one is the
   * wrong name but for its spelling.
   */
  readonly isRead?: (name: string) => boolean;
}

/**
 * Finds the names closest to a wrong one, best first, without those that are too different: reads,
 * then by the words they share, then by edit distance. One verb in the place of another, as in
 * `search_customer` and `delete_customer`, is a small distance and a large difference, so a write
 * comes before a read only where it shares all words.
 */
export function closestTo(
  name: string,
  candidates: Iterable<string>,
  { most = 3, isRead = () => true }: Closeness = {},
): string[] {
  const wanted = name.slice(0, MOST_CHARACTERS);
  const scored = [...candidates].map((candidate) => {
    const words = sharedWords(wanted, candidate);
    const order = isRead(candidate) ? 0 : 1;
    return {
      candidate,
      words,
      order,
      rank: words === 1 ? 0 : order,
      distance: distanceBetween(wanted.toLowerCase(), candidate.toLowerCase()),
    };
  });
  const least = Math.max(LEAST_SHARED, ...scored.map(({ words }) => words));
  return scored
    .filter((one) => one.words >= least || Number.isFinite(one.distance))
    .toSorted(
      (a, b) =>
        a.rank - b.rank ||
        b.words - a.words ||
        a.order - b.order ||
        a.distance - b.distance ||
        a.candidate.localeCompare(b.candidate),
    )
    .slice(0, most)
    .map(({ candidate }) => candidate);
}

/**
 * Finds the tools closest to a wrong name, or for a glob the closest namespace or entity: `crm__*`
 * for `crn__*`.
 */
export function closestTools(
  name: string,
  declaredIds: readonly string[],
  closeness?: Closeness,
): string[] {
  const [, group, rest] = /^([^*]+)(__\*|_\*_\*)$/.exec(name) ?? [];
  if (group === undefined || rest === undefined) return closestTo(name, declaredIds, closeness);
  const groups = declaredIds.map((id) => (rest === '__*' ? namespaceIn(id) : prefixIn(id)));
  const known = new Set(groups.filter((one): one is string => one !== undefined && one !== ''));
  return closestTo(group, known).map((one) => one + rest);
}

/** The part of the words that two names have to share to be close without a small edit distance. */
const LEAST_SHARED = 0.5;

/**
 * Computes the part of the words that two names share, 0 to 1; a namespace counts only beside a
 * word of the name itself.
 */
function sharedWords(wanted: string, known: string): number {
  const names = shareOf(wordsIn(lastPart(wanted)), wordsIn(lastPart(known)));
  return names === 0 ? 0 : Math.max(names, shareOf(wordsIn(wanted), wordsIn(known)));
}

/**
 * In steps of a quarter, so that a name with one word more does not lose to one that shares less.
 */
function shareOf(wanted: readonly string[], known: readonly string[]): number {
  const shared = wanted.filter((word) => known.some((other) => isSameWord(word, other))).length;
  return Math.floor((4 * shared) / Math.max(wanted.length, known.length, 1)) / 4;
}

/**
 * A word may be in the plural, or have a wrong letter or two; in a short one, such as `get`, each
 * makes it another.
 */
function isSameWord(one: string, other: string): boolean {
  if (one === other || `${one}s` === other || one === `${other}s`) return true;
  return (
    Math.max(one.length, other.length) > 3 &&
    distance(one, other) <= Math.max(one.length, other.length) * 0.4
  );
}

function wordsIn(name: string): string[] {
  return name
    .replaceAll(/([a-z\d])([A-Z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^\p{L}\p{N}]+/u)
    .filter((word) => word !== '');
}

/**
 * Computes the distance of the whole names or of what follows their namespaces, whichever is less;
 * infinite where neither is close.
 */
function distanceBetween(wanted: string, known: string): number {
  const [name, knownName] = [lastPart(wanted), lastPart(known)];
  const whole = distance(wanted, known);
  const last = distance(name, knownName);
  return Math.min(
    whole <= Math.max(Math.min(3, known.length / 2), known.length * 0.4)
      ? whole
      : Number.POSITIVE_INFINITY,
    last <= knownName.length * 0.4 ? last + 1 : Number.POSITIVE_INFINITY,
  );
}

/**
 * Returns what follows the namespace or the instance, so that a model that forgets it is still
 * close: `crm__searchCustomers` → `searchCustomers`.
 */
function lastPart(id: string): string {
  const separator = ['_*_', '__'].find((one) => id.includes(one));
  return separator === undefined ? id : id.slice(id.lastIndexOf(separator) + separator.length);
}

/** The id of the dispatcher, the tool over which every method of every entity is called. */
export const DISPATCHER_ID = 'entity__call';

/**
 * Returns the id of the tool over which one method of all instances is called. No service may have
 * the namespace of that id.
 */
export function groupedId(declaredId: string): string {
  return `${prefixIn(declaredId)}__${methodIn(declaredId)}`;
}

/**
 * Returns the key of an instance within a run. The prefix identifies its class, since no two
 * classes share one.
 */
export function instanceKey(declaredId: string, instanceId: string): string {
  return `${prefixIn(declaredId)} ${instanceId}`;
}

/**
 * Returns the key of the instance of an entity's tool; for any other tool a key that no instance
 * has.
 */
export function instanceKeyOf({
  spec: { id, declaredId },
  entity,
}: Pick<Tool, 'spec' | 'entity'>): string {
  return entity ? instanceKey(declaredId, entity.instanceId) : `_${id}`;
}

/** Returns the member key of an instance's tool, which does not depend on its rendered id. */
export function memberKey(declaredId: string, instanceId: string): string {
  return `${declaredId} ${instanceId}`;
}

/** Reads the declared id from a member key; undefined for the id of a tool, which has no spaces. */
export function declaredIdOfMember(key: string): string | undefined {
  const end = key.indexOf(' ');
  return end === -1 ? undefined : key.slice(0, end);
}

export function memberKeyOf({ spec }: Pick<Tool, 'spec'>, { instanceId }: EntityReference): string {
  return memberKey(spec.declaredId, instanceId);
}

/**
 * Returns the declared id of an instance's tool: `customer_c-1_getAverageSpend` →
 * `customer_*_getAverageSpend`. Neither a prefix nor an instance's name has a `_`.
 */
export function declaredIdIn(renderedId: string): string {
  const [prefix, _name, ...method] = renderedId.split('_');
  return `${prefix}_*_${method.join('_')}`;
}

/** Returns the prefix of an entity's tool: `customer_*_getAverageSpend` → `customer`. */
export function prefixIn(declaredId: string): string {
  return declaredId.slice(0, Math.max(0, declaredId.indexOf('_*_')));
}

/** Returns the method of an entity's tool: `customer_*_getAverageSpend` → `getAverageSpend`. */
export function methodIn(declaredId: string): string {
  return declaredId.slice(declaredId.indexOf('_*_') + 3);
}
