import type { Reviewer } from './attack.application.js';
import { measure, type Measurement } from './measurement.js';
import type { Pack } from './pack.js';

/** What a set of packs came to, with either reviewer. */
export type Review = Readonly<Record<Reviewer, Measurement>>;

export async function review(packs: readonly Pack[]): Promise<Review> {
  return { refuses: await measure(packs, 'refuses'), approves: await measure(packs, 'approves') };
}
