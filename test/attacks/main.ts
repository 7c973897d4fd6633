import 'reflect-metadata';
import { parseArgs } from 'node:util';
import { ADAPTIVE_PACKS, loadPacks, OWN_PACKS } from './load-packs.js';
import { measureRecorded } from './recorded.js';
import { recordedText, toText, workText } from './report.js';
import { review, type Review } from './review.js';
import { measureWork, workCurve } from './work.js';

const { values } = parseArgs({
  options: {
    json: { type: 'boolean', default: false },
    packs: { type: 'string' },
    recorded: { type: 'boolean', default: false },
    work: { type: 'boolean', default: false },
    share: { type: 'string', default: '1' },
  },
});
try {
  const startedAt = performance.now();
  if (values.recorded) {
    const figures = await measureRecorded(values.packs, Number(values.share));
    console.log(values.json ? JSON.stringify(figures, undefined, 2) : `${recordedText(figures)}\n`);
  } else if (values.work) {
    const [figures, curve] = [await measureWork(), await workCurve()];
    console.log(
      values.json
        ? JSON.stringify({ ...figures, curve }, undefined, 2)
        : `${workText(figures, curve)}\n`,
    );
  } else {
    await reviewPacks();
  }
  if (!values.json) console.log(`${((performance.now() - startedAt) / 1000).toFixed(1)} s`);
} catch (error) {
  console.error(error instanceof Error ? error.message : String(error));
  process.exitCode = 1;
}

async function reviewPacks(): Promise<void> {
  const folders = values.packs === undefined ? [OWN_PACKS, ADAPTIVE_PACKS] : [values.packs];
  const sets = folders.map((folder) => ({ folder, packs: loadPacks(folder) }));
  const reviews: Record<string, Review> = {};
  for (const { folder, packs } of sets) reviews[folder] = await review(packs);
  if (values.json) console.log(JSON.stringify(reviews, undefined, 2));
  else
    for (const [folder, reviewed] of Object.entries(reviews))
      console.log(`${toText(folder, reviewed)}\n`);
}
