import { distance } from 'fastest-levenshtein';
import { prefixIn } from '../plugins/entities/member-ids.js';
import { namespaceIn } from './tool-selection.js';

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

/** The part of the words that two names have to share to be close without a small edit distance. */
const LEAST_SHARED = 0.5;

/**
 * Computes the part of the words that two names share, 0 to 1; a namespace counts only beside a
 * word of the name itself.
 */
function sharedWords(wanted: string, known: string): number {
  const names = shareOf(splitIntoWords(lastPart(wanted)), splitIntoWords(lastPart(known)));
  return names === 0 ? 0 : Math.max(names, shareOf(splitIntoWords(wanted), splitIntoWords(known)));
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

function splitIntoWords(name: string): string[] {
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
