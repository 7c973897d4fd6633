import 'reflect-metadata';
import { parseArgs } from 'node:util';
import { ADAPTIVE_PACKS, loadPacks, OWN_PACKS } from './load-packs.js';
import { toText } from './report.js';
import { review, type Review } from './review.js';

const { values } = parseArgs({ options: { json: { type: 'boolean', default: false }, packs: { type: 'string' } } });
const folders = values.packs === undefined ? [OWN_PACKS, ADAPTIVE_PACKS] : [values.packs];
try {
  const startedAt = performance.now();
  const sets = folders.map((folder) => ({ folder, packs: loadPacks(folder) }));
  const reviews: Record<string, Review> = {};
  for (const { folder, packs } of sets) reviews[folder] = await review(packs);
  if (values.json) console.log(JSON.stringify(reviews, undefined, 2));
  else {
    for (const [folder, reviewed] of Object.entries(reviews)) console.log(`${toText(folder, reviewed)}\n`);
    console.log(`${((performance.now() - startedAt) / 1000).toFixed(1)} s`);
  }
} catch (error) {
  console.error(error instanceof Error ? error.message : String(error));
  process.exitCode = 1;
}
