import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from '@jest/globals';
import { close, closeDesks, headersOf, serve, type ServedDesk } from '../demo/served-desk.js';
import { requestsIn, type ShownRequest } from './curl.js';
import { fencesOf } from './fences.js';
import { missingFrom } from './shown.js';

const README = 'README.md';

let folder: string | undefined;
afterAll(async () => {
  await closeDesks();
  if (folder !== undefined) await rm(folder, { recursive: true, force: true });
});

async function answerTo({ path, user, body }: ShownRequest, desk: ServedDesk, known: ReadonlyMap<string, string>): Promise<string> {
  const url = desk.url + path.replaceAll(/\$(\w+)/g, (_, name: string) => known.get(name) ?? '');
  return (await fetch(url, { headers: headersOf(user), ...(body !== undefined && { method: 'POST', body }) })).text();
}

/** A person takes longer to type than a run to come to wait. */
async function untilItWaits(desk: ServedDesk, runId: string): Promise<void> {
  for (let shown = ''; !shown.includes('"status":"waiting"');) {
    shown = await (await fetch(`${desk.url}/runs/${runId}`, { headers: headersOf('alice') })).text();
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

it('a run that outlives its process goes the way the README shows', async () => {
  folder = await mkdtemp(join(tmpdir(), 'toolloop-walk-'));
  const shell = fencesOf(README, 'sh').find((one) => one.includes('DATA_DIR')) ?? '';
  const known = new Map<string, string>();
  const lines: string[] = [];
  let desk: ServedDesk | undefined;
  for (const request of requestsIn(shell)) {
    if (request.path === '') {
      if (desk) await close(desk);
      desk = await serve({ settings: { dataDir: join(folder, 'data'), auditKey: 'k'.repeat(32) } });
      continue;
    }
    if (!desk) throw new Error('The walk begins with a start.');
    const answer = await answerTo(request, desk, known);
    lines.push(...answer.split('\n'));
    await learn(answer, known, desk);
  }
  const shown = fencesOf(README, 'text')[3] ?? '';
  expect(shown).toContain('run-end');
  expect(missingFrom(lines, shown)).toEqual([]);
}, 60_000);
