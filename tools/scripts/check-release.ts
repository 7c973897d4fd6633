import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';

/** One check of a release, and the minutes that it takes on two quiet cores. */
interface ReleaseCheck {
  readonly name: string;
  readonly command: string;
  readonly minutes: number;
  readonly env?: Readonly<Record<string, string>>;
  /** Whether it fails by the clock, so that it needs a machine that does nothing else. */
  readonly isTimed?: true;
}

const SERVERS = ['TOOLLOOP_TEST_POSTGRES', 'TOOLLOOP_TEST_MARIADB'];

/**
 * The minutes that all checks may take together. A release must not take two hours, and ten minutes
 * are kept for a slow day.
 */
const MAX_MINUTES = 110;

/**
 * Everything that takes too long for `.ci/run`, and nothing that this runs as well, in the order in
 * which it is run. The minutes are those of the processors where a check uses them throughout.
 */
const CHECKS: readonly ReleaseCheck[] = [
  { name: 'tools of releases', command: 'npm ci --prefix tools/release', minutes: 1 },
  { name: 'packages', command: 'npm run -s release -- check', minutes: 4 },
  { name: 'fresh applications', command: 'npm run -s release -- try', minutes: 8 },
  {
    name: 'recorded attacks',
    command: 'npm test -- test/attacks/recorded',
    minutes: 3,
    env: { TOOLLOOP_FULL: '1', RECORDED_SHARE: '3' },
  },
  { name: 'conformance', command: 'npm run -s conformance', minutes: 3 },
  { name: 'bad requests', command: 'npm run -s bad-requests', minutes: 1 },
  {
    name: 'fuzz',
    command: 'npm test -- libs/openai/test/answer.decoder.fuzz libs/anthropic/test/fuzz',
    minutes: 2,
    env: { FUZZ_RUNS: '100000' },
  },
  {
    name: 'release specs',
    command: "npm test -- --testPathPatterns '[.]release[.]spec' --maxWorkers=2",
    minutes: 12,
    env: { TOOLLOOP_RELEASE: '1', TOOLLOOP_FULL: '1' },
  },
  {
    name: 'the other specs on what is built',
    command: 'npm run -s test:built',
    minutes: 5,
    env: { TOOLLOOP_BUILT: 'others' },
  },
  {
    name: 'documentation site',
    command: 'npm ci --prefix docs && npm run -s build --prefix docs',
    minutes: 2,
  },
  { name: 'soak', command: 'npm run -s soak', minutes: 11, isTimed: true },
  {
    name: 'soak of durable runs',
    command: 'npm run -s soak -- --streams 100 --durable 1 --minutes 3',
    minutes: 4,
    isTimed: true,
  },
  { name: 'readers over HTTP', command: 'npm run -s soak:readers', minutes: 3, isTimed: true },
  { name: 'a reader that stands still', command: 'npm run -s soak:stalled', minutes: 2 },
  { name: 'the console', command: 'npm run -s bench:console', minutes: 5, isTimed: true },
  { name: 'chaos', command: 'npm run -s chaos', minutes: 9 },
  { name: 'bench', command: 'npm run -s bench', minutes: 10, isTimed: true },
];

const { values } = parseArgs({
  options: {
    only: { type: 'string', multiple: true },
    list: { type: 'boolean', default: false },
    busy: { type: 'boolean', default: false },
  },
});

const wanted = CHECKS.filter(({ name }) => !values.only || values.only.includes(name));
const unknown = values.only?.filter((wish) => CHECKS.every(({ name }) => name !== wish)) ?? [];
if (minutesOf(CHECKS) > MAX_MINUTES)
  refuse(
    `The checks take ${minutesOf(CHECKS)} minutes, more than ${MAX_MINUTES}: shorten one, or leave out what another one shows.`,
  );
else if (unknown.length > 0)
  refuse(
    `There is no check "${unknown.join('", "')}". Known: ${CHECKS.map(({ name }) => name).join(', ')}.`,
  );
else if (values.list) print(wanted);
else run(wanted);

function refuse(why: string): void {
  console.error(why);
  process.exitCode = 1;
}

function minutesOf(checks: readonly ReleaseCheck[]): number {
  return checks.reduce((sum, { minutes }) => sum + minutes, 0);
}

/** Prints the checks and the minutes of all. */
function print(checks: readonly ReleaseCheck[]): void {
  for (const { name, command, minutes, isTimed } of checks)
    console.log(`${minutes} min  ${name}: ${command}${isTimed ? ' (on a quiet machine)' : ''}`);
  console.log(`${minutesOf(checks)} min`);
}

/**
 * Runs the checks one after the other, and fails with those that failed. With `--busy` those with a
 * clock are left out.
 */
function run(checks: readonly ReleaseCheck[]): void {
  for (const server of SERVERS)
    if (!process.env[server])
      console.log(
        `${server} names no server: the suites on it are skipped. .ci/run has some of its own.`,
      );
  const begun = performance.now();
  const failed: string[] = [];
  const skipped = checks.filter(({ isTimed }) => values.busy && isTimed);
  const chosen = checks.filter((check) => !skipped.includes(check));
  for (const { name, command, minutes, env } of chosen) {
    console.log(`== ${name}: ${command} (about ${minutes} min)`);
    const started = performance.now();
    const before = minutesOfProcessors();
    const { status } = spawnSync(command, {
      shell: true,
      stdio: 'inherit',
      env: { ...process.env, ...env },
    });
    if (status !== 0) failed.push(name);
    const took = ranFor(started, before);
    console.log(`== ${name}: ${status === 0 ? 'ok' : 'FAILED'} (${took})`);
  }
  for (const { name } of skipped) console.log(`skipped: ${name}, which needs a quiet machine`);
  console.log(`${ranFor(begun, 0)}, of ${minutesOf(chosen)} min that are listed`);
  console.log(
    `${chosen.length - failed.length} passed, ${failed.length} failed, ${skipped.length} skipped${failed.length > 0 ? `: ${failed.join(', ')}` : ''}`,
  );
  if (failed.length > 0) process.exitCode = 1;
}

/**
 * Tells how long something took, which began at a time by the clock and at one of the processors.
 */
function ranFor(started: number, before: number): string {
  const minutes = (performance.now() - started) / 60_000;
  return `${minutes.toFixed(1)} min, ${(minutesOfProcessors() - before).toFixed(1)} min of the processors`;
}

/**
 * The time that ended processes of this one have used, which others on the machine do not lengthen;
 * 0 where the system does not tell.
 */
function minutesOfProcessors(): number {
  if (!existsSync('/proc/self/stat')) return 0;
  const [, fields = ''] = readFileSync('/proc/self/stat', 'utf8').split(') ');
  const [user = 0, system = 0] = fields.split(' ').slice(13, 15).map(Number);
  return (user + system) / 6_000;
}
