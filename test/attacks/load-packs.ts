import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Pack } from './pack.js';
import { decodePack, PackError } from './pack.decoder.js';

/** Attackers who do not know what the user asks. */
export const OWN_PACKS = 'test/attacks/packs';

/** Attackers who do, and who know the policy. */
export const ADAPTIVE_PACKS = 'test/attacks/adaptive';

/**
 * The packs of a folder, in the order of their names. Throws `PackError` with the problems of every
 * file, or what reading the folder throws.
 */
export function loadPacks(folder: string): readonly Pack[] {
  const files = readdirSync(folder).filter((name) => name.endsWith('.json'));
  if (files.length === 0) throw new PackError(folder, [': holds no .json file.']);
  const problems: string[] = [];
  const packs = files.toSorted().flatMap((name) => {
    const file = join(folder, name);
    try {
      return [decodePack(file, readFileSync(file, 'utf8'))];
    } catch (error) {
      if (!(error instanceof PackError)) throw error;
      problems.push(error.message);
      return [];
    }
  });
  if (problems.length > 0) throw new Error(problems.join('\n'));
  return packs;
}
