import { closest, distance } from 'fastest-levenshtein';

/** Returns the remedy for a wrong name: the nearest known one, or if none is near, all of them. */
export function nearestName(wrong: string, known: readonly string[]): string {
  return (
    nearestIn(wrong, known) ??
    (known.length === 0 ? 'There are none.' : `There are: ${known.join(', ')}.`)
  );
}

/**
 * Returns the nearest known name as a remedy; undefined if none is near: with other letters in no
 * more than that part of it, or the same letters in another order.
 */
export function nearestIn(wrong: string, known: readonly string[], part = 0.4): string | undefined {
  if (known.length === 0) return undefined;
  const nearest = closest(wrong, known);
  const isNear =
    distance(wrong, nearest) <= Math.max(wrong.length, nearest.length) * part ||
    lettersOf(wrong) === lettersOf(nearest);
  return isNear ? `Did you mean "${nearest}"?` : undefined;
}

const lettersOf = (name: string): string => name.split('').toSorted().join('');
