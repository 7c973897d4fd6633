import { distance } from 'fastest-levenshtein';

/** The names closest to a wrong one, best first: by edit distance, those too far off left out. */
export function closestTo(name: string, candidates: Iterable<string>, most = 3): string[] {
  const wanted = name.toLowerCase();
  const tail = lastPart(wanted);
  const scored = [...candidates].map((candidate) => {
    const known = candidate.toLowerCase();
    return { candidate, score: Math.min(distance(wanted, known), distance(tail, lastPart(known)) + 1) };
  });
  return scored
    .filter(({ candidate, score }) => score <= Math.max(3, candidate.length * 0.4))
    .toSorted((a, b) => a.score - b.score || a.candidate.localeCompare(b.candidate))
    .slice(0, most)
    .map(({ candidate }) => candidate);
}

/** `crm__searchCustomers` → `searchcustomers`: a model that forgets the namespace is close all the same. */
function lastPart(id: string): string {
  return id.slice(id.lastIndexOf('_') + 1);
}
