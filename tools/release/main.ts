import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { compareApi } from './api-reports.js';
import { LocalRegistry } from './local-registry.js';
import { tryInApplications } from './matrix.js';
import { lintPackages } from './package-checks.js';
import { installStaged, npm, packStaged, stagePackages, type StagedPackage } from './packages.js';
import { REPOSITORY } from './project.js';
import { publishCommands } from './publishing.js';
import { printTokens, writeTokens } from './token-report.js';

/** Its sentences are problems; the command fails where there are any. */
type Command = (
  staged: readonly StagedPackage[],
  work: string,
) => readonly string[] | Promise<readonly string[]>;

const COMMANDS: Readonly<Record<string, Command>> = {
  check: (staged, work) => {
    printTokens(staged);
    return [...lintPackages(staged, work), ...compareApi(staged, work, false)];
  },
  api: (staged, work) => {
    writeTokens(staged);
    return compareApi(staged, work, true);
  },
  pack: (staged) => {
    for (const tarball of packStaged(staged, 'tools/release/packed').values()) console.log(tarball);
    return [];
  },
  stage: (staged) => {
    installStaged(staged, 'tools/bench/staged');
    return [];
  },
  try: (staged, work) => tryInApplications(staged, work, names),
  registry: serveRegistry,
  publish: (staged, work) => {
    for (const args of publishCommands(staged, work, REPOSITORY)) console.log(npm(...args));
    return [];
  },
};

const [, , name = '', ...names] = process.argv;
const command = COMMANDS[name];
if (command) await run(command);
else {
  console.error(
    `Usage: npm run release -- ${Object.keys(COMMANDS).join('|')}, after try the names of applications`,
  );
  process.exitCode = 2;
}

/** Keeps a registry with the packages until it is stopped, for what a person tries by hand. */
async function serveRegistry(
  staged: readonly StagedPackage[],
  work: string,
): Promise<readonly string[]> {
  await using registry = await LocalRegistry.start(join(work, 'registry'));
  registry.publish(packStaged(staged, join(work, 'tarballs')).values());
  const settings = Object.entries(registry.env).map(([key, value]) => `${key}=${value}`);
  console.log(
    `The packages are at ${registry.url}. In another terminal, in a folder outside of this one:\n\nexport ${settings.join(' ')}\n`,
  );
  await new Promise((resolve) => process.once('SIGINT', resolve).once('SIGTERM', resolve));
  return [];
}

async function run(wanted: Command): Promise<void> {
  const work = mkdtempSync(join(tmpdir(), 'toolloop-release-'));
  const made = join(work, 'made');
  mkdirSync(made);
  try {
    const problems = await wanted(stagePackages(work), made);
    for (const problem of problems) console.error(problem);
    if (problems.length > 0) process.exitCode = 1;
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    process.exitCode = 1;
  } finally {
    rmSync(work, { recursive: true });
  }
}
