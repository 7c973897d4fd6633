import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { loadavg } from 'node:os';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { type MeasuredDesk, startDesk } from './desk.js';

const { values } = parseArgs({
  options: {
    runs: { type: 'string', default: '1000' },
    readers: { type: 'string', default: '10' },
    'at-once': { type: 'string', default: '500' },
  },
});
const USER = 'demo-alice';
const IDLE_MS = 20_000;
/**
 * How long V8 collects what 10,000 new connections left behind: in the first 20 seconds that is
 * more than half of the process's work.
 */
const COLLECTED_AFTER_MS = 60_000;
/** The share of a core that idle readers may add to that of the desk without them, in percent. */
const MOST_CPU = 5;
const LONGEST_READINESS_MS = 250;
/** Support needs a manager for it, so its run waits. */
const MESSAGE = 'Refund order o-1021, it arrived broken.';

/** The counts of the process of the readers. */
interface Counts {
  readonly events: number;
  readonly ended: number;
  readonly refused: number;
}

await readers(Number(values.runs), Number(values.readers));

/**
 * Has that many clients read the events of that many waiting runs over HTTP, and fails where they
 * keep the desk busy or its readiness waiting.
 */
async function readers(runs: number, each: number): Promise<void> {
  if (!(runs >= 1 && each >= 1))
    throw new Error('npm run soak:readers -- [--runs 1000] [--readers 10] [--at-once 500]');
  const desk = await startDesk();
  const runIds = await startRuns(desk, runs);
  await untilAllWait(desk, runIds);
  const idleBefore = await idleShare(desk);
  const clients = startClients(desk, each);
  await desk.vitals();
  const connected = once(clients, 'message');
  const began = performance.now();
  clients.send(runIds);
  const whileConnecting = await slowestReadiness(desk, connected);
  const took = (performance.now() - began) / 1_000;
  const { workP99Ms, longestWorkMs } = await desk.vitals();
  const shown = await settled(clients);
  const idle = await idleShare(desk);
  const whileIdle = await slowestReadiness(desk, wait(IDLE_MS / 2));
  const [runId = ''] = runIds;
  await post(desk, `/runs/${runId}/cancel`, {});
  const after = await counted(clients, ({ ended }) => ended >= each);
  clients.kill('SIGKILL');
  await desk.stop();
  console.log(
    [
      `${runs * each} readers of ${runs} runs, connected in ${took.toFixed(1)} s, ${(shown.events / runs / each).toFixed(1)} events each: `,
      `its own work p99 ${workP99Ms.toFixed(1)} ms, at most ${longestWorkMs.toFixed(1)} ms meanwhile, `,
      `readiness within ${whileConnecting.toFixed(0)} ms meanwhile and ${whileIdle.toFixed(0)} ms later, `,
      `${idle.toFixed(1)} % of a core when idle (${idleBefore.toFixed(1)} % without readers), load of the machine ${loadavg()[0]?.toFixed(1)}`,
    ].join(''),
  );
  const problems = problemsOf({
    each,
    idle: idle - idleBefore,
    slowest: Math.max(whileConnecting, whileIdle),
    after,
  });
  if (desk.output().includes('unhandled'))
    problems.push(`MISSED: the desk logged errors:\n${desk.output().slice(0, 2_000)}`);
  for (const problem of problems) console.error(problem);
  if (problems.length > 0) process.exitCode = 1;
}

interface Measured {
  readonly each: number;
  readonly idle: number;
  readonly slowest: number;
  readonly after: Counts;
}

function problemsOf({ each, idle, slowest, after }: Measured): string[] {
  return [
    ...(after.refused === 0 ? [] : [`MISSED: ${after.refused} readers were refused.`]),
    ...(after.ended === each
      ? []
      : [`MISSED: ${after.ended} readers were shown the end of a run that has ${each}.`]),
    ...(idle < MOST_CPU ? [] : [`MISSED: idle readers added ${idle.toFixed(1)} % of a core.`]),
    ...(slowest < LONGEST_READINESS_MS ? [] : [`MISSED: readiness took ${slowest.toFixed(0)} ms.`]),
  ];
}

async function post(
  { url }: MeasuredDesk,
  path: string,
  body: object,
): Promise<{ readonly runId: string }> {
  const headers = { authorization: `Bearer ${USER}`, 'content-type': 'application/json' };
  const response = await fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body) });
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return (await response.json()) as { readonly runId: string };
}

async function startRuns(desk: MeasuredDesk, runs: number): Promise<readonly string[]> {
  const ids: string[] = [];
  for (let index = 0; index < runs; index += 1)
    ids.push((await post(desk, '/runs', { message: MESSAGE })).runId);
  return ids;
}

async function untilAllWait({ url }: MeasuredDesk, runIds: readonly string[]): Promise<void> {
  for (const runId of runIds.toReversed()) {
    for (let status = ''; status !== 'waiting'; await wait(status === 'waiting' ? 0 : 50)) {
      const response = await fetch(`${url}/runs/${runId}`, {
        headers: { authorization: `Bearer ${USER}` },
      });
      ({ status } = (await response.json()) as { readonly status: string });
      if (status === 'ended') throw new Error('A run that is to wait has ended.');
    }
  }
}

function startClients({ url }: MeasuredDesk, each: number): ChildProcess {
  const script = fileURLToPath(new URL('readers.process.mjs', import.meta.url));
  return spawn(process.execPath, [script, url, USER, String(each), values['at-once']], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
}

async function countsOf(clients: ChildProcess): Promise<Counts> {
  clients.send('counts');
  const [counts] = (await once(clients, 'message')) as [Counts];
  return counts;
}

/** Resolves to the counts once they are as wanted, or after half a minute. */
async function counted(
  clients: ChildProcess,
  isWanted: (counts: Counts) => boolean,
): Promise<Counts> {
  for (const until = Date.now() + 30_000; ; await wait(100)) {
    const counts = await countsOf(clients);
    if (isWanted(counts) || Date.now() > until) return counts;
  }
}

/** Resolves once all was shown that there was. */
async function settled(clients: ChildProcess): Promise<Counts> {
  let [before, same] = [-1, 0];
  const counts = await counted(clients, ({ events }) => {
    same = events === before ? same + 1 : 0;
    before = events;
    return same >= 30;
  });
  await wait(COLLECTED_AFTER_MS);
  return counts;
}

/** Resolves to the share of one core that the desk takes in a while, in percent. */
async function idleShare(desk: MeasuredDesk): Promise<number> {
  const [before, began] = [await desk.cpuMs(), performance.now()];
  await wait(IDLE_MS);
  return (((await desk.cpuMs()) - before) / (performance.now() - began)) * 100;
}

/**
 * Resolves to the longest time that readiness took, asked again and again until `until` settles.
 */
async function slowestReadiness({ url }: MeasuredDesk, until: Promise<unknown>): Promise<number> {
  const over = until.then(() => true);
  for (let slowest = 0; ;) {
    const began = performance.now();
    const { status } = await fetch(`${url}/health/ready`);
    slowest = Math.max(
      slowest,
      status === 200 ? performance.now() - began : Number.POSITIVE_INFINITY,
    );
    if (await Promise.race([over, wait(250, false)])) return slowest;
  }
}
