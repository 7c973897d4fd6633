import { distance } from 'fastest-levenshtein';

/** A name comes from a model or a client, and the distance of two texts takes time in proportion to both lengths. */
const MOST_CHARACTERS = 128;

/** The names closest to a wrong one, best first: by edit distance, those too far off left out. */
export function closestTo(name: string, candidates: Iterable<string>, most = 3): string[] {
  const wanted = name.slice(0, MOST_CHARACTERS).toLowerCase();
  const scored = [...candidates].map((candidate) => ({ candidate, score: scoreOf(wanted, candidate.toLowerCase()) }));
  return scored
    .filter(({ score }) => Number.isFinite(score))
    .toSorted((a, b) => a.score - b.score || a.candidate.localeCompare(b.candidate))
    .slice(0, most)
    .map(({ candidate }) => candidate);
}

/** The distance of the whole names or of their last parts, whichever is less; infinite where neither is close. */
function scoreOf(wanted: string, known: string): number {
  const [tail, knownTail] = [lastPart(wanted), lastPart(known)];
  const whole = distance(wanted, known);
  const last = distance(tail, knownTail);
  return Math.min(
    whole <= Math.max(3, known.length * 0.4) ? whole : Number.POSITIVE_INFINITY,
    last <= knownTail.length * 0.4 ? last + 1 : Number.POSITIVE_INFINITY,
  );
}

/** `crm__searchCustomers` → `searchcustomers`: a model that forgets the namespace is close all the same. */
function lastPart(id: string): string {
  return id.slice(id.lastIndexOf('_') + 1);
}
