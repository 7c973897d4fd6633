import { spawnSync } from 'node:child_process';
import { globSync } from 'node:fs';
import { basename, join } from 'node:path';

/** The programs under `examples`, by name. */
const programs = new Map(
  globSync('examples/*/*.ts')
    .filter((file) => basename(file) !== 'run.ts')
    .map((file) => [basename(file, '.ts'), file]),
);

const [name = ''] = process.argv.slice(2);
const program = programs.get(name);
if (program === undefined) {
  process.stderr.write(
    `Usage: npm run example -- NAME, where NAME is one of ${[...programs.keys()].toSorted().join(', ')}.\n`,
  );
  process.exitCode = 2;
} else {
  const { status } = spawnSync(
    process.execPath,
    [...process.execArgv, join(process.cwd(), program)],
    { stdio: 'inherit' },
  );
  process.exitCode = status ?? 1;
}
