import { closest, distance } from 'fastest-levenshtein';

/** What to write in the place of a wrong name: the nearest of those there are, or where none is near all of them. */
export function nearestName(wrong: string, known: readonly string[]): string {
  if (known.length === 0) return 'There are none.';
  const nearest = closest(wrong, known);
  const isNear = distance(wrong, nearest) <= Math.max(wrong.length, nearest.length) * 0.4;
  return isNear ? `Did you mean "${nearest}"?` : `There are: ${known.join(', ')}.`;
}
