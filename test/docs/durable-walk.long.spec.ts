import { afterAll, expect, it } from '@jest/globals';
import { createDatabaseFolder } from '../../libs/durable/test/databases.js';
import { close, closeDesks, headersOf, serve, type ServedDesk } from '../demo/served-desk.js';
import { requestsIn, type ShownRequest } from './curl.js';
import { fencesOf, shownAfter } from './fences.js';
import { missingFrom } from './shown.js';

const DEMO = 'docs/demo.md';

let dropFolder: (() => Promise<void>) | undefined;
afterAll(async () => {
  await closeDesks();
  await dropFolder?.();
});

async function answerTo(
  { path, user, body }: ShownRequest,
  desk: ServedDesk,
  known: ReadonlyMap<string, string>,
): Promise<string> {
  const url = desk.url + path.replaceAll(/\$(\w+)/g, (_, name: string) => known.get(name) ?? '');
  const answer = await (
    await fetch(url, {
      headers: headersOf(user),
      ...(body !== undefined && { method: 'POST', body }),
    })
  ).text();
  // A run may be at work before its start is answered.
  return answer.replace(
    /"status":"running"(.*?)"lastSequence":\d+/,
    '"status":"queued"$1"lastSequence":0',
  );
}

/** A person takes longer to type than a run to come to wait. */
async function untilItWaits(desk: ServedDesk, runId: string): Promise<void> {
  for (let shown = ''; !shown.includes('"status":"waiting"');) {
    shown = await (
      await fetch(`${desk.url}/runs/${runId}`, { headers: headersOf('alice') })
    ).text();
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}

/** The ids that later lines name. */
async function learn(answer: string, known: Map<string, string>, desk: ServedDesk): Promise<void> {
  const [, approval] = /"approvalId":"([^"]+)"/.exec(answer) ?? [];
  const [, run] = /^\{"runId":"([^"]+)"/.exec(answer) ?? [];
  if (approval !== undefined) known.set('APPROVAL', approval);
  if (run === undefined) return;
  known.set('RUN', run);
  await untilItWaits(desk, run);
}

it('a run that outlives its process goes the way the page about the demo shows', async () => {
  const { dataDir, drop } = await createDatabaseFolder();
  dropFolder = drop;
  const shell = fencesOf(DEMO, 'sh').find((one) => one.includes('DATA_DIR')) ?? '';
  const known = new Map<string, string>();
  const lines: string[] = [];
  let desk: ServedDesk | undefined;
  for (const request of requestsIn(shell)) {
    if (request.path === '') {
      if (desk) await close(desk);
      desk = await serve({ settings: { dataDir, auditKey: 'k'.repeat(32) } });
      continue;
    }
    if (!desk) throw new Error('The walk begins with a start.');
    const answer = await answerTo(request, desk, known);
    lines.push(...answer.split('\n'));
    await learn(answer, known, desk);
  }
  const shown = shownAfter(DEMO, 'DATA_DIR');
  expect(shown).toContain('run-end');
  expect(missingFrom(lines, shown)).toEqual([]);
});
