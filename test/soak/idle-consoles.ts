import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { loadavg } from 'node:os';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { type MeasuredDesk, startDesk } from './desk.js';

const CONSOLES = 100;
const EVENTS_PER_S = 10;
const MEASURED_MS = 60_000;
/** The share of a core that they may add to that of the desk without them, in percent. */
const MOST_CPU = 5;
/**
 * The first and longest ask nothing of a person; each fourth waits for one, which changes every
 * inbox.
 */
const QUESTIONS = [
  'What is the average spend of John Smith?',
  'Which products are in stock?',
  'What is the average spend of John Smith?',
  'Refund order o-1021',
];

/** What the process of the consoles has seen. */
interface Seen {
  readonly notices: number;
  readonly asked: number;
  readonly refused: number;
}

/**
 * Measures what open consoles that nobody touches cost the desk while its runs have so many events
 * a second: the difference to the same minute without consoles. Returns what was missed.
 */
export async function measureIdleConsoles(): Promise<readonly string[]> {
  const desk = await startDesk();
  try {
    await runFor(desk, MEASURED_MS / 4);
    const without = await shareOf(desk);
    const consoles = openConsoles(desk);
    await once(consoles, 'message');
    await runFor(desk, MEASURED_MS / 4);
    const before = await seenBy(consoles);
    const withThem = await shareOf(desk);
    const after = await seenBy(consoles);
    consoles.kill('SIGKILL');
    const cost = withThem.percent - without.percent;
    const [notices, asked] = [after.notices - before.notices, after.asked - before.asked];
    console.log(
      [
        `${CONSOLES} consoles at ${withThem.events.toFixed(1)} events a second: ${cost.toFixed(1)} % of a core `,
        `(${withThem.percent.toFixed(1)} with, ${without.percent.toFixed(1)} without), ${notices} notices and ${asked} looks into the inbox in ${MEASURED_MS / 1_000} s, `,
        `load of the machine ${loadavg()[0]?.toFixed(1)}`,
      ].join(''),
    );
    return [
      ...(after.refused === 0
        ? []
        : [`MISSED: ${after.refused} requests of the consoles were refused.`]),
      ...(notices >= CONSOLES ? [] : ['MISSED: the consoles were told of nothing.']),
      ...(cost < MOST_CPU ? [] : [`MISSED: the consoles cost ${cost.toFixed(1)} % of a core.`]),
    ];
  } finally {
    await desk.stop();
  }
}

function openConsoles({ url }: MeasuredDesk): ChildProcess {
  const script = fileURLToPath(new URL('consoles.process.mjs', import.meta.url));
  return spawn(process.execPath, [script, url, 'alice', 'demo-alice', String(CONSOLES)], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
}

async function seenBy(consoles: ChildProcess): Promise<Seen> {
  consoles.send('seen');
  const [seen] = (await once(consoles, 'message')) as [Seen];
  return seen;
}

interface Share {
  readonly percent: number;
  readonly events: number;
}

async function shareOf(desk: MeasuredDesk): Promise<Share> {
  await desk.vitals(); // what was made before is collected before
  const [began, cpu] = [performance.now(), await desk.cpuMs()];
  const events = await runFor(desk, MEASURED_MS);
  const took = performance.now() - began;
  return { percent: (((await desk.cpuMs()) - cpu) / took) * 100, events: (events / took) * 1_000 };
}

/**
 * Asks one question after the other, at the pace of the events that they bring, and returns how
 * many those were.
 */
async function runFor(desk: MeasuredDesk, ms: number): Promise<number> {
  let events = 0;
  for (let [began, index] = [performance.now(), 0]; performance.now() - began < ms; index += 1) {
    events += await askFor(desk, QUESTIONS[index % QUESTIONS.length] ?? '');
    await wait(Math.max(0, (events / EVENTS_PER_S) * 1_000 - (performance.now() - began)));
  }
  return events;
}

async function askFor({ url }: MeasuredDesk, message: string): Promise<number> {
  const headers = { authorization: 'Bearer demo-alice', 'content-type': 'application/json' };
  const response = await fetch(`${url}/chat`, {
    method: 'POST',
    headers,
    body: JSON.stringify({ message }),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${response.status} ${text}`);
  return text.split('\ndata: ').length;
}
