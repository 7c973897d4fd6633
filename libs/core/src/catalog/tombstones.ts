/** What was removed, and how to get it back; JSON, oldest first. */
export type SavedTombstones = readonly (readonly [string, string])[];

/** How it begins where a role went: the tool is there again as soon as the role is. */
export const LAID_DOWN = 'Whom the run acts for may not use it at present.';

/** A run remembers so many; who asks for a tool that went before is told what is told of one that never was. */
const MOST_TOMBSTONES = 4_000;

/** The newest of them; what was removed again is new. */
export function newestTombstones(tombstones: SavedTombstones): ReadonlyMap<string, string> {
  const newest = new Map<string, string>();
  for (const [key, text] of tombstones) {
    newest.delete(key);
    newest.set(key, text);
  }
  let excess = newest.size - MOST_TOMBSTONES;
  for (const key of newest.keys()) {
    if (excess <= 0) break;
    newest.delete(key);
    excess -= 1;
  }
  return newest;
}
