import { request } from 'node:http';
import { setTimeout as wait } from 'node:timers/promises';
import type { Held, MeasuredDesk } from './desk.js';
import type { ProviderFault } from './provider.js';

const USERS = ['alice', 'bob', 'mia'] as const;
/**
 * A connection that no one uses is closed after five seconds, by Node's server and by its client.
 */
const IDLE_MS = 30_000;
const REST_MS = 8_000;
const MOMENTS = 20;
/** The time between two people who come: 200 are there after half a minute. */
const APART_MS = 150;
const MOMENT_MS = 200;
/**
 * Resources that come and go with each turn of the event loop, and what the probe itself makes of a
 * channel.
 */
const FLEETING = /^(?:Immediate|TickObject|Microtask|PipeWrap|TTYWrap|FSReqCallback|FSReqPromise)$/;

/**
 * Visits by what they do: reads a stream to its end, drops it, stops reading for a while, calls a
 * tool by hand, queues a run and cancels it.
 */
export type Visit = 'read' | 'dropped' | 'stalled' | 'called' | 'cancelled';

/** How often each was done, and how often the desk refused. */
export type VisitCounts = Record<Visit | 'refused', number>;

/** How visitors behave. */
export interface Visitors {
  readonly desk: MeasuredDesk;
  readonly random: () => number;
  /** The share of runs that are durable. */
  readonly durable: number;
  /** The time at which the last visit begins, of `performance.now()`. */
  readonly end: number;
}

/**
 * Lets that many people visit a desk at once, one visit after the other, and resolves when the last
 * has left. They come one after the other: a process that has just started is slow.
 */
export async function visitDesk(visitors: Visitors, atOnce: number): Promise<VisitCounts> {
  const counts: VisitCounts = {
    read: 0,
    dropped: 0,
    stalled: 0,
    called: 0,
    cancelled: 0,
    refused: 0,
  };
  await Promise.all(
    Array.from({ length: atOnce }, (_, number) => visitOn(visitors, counts, number * APART_MS)),
  );
  return counts;
}

/** A provider's faults: one request in ten is refused, fails or breaks off. */
export function someFaults(random: () => number): () => ProviderFault | undefined {
  const faults: readonly ProviderFault[] = ['refuses', 'fails', 'breaks off'];
  return () => (random() < 0.1 ? faults[Math.floor(random() * faults.length)] : undefined);
}

/**
 * The most that a desk holds in some moments without visits, once each kind of visit was made:
 * pools are open then, and timers of the storage come and go.
 */
export async function heldAtRest(visitors: Visitors): Promise<Held> {
  const kinds: readonly Visit[] = ['read', 'dropped', 'stalled', 'called', 'cancelled'];
  await Promise.all(
    kinds.flatMap((kind) => [0, 1].map((durable) => visit({ ...visitors, durable }, kind))),
  );
  await wait(REST_MS);
  const most: Record<string, number> = {};
  for (let moment = 0; moment < MOMENTS; moment += 1) {
    const { held } = await visitors.desk.held();
    for (const [kind, count] of Object.entries(held)) most[kind] = Math.max(most[kind] ?? 0, count);
    await wait(MOMENT_MS);
  }
  return { held: most, unhandled: [] };
}

/**
 * The sentences that say what a desk holds more than it did at rest, and what no one handled. It
 * gets half a minute to let go.
 */
export async function leftovers(desk: MeasuredDesk, rest: Held): Promise<readonly string[]> {
  for (const end = performance.now() + IDLE_MS; ; await wait(1_000)) {
    const { held, unhandled } = await desk.held();
    const more = Object.entries(held).filter(
      ([kind, count]) => !FLEETING.test(kind) && count > (rest.held[kind] ?? 0),
    );
    if (more.length > 0 && performance.now() < end) continue;
    return [
      ...more.map(
        ([kind, count]) =>
          `MISSED: it holds ${count} of ${kind} at rest, and held ${rest.held[kind] ?? 0} before.`,
      ),
      ...(unhandled.length > 0
        ? [`MISSED: ${unhandled.length} rejections were not handled, such as ${unhandled[0]}`]
        : []),
    ];
  }
}

/** What is logged of runs that end because of a fault of the provider. */
const EXPECTED = /\[ToolLoop\] (?:ModelError: |Run \S+ failed \(reference )/;

/** The sentence that tells the errors which a desk has logged and no visit explains. */
export function unexplainedErrors(desk: MeasuredDesk): readonly string[] {
  const errors = desk
    .output()
    .split('\n')
    .filter((line) => / ERROR |unhandled|unknown_tool/.test(line) && !EXPECTED.test(line));
  const kinds = new Map<string, number>();
  for (const kind of errors.map((line) => line.replace(/^.* ERROR /, '').replace(IDS, '…')))
    kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
  const told = [...kinds].map(([kind, count]) => `${count} × ${kind}`);
  return errors.length > 0
    ? [
        `MISSED: the desk logged ${errors.length} errors, the first of them ${errors[0]}\n${told.join('\n')}`,
      ]
    : [];
}

const IDS = /[0-9a-f]{8}-[0-9a-f-]{27}|run_[0-9a-f]{40}/g;

/**
 * The sentences that tell the durable runs which have not ended, though no one visits the desk any
 * more. They get half a minute to end.
 */
export async function unendedRuns(desk: MeasuredDesk): Promise<readonly string[]> {
  for (const end = performance.now() + IDLE_MS; ; await wait(1_000)) {
    const lists = await Promise.all(
      USERS.flatMap((user) => ['running', 'queued'].map((status) => runsOf(desk, user, status))),
    );
    const runs = lists.flat();
    if (runs.length === 0) return [];
    if (performance.now() >= end)
      return [`MISSED: ${runs.length} durable runs have not ended, such as ${runs[0]}.`];
  }
}

async function runsOf(
  desk: MeasuredDesk,
  user: string,
  status: string,
): Promise<readonly string[]> {
  const response = await fetch(`${desk.url}/runs?status=${status}`, {
    headers: { authorization: `Bearer demo-${user}` },
  });
  return ((await response.json()) as readonly { readonly runId: string }[]).map(
    ({ runId }) => runId,
  );
}

async function visitOn(visitors: Visitors, counts: VisitCounts, afterMs: number): Promise<void> {
  const { random, end } = visitors;
  await wait(afterMs);
  while (performance.now() < end) {
    const kind = kindFor(random());
    counts[(await visit(visitors, kind)) ? kind : 'refused'] += 1;
  }
}

function kindFor(chance: number): Visit {
  if (chance < 0.6) return 'read';
  if (chance < 0.75) return 'dropped';
  if (chance < 0.9) return 'stalled';
  return chance < 0.95 ? 'called' : 'cancelled';
}

/** Resolves to false where the desk did not do what was asked. */
async function visit(visitors: Visitors, kind: Visit): Promise<boolean> {
  const { desk, random, durable } = visitors;
  const headers = {
    authorization: `Bearer demo-${USERS[Math.floor(random() * USERS.length)]}`,
    'content-type': 'application/json',
  };
  const post = (path: string, body: object): Promise<Response> =>
    fetch(`${desk.url}${path}`, { method: 'POST', headers, body: JSON.stringify(body) });
  if (kind === 'called') {
    const called = await post('/tools/crm__searchCustomers', { args: { name: 'a' } });
    await called.text();
    return called.status === 200;
  }
  if (kind === 'cancelled') {
    const queued = await post('/runs', { message: 'Which orders are paid?' });
    const { runId } = (await queued.json()) as { readonly runId?: string };
    const cancelled = await post(`/runs/${runId}/cancel`, {});
    await cancelled.text();
    return queued.status === 202 && cancelled.status === 202;
  }
  const body = JSON.stringify({
    message: 'Which orders are paid?',
    ...(random() < durable && { durable: true }),
  });
  return readStream(`${desk.url}/chat`, headers, body, kind, random);
}

function readStream(
  url: string,
  headers: Record<string, string>,
  body: string,
  kind: Visit,
  random: () => number,
): Promise<boolean> {
  return new Promise((resolve) => {
    const asking = request(url, { method: 'POST', headers }, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (chunk: string) => {
        text = (text + chunk).slice(-2_000);
      });
      response.on('error', () => resolve(true));
      response.on('close', () =>
        resolve(
          response.statusCode === 200 && (kind === 'dropped' || text.includes('"type":"run-end"')),
        ),
      );
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
