import type { RemovalCause } from '../contracts/injection.js';
import { canonicalDeclaration } from '../schema/canonical-json.js';

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

export function isSameCause(one: RemovalCause, other: RemovalCause): boolean {
  return one === other || canonicalDeclaration(one) === canonicalDeclaration(other);
}
