import { spawnSync } from 'node:child_process';
import { parseArgs } from 'node:util';

/** One check of a release, and the minutes that it takes on two quiet cores. */
interface ReleaseCheck {
  readonly name: string;
  readonly command: string;
  readonly minutes: number;
  readonly env?: Readonly<Record<string, string>>;
}

/** Everything that takes too long for `.ci/run`, in the order in which it is run. Under 110 minutes in all. */
const CHECKS: readonly ReleaseCheck[] = [
  { name: 'tools of releases', command: 'npm ci --prefix release', minutes: 1 },
  { name: 'packages', command: 'npm run -s release -- check', minutes: 2 },
  { name: 'fresh applications', command: 'npm run -s release -- try', minutes: 5 },
  { name: 'attacks', command: 'npm run -s attacks', minutes: 2 },
  { name: 'recorded attacks', command: 'npm run -s attacks -- --recorded', minutes: 2 },
  { name: 'conformance', command: 'npm run -s conformance', minutes: 5 },
  { name: 'bad requests', command: 'npm run -s bad-requests', minutes: 1 },
  {
    name: 'fuzz',
    command: 'npm test -- libs/openai/test/answer.decoder.fuzz libs/anthropic/test/fuzz',
    minutes: 2,
    env: { FUZZ_RUNS: '100000' },
  },
  {
    name: 'release specs',
    command: "npm test -- --testPathPatterns '[.]release[.]spec' --maxWorkers=1",
    minutes: 10,
    env: { TOOLLOOP_RELEASE: '1', TOOLLOOP_FULL: '1' },
  },
  { name: 'every spec on what is built', command: 'npm run -s test:built', minutes: 7, env: { TOOLLOOP_BUILT: 'all' } },
  { name: 'documentation site', command: 'npm ci --prefix docs && npm run -s build --prefix docs', minutes: 3 },
  { name: 'soak', command: 'npm run -s soak', minutes: 12 },
  { name: 'soak of durable runs', command: 'npm run -s soak -- --streams 100 --durable 1 --minutes 3', minutes: 4 },
  { name: 'readers over HTTP', command: 'npm run -s soak:readers', minutes: 3 },
  { name: 'a reader that stands still', command: 'npm run -s soak:stalled', minutes: 2 },
  { name: 'the console', command: 'npm run -s bench:console', minutes: 5 },
  { name: 'chaos', command: 'npm run -s chaos', minutes: 20 },
  { name: 'peers', command: 'npm ci --prefix bench/peers', minutes: 1 },
  { name: 'bench', command: 'npm run -s bench', minutes: 25 },
];

const { values } = parseArgs({ options: { only: { type: 'string', multiple: true }, list: { type: 'boolean', default: false } } });

run(CHECKS.filter(({ name }) => !values.only || values.only.includes(name)));

/** Runs the checks one after the other, and fails with those that failed. */
function run(checks: readonly ReleaseCheck[]): void {
  const failed: string[] = [];
  for (const { name, command, minutes, env } of checks) {
    console.log(`== ${name}: ${command} (about ${minutes} min)`);
    if (values.list) continue;
    const started = performance.now();
    const { status } = spawnSync(command, { shell: true, stdio: 'inherit', env: { ...process.env, ...env } });
    if (status !== 0) failed.push(name);
    console.log(`== ${name}: ${status === 0 ? 'ok' : 'FAILED'} (${((performance.now() - started) / 60_000).toFixed(1)} min)`);
  }
  const passed = values.list ? 0 : checks.length - failed.length;
  console.log(`${passed} passed, ${failed.length} failed, 0 skipped${failed.length > 0 ? `: ${failed.join(', ')}` : ''}`);
  if (failed.length > 0) process.exitCode = 1;
}
