import { request } from 'node:http';
import { loadavg } from 'node:os';
import { setTimeout as wait } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { randomFrom } from '../chaos/random.js';
import { startDesk, type MeasuredDesk, type Vitals } from './desk.js';
import { slowProvider } from './provider.js';

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '5' },
    streams: { type: 'string', default: '200' },
    durable: { type: 'string', default: '0.2' },
    seed: { type: 'string', default: '1' },
  },
});
const MINUTE_MS = 60_000;
/** How much the heap may have grown since the first minute. */
const MOST_GROWTH = 0.1;
const MOST_DELAY_MS = 50;
const USERS = ['alice', 'bob', 'mia'] as const;

/** Readers by what they do with a stream. */
const counts = { read: 0, dropped: 0, stalled: 0, refused: 0 };
const random = randomFrom(Number(values.seed));
const durableShare = Number(values.durable);

await soak();

/** Keeps that many streams open at once for that many minutes, and fails where the heap grows or the event loop is blocked. */
async function soak(): Promise<void> {
  const [minutes, streams] = [Number(values.minutes), Number(values.streams)];
  if (!(minutes >= 2 && streams >= 1 && durableShare >= 0))
    throw new Error('npm run soak -- [--minutes 5] [--streams 200] [--durable 0.2] [--seed 1]: at least two minutes');
  const provider = await slowProvider();
  const desk = await startDesk({ OPENAI_BASE_URL: provider.baseURL, TOOLLOOP_MODEL: 'slow', OPENAI_API_KEY: 'sk-soak' });
  const end = performance.now() + minutes * MINUTE_MS;
  const readers = Array.from({ length: streams }, () => readOn(desk, end));
  await desk.vitals();
  const measured: Vitals[] = [];
  for (let minute = 1; minute <= minutes; minute += 1) {
    await wait(MINUTE_MS);
    const vitals = await desk.vitals();
    measured.push(vitals);
    console.log(`minute ${minute}: ${toLine(vitals)}`);
  }
  await Promise.all(readers);
  await desk.stop();
  provider.server.closeAllConnections();
  provider.server.close();
  console.log(
    `${streams} streams at once: ${counts.read} read, ${counts.dropped} dropped, ${counts.stalled} stalled, ${counts.refused} refused`,
  );
  const problems = problemsOf(measured, desk.output());
  for (const problem of problems) console.error(problem);
  if (problems.length > 0) process.exitCode = 1;
}

function toLine({ heapBytes, delayP99Ms, workP99Ms, longestWorkMs }: Vitals): string {
  const own = `its own work p99 ${workP99Ms.toFixed(1)} ms, at most ${longestWorkMs.toFixed(1)} ms`;
  return `heap ${(heapBytes / 2 ** 20).toFixed(1)} MB, event loop p99 ${delayP99Ms.toFixed(1)} ms (${own}), load of the machine ${loadavg()[0]?.toFixed(1)}`;
}

function problemsOf(measured: readonly Vitals[], output: string): string[] {
  const [first] = measured;
  const last = measured.at(-1);
  const growth = first && last ? last.heapBytes / first.heapBytes - 1 : Number.NaN;
  const slowest = Math.max(...measured.map(({ delayP99Ms }) => delayP99Ms));
  console.log(`heap ${(growth * 100).toFixed(1)} % over the first minute, slowest p99 ${slowest.toFixed(1)} ms`);
  return [
    ...(growth <= MOST_GROWTH ? [] : [`MISSED: the heap grew by ${(growth * 100).toFixed(1)} %, more than ${MOST_GROWTH * 100} %.`]),
    ...(slowest < MOST_DELAY_MS ? [] : [`MISSED: the event loop was late by ${slowest.toFixed(1)} ms at the 99th percentile.`]),
    ...(counts.read > 0 && counts.refused === 0 ? [] : [`MISSED: ${counts.refused} streams were refused.`]),
    ...(/ ERROR |unhandled|unknown_tool/.test(output) ? [`MISSED: the desk logged errors:\n${output.slice(0, 2_000)}`] : []),
  ];
}

/** One reader after the other: most read to the end, some drop their connection, some stop reading for a while. */
async function readOn(desk: MeasuredDesk, end: number): Promise<void> {
  await wait(random() * 2_000);
  while (performance.now() < end) {
    const chance = random();
    const kind = chance < 0.7 ? 'read' : chance < 0.85 ? 'dropped' : 'stalled';
    counts[(await readOnce(desk, kind)) ? kind : 'refused'] += 1;
  }
}

/** Resolves to false where there was no stream. */
function readOnce({ url }: MeasuredDesk, kind: 'read' | 'dropped' | 'stalled'): Promise<boolean> {
  const user = USERS[Math.floor(random() * USERS.length)];
  const body = JSON.stringify({ message: 'Which orders are paid?', ...(random() < durableShare && { durable: true }) });
  const headers = { authorization: `Bearer demo-${user}`, 'content-type': 'application/json' };
  return new Promise((resolve) => {
    const asking = request(`${url}/chat`, { method: 'POST', headers }, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (chunk: string) => {
        text = (text + chunk).slice(-2_000);
      });
      response.on('error', () => resolve(true));
      response.on('close', () => resolve(response.statusCode === 200 && (kind === 'dropped' || text.includes('"type":"run-end"'))));
      if (kind === 'dropped') setTimeout(() => asking.destroy(), 200 + random() * 1_000);
      if (kind === 'stalled') {
        response.pause();
        setTimeout(() => response.resume(), 1_000 + random() * 4_000);
      }
    });
    asking.on('error', () => resolve(kind === 'dropped'));
    asking.end(body);
  });
}
