import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import {
  FRESH_APPLICATIONS,
  type FreshApplication,
  madeOn,
  NODES,
  tryApplication,
  within,
  Workplace,
} from './fresh-applications.js';
import { LocalRegistry } from './local-registry.js';
import { packStaged, type StagedPackage } from './packages.js';

/**
 * Publishes every package to a registry on this machine, makes fresh applications with them, and
 * tests, builds and starts each.
 *
 * @param only the names of the applications that are tried; all where there is none
 * @returns a sentence for each application that does not work
 */
export async function tryInApplications(
  staged: readonly StagedPackage[],
  work: string,
  only: readonly string[],
): Promise<readonly string[]> {
  await using registry = await LocalRegistry.start(join(work, 'registry'));
  registry.publish(packStaged(staged, join(work, 'tarballs')).values());
  const folder = join(work, 'applications');
  mkdirSync(folder);
  const problems: string[] = [];
  const chosen = FRESH_APPLICATIONS.filter(({ name }) => only.length === 0 || only.includes(name));
  for (const application of chosen) {
    const started = performance.now();
    const { left, problem } = await outcomeOf(
      new Workplace(folder, application, registry.env),
      application,
    );
    const { name, manager, env = {} } = application;
    const how = [
      manager,
      ...Object.entries(env).map(([key, value]) => `${key}=${value}`),
      `made on Node ${madeOn(application)}`,
    ].join(', ');
    const seconds = ((performance.now() - started) / 1_000).toFixed(0);
    console.log(
      `${problem === undefined ? 'ok' : 'FAILED'}: ${name} (${how}), tested and started on Node ${NODES.join(' and ')} (${seconds} s)`,
    );
    for (const reason of left) console.log(`  left out: ${reason}`);
    if (problem === undefined) continue;
    console.error(problem);
    problems.push(`${name} does not work.`);
  }
  console.log(`${chosen.length - problems.length} passed, ${problems.length} failed`);
  return problems;
}

interface Outcome {
  /** What was not tried, and why. */
  readonly left: readonly string[];
  readonly problem?: string;
}

async function outcomeOf(at: Workplace, application: FreshApplication): Promise<Outcome> {
  try {
    within('It cannot be made', () => application.make(at));
    return { left: await tryApplication(at) };
  } catch (error) {
    const printed =
      error instanceof Error && 'stdout' in error && 'stderr' in error
        ? `\n${String(error.stdout)}${String(error.stderr)}`
        : '';
    return {
      left: [],
      problem: `${error instanceof Error ? error.message : String(error)}${printed.slice(-6_000)}`,
    };
  }
}
