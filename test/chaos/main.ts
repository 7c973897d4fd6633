import 'reflect-metadata';
import { parseArgs } from 'node:util';
import { unleash, type ChaosReport } from './chaos.js';
import { ENGINES, serverUrl, type Engine } from './place.js';
import { toText } from './report.js';

const USAGE =
  'npm run chaos -- [--runs 100] [--steps 20] [--kills 120] [--seed 1] [--database pglite|postgres]';

const { values } = parseArgs({
  options: {
    runs: { type: 'string', default: '100' },
    steps: { type: 'string', default: '20' },
    kills: { type: 'string', default: '120' },
    seed: { type: 'string', default: String(Date.now() % 1_000_000) },
    database: { type: 'string' },
  },
});
const [runs, steps, kills, seed] = [values.runs, values.steps, values.kills, values.seed].map(
  Number,
);
const engines = ENGINES.filter(
  (engine) => values.database === undefined || engine === values.database,
);
if (
  engines.length === 0 ||
  !isCount(runs) ||
  !isCount(steps) ||
  !isCount(kills) ||
  !Number.isSafeInteger(seed)
) {
  console.error(USAGE);
  process.exitCode = 1;
} else await command(engines);

async function command(chosen: readonly Engine[]): Promise<void> {
  console.log(`${runs} runs of ${steps} steps, seed ${seed}`);
  const reports: ChaosReport[] = [];
  for (const engine of chosen) {
    if (engine === 'postgres' && serverUrl() === undefined)
      console.log('skipped: postgres: neither TOOLLOOP_TEST_POSTGRES nor DATABASE_URL is set');
    else
      reports.push(
        await unleash({
          engine,
          runs: runs ?? 0,
          steps: steps ?? 0,
          kills: kills ?? 0,
          seed: seed ?? 0,
        }),
      );
  }
  console.log(toText(reports));
  if (reports.some(({ violations }) => violations.length > 0)) process.exitCode = 1;
}

function isCount(value: number | undefined): boolean {
  return Number.isSafeInteger(value) && Number(value) > 0;
}
