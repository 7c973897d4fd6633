import type { PolicyVersion } from '../contracts/policy-store.js';

/** Returns the words that name a version of the policies where something is wrong with it. */
export function placeOfVersion({ tenant, number }: PolicyVersion): string {
  return tenant === undefined ? `policy ${number}` : `policy ${number} of ${tenant}`;
}
