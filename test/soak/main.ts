import { loadavg } from 'node:os';
import { setTimeout as wait } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { randomFrom } from '../chaos/random.js';
import { startDesk, type Vitals } from './desk.js';
import { slowProvider } from './provider.js';
import {
  heldAtRest,
  leftovers,
  someFaults,
  unendedRuns,
  unexplainedErrors,
  visitDesk,
  type VisitCounts,
} from './visitors.js';

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '10' },
    streams: { type: 'string', default: '200' },
    durable: { type: 'string', default: '0.2' },
    seed: { type: 'string', default: '1' },
  },
});
const MINUTE_MS = 60_000;
/** How much the heap may have grown since the first minute. */
const MOST_GROWTH = 0.1;
/**
 * What the desk's thread may do between two turns of its event loop, 99 times of 100, in units of
 * the floor: that depends on no other process, and hardly on the machine.
 */
const MOST_WORK = 5;
const FLOOR_TIMES = 20;
const FLOOR_TEXT = JSON.stringify(
  Array.from({ length: 20_000 }, (_, id) => ({ id, name: `customer ${id}`, paid: id % 3 === 0 })),
);

await soak();

/**
 * Keeps that many streams open at once for that many minutes, and fails where the heap grows, the
 * event loop is blocked, or something is held when all have left.
 */
async function soak(): Promise<void> {
  const [minutes, streams, durable] = [
    Number(values.minutes),
    Number(values.streams),
    Number(values.durable),
  ];
  if (!(minutes >= 2 && streams >= 1 && durable >= 0))
    throw new Error(
      'npm run soak -- [--minutes 10] [--streams 200] [--durable 0.2] [--seed 1]: at least two minutes',
    );
  const random = randomFrom(Number(values.seed));
  const provider = await slowProvider(someFaults(randomFrom(Number(values.seed) + 1)));
  const desk = await startDesk({
    OPENAI_BASE_URL: provider.baseURL,
    TOOLLOOP_MODEL: 'slow',
    OPENAI_API_KEY: 'sk-soak',
  });
  const rest = await heldAtRest({ desk, random, durable, end: 0 });
  const visits = visitDesk(
    { desk, random, durable, end: performance.now() + minutes * MINUTE_MS },
    streams,
  );
  await desk.vitals();
  const measured: Minute[] = [];
  for (let minute = 1; minute <= minutes; minute += 1) {
    await wait(MINUTE_MS);
    const vitals = await desk.vitals();
    const floorMs = measureFloor();
    measured.push({ ...vitals, floorMs });
    console.log(`minute ${minute}: ${toLine({ ...vitals, floorMs })}`);
  }
  const counts = await visits;
  console.log(
    `${streams} at once: ${Object.entries(counts)
      .map(([kind, count]) => `${count} ${kind}`)
      .join(', ')}`,
  );
  const held = [
    ...problemsOf(measured, counts),
    ...(await leftovers(desk, rest)),
    ...(await unendedRuns(desk)),
  ];
  const problems = [...held, ...unexplainedErrors(desk)];
  await desk.stop();
  provider.server.closeAllConnections();
  provider.server.close();
  for (const problem of problems) console.error(problem);
  if (problems.length > 0) process.exitCode = 1;
}

/** The vitals of a minute, and what the floor took on a CPU in it. */
type Minute = Vitals & { readonly floorMs: number };

/**
 * Measures the floor: what a JSON text of 1 MB takes of a CPU to be read and written, in
 * milliseconds. All times are one sample, since the system counts CPU time in steps of some
 * milliseconds.
 */
function measureFloor(): number {
  const before = process.threadCpuUsage();
  for (let time = 0; time < FLOOR_TIMES; time += 1) JSON.stringify(JSON.parse(FLOOR_TEXT));
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1_000 / FLOOR_TIMES;
}

function toLine({ heapBytes, delayP99Ms, workP99Ms, longestWorkMs, floorMs }: Minute): string {
  const ratio = `${(workP99Ms / floorMs).toFixed(1)} × the floor of ${floorMs.toFixed(2)} ms`;
  const own = `its own work p99 ${workP99Ms.toFixed(1)} ms, ${ratio}, at most ${longestWorkMs.toFixed(1)} ms`;
  return `heap ${(heapBytes / 2 ** 20).toFixed(1)} MB, event loop p99 ${delayP99Ms.toFixed(1)} ms (${own}), load of the machine ${loadavg()[0]?.toFixed(1)}`;
}

/**
 * The clock's delay is told alone: on a busy machine most of it is the time in which other
 * processes have the CPU.
 */
function problemsOf(measured: readonly Minute[], counts: VisitCounts): readonly string[] {
  const [first] = measured;
  const last = measured.at(-1);
  const growth = first && last ? last.heapBytes / first.heapBytes - 1 : Number.NaN;
  const slowest = Math.max(...measured.map(({ delayP99Ms }) => delayP99Ms));
  const work = Math.max(...measured.map(({ workP99Ms, floorMs }) => workP99Ms / floorMs));
  console.log(
    `heap ${(growth * 100).toFixed(1)} % over the first minute, slowest p99 ${slowest.toFixed(1)} ms by the clock, ${work.toFixed(1)} × the floor of its own work`,
  );
  return [
    ...(growth <= MOST_GROWTH
      ? []
      : [
          `MISSED: the heap grew by ${(growth * 100).toFixed(1)} %, more than ${MOST_GROWTH * 100} %.`,
        ]),
    ...(work < MOST_WORK
      ? []
      : [
          `MISSED: its own work between two turns was ${work.toFixed(1)} × the floor at the 99th percentile, not below ${MOST_WORK}.`,
        ]),
    ...(counts.read > 0 && counts.refused === 0
      ? []
      : [`MISSED: ${counts.refused} visits were refused.`]),
  ];
}
