import { afterAll, afterEach, beforeEach, expect, it, jest } from '@jest/globals';
import { PendingNotices } from '../../libs/core/src/plugins/inbox/pending-notices.js';
import { HttpsReceiver, type ReceivedRequest } from '../../libs/toolbox/test/https-receiver.js';
import { closeDesks, serve } from '../demo/served-desk.js';
import { requestsIn } from './curl.js';
import { fencesOf } from './fences.js';
import { missingFrom } from './shown.js';
import { Walk } from './walk.js';

// A database is opened, and takes all of a busy machine for it.
const DEMO = 'docs/demo.md';
const QUARTER_MS = 900_000;

beforeEach(() => {
  jest.useFakeTimers({
    doNotFake: [
      'hrtime',
      'nextTick',
      'performance',
      'queueMicrotask',
      'setImmediate',
      'setInterval',
      'setTimeout',
      'clearInterval',
      'clearTimeout',
    ],
  });
});
afterEach(() => {
  jest.useRealTimers();
});
afterAll(closeDesks);

it('a reminder goes to a receiver on this machine the way the page about the demo shows, and the operator may decide from then on', async () => {
  const receiver = await HttpsReceiver.open();
  const shell = fencesOf(DEMO, 'sh').find((one) => one.includes('WEBHOOK_URL')) ?? '';
  const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
  const desk = await serve({ settings: { webhook: { ...receiver.options, secret } } });
  const walk = new Walk();
  const [_start, ...requests] = requestsIn(shell);
  for (const request of requests) {
    if (request.path !== '') await walk.send(desk.url, request);
    else
      walk.lines.push(
        ...(await quarters(2, receiver, desk.app.get(PendingNotices, { strict: false }))),
      );
  }
  const shown = fencesOf(DEMO, 'text').find((one) => one.includes('webhook-id')) ?? '';
  expect(missingFrom(walk.lines, shown)).toEqual([]);
  expect(JSON.stringify(receiver.got.map(({ body }) => body))).not.toContain('o-1024');
  await receiver.close();
});

/** What is received while so many quarters of an hour pass. */
async function quarters(
  times: number,
  { got }: HttpsReceiver,
  notices: PendingNotices,
): Promise<string[]> {
  const before = got.length;
  for (let time = 0; time < times; time += 1) {
    jest.setSystemTime(Date.now() + QUARTER_MS);
    await notices.sweep();
  }
  return got.slice(before).flatMap(linesOf);
}

function linesOf({ url, headers, body }: ReceivedRequest): string[] {
  const told = Object.entries(headers).map(([name, value]) => `${name}: ${String(value)}`);
  return [`POST ${url}`].concat(told, body);
}
