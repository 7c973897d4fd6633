import { request } from 'node:http';
import { parseArgs } from 'node:util';
import { BODIES, type Route, ROUTES } from '@toolloop/protocol/routes';
import { randomFrom } from '../chaos/random.js';
import { startDesk } from './desk.js';

const { values } = parseArgs({
  options: {
    requests: { type: 'string', default: '3700' },
    seed: { type: 'string', default: '1' },
  },
});

/** Every route of the demo. `*` stands for a segment that the request chooses. */
const ROUTE_LIST: readonly (readonly [method: string, path: string])[] = [
  'GET /',
  'POST /chat/tickets',
  'POST /mcp',
  ...Object.keys(ROUTES),
].map((key) => {
  const [method = '', path = ''] = key.split(' ');
  return [method, path.replaceAll(/:\w+/g, '*')];
});

const SEGMENTS = [
  '%00',
  '..%2f..%2fetc',
  'a'.repeat(5_000),
  '%F0%9F%92%A5',
  '%E2%80%AE',
  '%ff%fe',
  '%',
  'null',
  '__proto__',
  '-1',
  '1e309',
  '2147483648',
  '9007199254740991',
  "'%3B--",
  '%20',
  'dir_1',
  'run_1',
];
const TEXTS = [
  '',
  ' ',
  '\0',
  '\uD800',
  '\u202Ex',
  "'; drop table x; --",
  '{{7*7}}',
  '../../x',
  'x'.repeat(9_000),
  '9'.repeat(40),
  'NaN',
  '-0',
  '1e309',
  'null',
  '💥',
];
const ODD: readonly unknown[] = [
  null,
  true,
  false,
  0,
  -1,
  1.5,
  2 ** 31,
  2 ** 53 - 1,
  2 ** 53,
  -(2 ** 63),
  [],
  [[]],
  {},
  { length: 3 },
  { __proto__: null, constructor: 1 },
  { toString: null },
  [null],
  'x',
  ...TEXTS,
];
const FIELDS = [
  ...new Set([
    ...[
      ...Object.values(BODIES),
      ...Object.values<Route>(ROUTES).map((route) => route.query),
    ].flatMap((form) => Object.keys(form?.properties ?? {})),
    'ticket',
    'messages',
    '__proto__',
    'constructor',
    'x',
  ]),
];
const TYPES = [
  'application/json',
  'application/json; charset=utf-99',
  'text/plain',
  'application/x-www-form-urlencoded',
  'multipart/form-data',
  '',
  'application/json, text/html',
];
const TOKENS = [
  'Bearer demo-alice',
  'Bearer demo-bob',
  'Bearer demo-mia',
  'Bearer demo-ops',
  'Bearer ',
  'Basic eA==',
  'Bearer demo-alice, Bearer demo-mia',
  '',
];

/** A request that no client of ours would send. */
interface BadRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Buffer;
}

/** A status, or why there was none. */
interface Answered {
  readonly bad: BadRequest;
  readonly status: number | string;
}

const random = randomFrom(Number(values.seed));
const one = <Item>(items: readonly Item[]): Item => {
  const item = items[Math.floor(random() * items.length)];
  if (item === undefined) throw new Error('There is nothing to choose from.');
  return item;
};

/** Headers that are now and then sent, by how often. */
const ODD_HEADERS: readonly (readonly [name: string, chance: number, value: () => string])[] = [
  ['idempotency-key', 0.2, () => one(TEXTS).replaceAll(/[^\x20-\x7E]/g, '') || ','],
  ['last-event-id', 0.2, () => one(['-1', '1e99', '9'.repeat(30), 'x', '0x10', '1.5'])],
  ['host', 0.1, () => one(['evil.example', '127.0.0.1:1', 'localhost@evil.example', '[::1'])],
  ['origin', 0.1, () => one(['null', 'https://evil.example', 'x'])],
  ['content-encoding', 0.1, () => one(['gzip', 'br', 'x'])],
];

await run(Number(values.requests));

/**
 * Sends that many bad requests over all routes, one after the other, and fails where one is
 * answered by 500 or not at all.
 */
async function run(most: number): Promise<void> {
  if (!Number.isSafeInteger(most) || most < 1)
    throw new Error('npm run bad-requests -- [--requests 3700] [--seed 1]');
  const desk = await startDesk();
  const answers: Answered[] = [];
  for (let index = 0; index < most; index += 1) {
    const bad = badRequest(index);
    answers.push({
      bad,
      status: await statusOf(desk.url, bad).catch((error: unknown) => String(error)),
    });
  }
  const isAlive = (await fetch(`${desk.url}/health/ready`)).status === 200;
  await desk.stop();
  const problems = answers
    .filter(({ status }) => typeof status === 'string' || (status >= 500 && status !== 503))
    .map(toLine);
  console.log(summaryOf(answers));
  for (const problem of problems) console.error(problem);
  if (!isAlive) console.error('The desk is not ready any more.');
  if (problems.length > 0 || !isAlive) process.exitCode = 1;
}

function toLine({ bad: { method, path, headers, body: sent }, status }: Answered): string {
  return `${status}: ${method} ${path.slice(0, 120)} ${JSON.stringify(headers)} ${String(sent).slice(0, 200)}`;
}

function summaryOf(answers: readonly Answered[]): string {
  const counts = new Map<string, number>();
  for (const { status } of answers)
    counts.set(String(status), (counts.get(String(status)) ?? 0) + 1);
  const sorted = [...counts].toSorted(([a], [b]) => a.localeCompare(b));
  return sorted.map(([status, count]) => `${count} × ${status}`).join(', ');
}

function badRequest(index: number): BadRequest {
  const [method, template] = ROUTE_LIST[index % ROUTE_LIST.length] ?? ['GET', '/'];
  const path = template.replace('*', () => one(SEGMENTS)) + (random() < 0.5 ? `?${query()}` : '');
  if (method === 'GET') return { method, path, headers: oddHeaders(), body: '' };
  const sent = body();
  const type = random() < 0.8 ? 'application/json' : one(TYPES);
  // Node sends no length with DELETE, and the body would be read as the next request.
  return {
    method,
    path,
    headers: {
      ...oddHeaders(),
      'content-type': type,
      'content-length': String(Buffer.byteLength(sent)),
    },
    body: sent,
  };
}

function oddHeaders(): Record<string, string> {
  const authorization = random() < 0.8 ? one(TOKENS.slice(0, 4)) : one(TOKENS);
  const sent = ODD_HEADERS.filter(([, chance]) => random() < chance).map(
    ([name, , value]) => [name, value()] as const,
  );
  return { authorization, ...Object.fromEntries(sent) };
}

function query(): string {
  const pairs = Array.from({ length: 1 + Math.floor(random() * 3) }, () => {
    const value =
      random() < 0.5
        ? encodeURIComponent(one(TEXTS).replaceAll('\uD800', ''))
        : one(SEGMENTS).slice(0, 200);
    return `${one(FIELDS)}${one(['', '', '[]', '[a]', '[0][0]'])}=${value}`;
  });
  return pairs.join('&');
}

function body(): string | Buffer {
  const chance = random();
  if (chance < 0.05) return '['.repeat(200_000);
  if (chance < 0.08) return `${'{"a":'.repeat(5_000)}1${'}'.repeat(5_000)}`;
  if (chance < 0.12)
    return one([
      '{',
      '{"message":',
      'nul',
      '',
      '"x"',
      '[1]',
      '\u{FEFF}{}',
      '{"message":"a","message":2}',
    ]);
  if (chance < 0.15) return Buffer.from([0xff, 0xfe, 0x7b, 0x7d, 0x00]);
  if (chance < 0.18) return JSON.stringify({ message: 'x'.repeat(2_000_000) });
  const fields = Array.from(
    { length: 1 + Math.floor(random() * 3) },
    () => [one(FIELDS), one(ODD)] as const,
  );
  const base = random() < 0.5 ? [['message', 'Hello.'] as const] : [];
  return JSON.stringify(Object.fromEntries([...base, ...fields]));
}

/** The status alone: a stream that begins is dropped. */
function statusOf(url: string, { method, path, headers, body: sent }: BadRequest): Promise<number> {
  return new Promise((resolve, reject) => {
    const asking = request(
      `${url}/`,
      { method, path: path.replaceAll(/[^\x21-\x7E]/g, ''), headers, timeout: 10_000 },
      (response) => {
        resolve(response.statusCode ?? 0);
        response.on('error', () => undefined);
        setTimeout(() => response.destroy(), 20).unref();
        response.resume();
      },
    );
    asking.on('timeout', () => asking.destroy(new Error('no answer in 10 s')));
    asking.on('error', reject);
    asking.end(sent);
  });
}
