import { loadavg } from 'node:os';
import { setTimeout as wait } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { randomFrom } from '../chaos/random.js';
import { startDesk, type Vitals } from './desk.js';
import { slowProvider } from './provider.js';
import { heldAtRest, leftovers, someFaults, visitDesk, type VisitCounts } from './visitors.js';

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
const MOST_DELAY_MS = 50;
/** What is logged of runs that end because of a fault of the provider, and of the last write of a cancelled run, which waits for 35 ms. */
const EXPECTED =
  /\[ToolLoop\] (?:ModelError: |Run \S+ failed \(reference )|\[EventOutlet\] (?:JournalSink failed on event \d+, run-end|Interruption: The run was cancelled)/;

await soak();

/** Keeps that many streams open at once for that many minutes, and fails where the heap grows, the event loop is blocked, or something is held when all have left. */
async function soak(): Promise<void> {
  const [minutes, streams, durable] = [Number(values.minutes), Number(values.streams), Number(values.durable)];
  if (!(minutes >= 2 && streams >= 1 && durable >= 0))
    throw new Error('npm run soak -- [--minutes 10] [--streams 200] [--durable 0.2] [--seed 1]: at least two minutes');
  const random = randomFrom(Number(values.seed));
  const provider = await slowProvider(someFaults(randomFrom(Number(values.seed) + 1)));
  const desk = await startDesk({ OPENAI_BASE_URL: provider.baseURL, TOOLLOOP_MODEL: 'slow', OPENAI_API_KEY: 'sk-soak' });
  const rest = await heldAtRest({ desk, random, durable, end: 0 });
  const visits = visitDesk({ desk, random, durable, end: performance.now() + minutes * MINUTE_MS }, streams);
  await desk.vitals();
  const measured: Vitals[] = [];
  for (let minute = 1; minute <= minutes; minute += 1) {
    await wait(MINUTE_MS);
    const vitals = await desk.vitals();
    measured.push(vitals);
    console.log(`minute ${minute}: ${toLine(vitals)}`);
  }
  const counts = await visits;
  console.log(
    `${streams} at once: ${Object.entries(counts)
      .map(([kind, count]) => `${count} ${kind}`)
      .join(', ')}`,
  );
  const problems = [...problemsOf(measured, counts, desk.output()), ...(await leftovers(desk, rest))];
  await desk.stop();
  provider.server.closeAllConnections();
  provider.server.close();
  for (const problem of problems) console.error(problem);
  if (problems.length > 0) process.exitCode = 1;
}

function toLine({ heapBytes, delayP99Ms, workP99Ms, longestWorkMs }: Vitals): string {
  const own = `its own work p99 ${workP99Ms.toFixed(1)} ms, at most ${longestWorkMs.toFixed(1)} ms`;
  return `heap ${(heapBytes / 2 ** 20).toFixed(1)} MB, event loop p99 ${delayP99Ms.toFixed(1)} ms (${own}), load of the machine ${loadavg()[0]?.toFixed(1)}`;
}

function problemsOf(measured: readonly Vitals[], counts: VisitCounts, output: string): readonly string[] {
  const [first] = measured;
  const last = measured.at(-1);
  const growth = first && last ? last.heapBytes / first.heapBytes - 1 : Number.NaN;
  const slowest = Math.max(...measured.map(({ delayP99Ms }) => delayP99Ms));
  console.log(`heap ${(growth * 100).toFixed(1)} % over the first minute, slowest p99 ${slowest.toFixed(1)} ms`);
  return [
    ...(growth <= MOST_GROWTH ? [] : [`MISSED: the heap grew by ${(growth * 100).toFixed(1)} %, more than ${MOST_GROWTH * 100} %.`]),
    ...(slowest < MOST_DELAY_MS ? [] : [`MISSED: the event loop was late by ${slowest.toFixed(1)} ms at the 99th percentile.`]),
    ...(counts.read > 0 && counts.refused === 0 ? [] : [`MISSED: ${counts.refused} visits were refused.`]),
    ...errorsIn(output),
  ];
}

/** The errors that the desk has logged and that no visit explains. */
function errorsIn(output: string): readonly string[] {
  const errors = output.split('\n').filter((line) => / ERROR |unhandled|unknown_tool/.test(line) && !EXPECTED.test(line));
  return errors.length > 0 ? [`MISSED: the desk logged ${errors.length} errors:\n${errors.slice(0, 10).join('\n')}`] : [];
}
