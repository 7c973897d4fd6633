import { mkdtempSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { INestApplication } from '@nestjs/common';
import { PendingService, ToolLoopService } from '@toolloop/core';
import { AuditTrail } from '@toolloop/core/audit';
import type { EvalReport } from '@toolloop/protocol';
import { verdictsIn } from '@toolloop/evals';
import { call, calls, ScriptedModel } from '@toolloop/testing';
import { assertConsole } from '../src/console-options.js';
import { ALICE, DELETE_NOTE, login, MIA, NOTES_POLICY, serveConsole } from './console-app.js';

const HEADER = 'x-toolloop-console';
const alice = { actor: ALICE, tenant: 'acme' };
const mia = { actor: MIA, tenant: 'acme' };

const folder = mkdtempSync(join(tmpdir(), 'console-'));
const verdicts = join(folder, 'labels', 'verdicts.jsonl');
let app: INestApplication;
let url: string;

function reportOf(name: string): EvalReport {
  const variant = {
    name: 'as it is',
    runs: 0,
    passed: 0,
    passRate: 0,
    flaky: [],
    tokens: 0,
    approvals: 0,
    medianMs: 0,
  };
  return { version: 1, name, variants: [variant], runs: [] };
}

beforeAll(async () => {
  for (const [index, name] of ['older', 'newer'].entries()) {
    const file = join(folder, `${name}.json`);
    writeFileSync(file, JSON.stringify(reportOf(name)));
    utimesSync(file, 1_000 + index, 1_000 + index);
  }
  writeFileSync(join(folder, 'package.json'), '{ "version": "1.0.0" }');
  writeFileSync(join(folder, 'cut.json'), '{ "version": 1, "ru');
  const loop = {
    model: new ScriptedModel([calls(call('notes__delete')), calls(call('notes__delete'))]),
    policy: NOTES_POLICY,
    tools: [DELETE_NOTE],
    operators: (actor: unknown) => (actor === MIA ? ('all' as const) : false),
    audit: { key: 'a key of more than thirty-two bytes, for tests' },
  };
  ({ app, url } = await serveConsole(
    { login, evaluations: { results: folder, verdicts } },
    { loop },
  ));
});
afterAll(async () => {
  await app.close();
  rmSync(folder, { recursive: true });
});

const resultsOf = ({ tenant }: { readonly tenant: string }) => [
  { id: 'a', at: '2026-11-25T00:00:00Z', report: reportOf(`of ${tenant}`) },
];

/** Asks a route of the page as a person who has signed in. */
async function asked(
  name: string,
  path: string,
  body?: object,
): Promise<readonly [status: number, body: unknown]> {
  const entered = await fetch(`${url}/console/session`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', [HEADER]: '1' },
    body: JSON.stringify({ name, password: 'secret' }),
  });
  const cookie = entered.headers.getSetCookie()[0]?.split(';')[0] ?? '';
  const { csrf } = (await (
    await fetch(`${url}/console/session`, { headers: { cookie } })
  ).json()) as { readonly csrf: string };
  const response = await fetch(`${url}/console/${path}`, {
    headers: { cookie, [HEADER]: csrf, 'content-type': 'application/json' },
    ...(body && { method: 'POST', body: JSON.stringify(body) }),
  });
  return [response.status, await response.json()];
}

/** A run of Alice that waits for a manager, and its approval. */
async function waiting(): Promise<{ readonly runId: string; readonly approvalId: string }> {
  const { runId } = await app.get(ToolLoopService).run({ prompt: 'Delete the note.', ...alice });
  const requests = await app.get(PendingService).list(mia, { runId });
  return { runId, approvalId: requests[0]?.approvalId ?? '' };
}

describe('the results of evaluations in a folder', () => {
  it('are listed to an operator of all tenants, the newest first and without what is no report, and each is shown whole', async () => {
    const [, listed] = await asked('mia', 'evaluations');
    expect(listed).toMatchObject([
      {
        id: 'newer',
        at: '1970-01-01T00:16:41.000Z',
        name: 'newer',
        variants: [{ name: 'as it is' }],
      },
      { id: 'older' },
    ]);
    expect(await asked('mia', 'evaluations/older')).toEqual([
      200,
      { id: 'older', at: expect.any(String), report: reportOf('older') },
    ]);
    expect((await asked('mia', 'evaluations/..%2Fpackage'))[0]).toBe(404);
    const entries = [];
    for await (const entry of app.get(AuditTrail).entries('acme')) entries.push(entry);
    expect(entries).toContainEqual(
      expect.objectContaining({ kind: 'operator', action: 'runs', actorId: 'mia', granted: true }),
    );
  });

  it('are read again once a file has changed', async () => {
    writeFileSync(join(folder, 'older.json'), JSON.stringify(reportOf('older, again')));
    expect((await asked('mia', 'evaluations'))[1]).toMatchObject([
      { id: 'older', name: 'older, again' },
      { id: 'newer' },
    ]);
  });

  it('are shown to no one else, and to no one who is not let in', async () => {
    expect(await asked('alice', 'evaluations')).toMatchObject([403, { code: 'not_permitted' }]);
    expect((await fetch(`${url}/console/evaluations`)).status).toBe(401);
  });
});

describe('the results of evaluations that an application gives', () => {
  it('are those that it gives this person', async () => {
    const given = await serveConsole({ login, evaluations: { results: resultsOf } });
    const [here, at] = [url, given.url];
    url = at;
    expect((await asked('alice', 'evaluations'))[1]).toMatchObject([{ id: 'a', name: 'of acme' }]);
    expect((await asked('alice', 'evaluations/b'))[0]).toBe(404);
    expect(await asked('alice', 'verdicts/run-1', { verdict: 'right' })).toMatchObject([
      404,
      { message: 'This application keeps no verdicts.' },
    ]);
    expect(await asked('alice', 'verdicts/run-1')).toEqual([200, []]);
    url = here;
    await given.app.close();
  });
});

describe('the verdict of a person', () => {
  it('is kept about a run that they may see, where evaluations read it, and the last one counts', async () => {
    const { runId } = await waiting();
    expect(await asked('alice', `verdicts/${runId}`, { verdict: 'right' })).toMatchObject([
      201,
      { runId, verdict: 'right', by: 'alice' },
    ]);
    expect(
      await asked('mia', `verdicts/${runId}`, {
        verdict: 'wrong',
        why: ' It asked for the wrong note. ',
      }),
    ).toMatchObject([201, {}]);
    const last = { runId, verdict: 'wrong', why: 'It asked for the wrong note.', by: 'mia' };
    expect(await asked('alice', `verdicts/${runId}`)).toMatchObject([200, [last]]);
    expect(verdictsIn(verdicts)).toMatchObject([last]);
    expect(readFileSync(verdicts, 'utf8').trim().split('\n')).toHaveLength(2);
    expect(await asked('alice', 'verdicts/another', { verdict: 'right' })).toMatchObject([
      404,
      { code: 'unknown_run' },
    ]);
  });

  it('is kept about an approval once that is decided, and not about one of another run', async () => {
    const { runId, approvalId } = await waiting();
    const said = { verdict: 'wrong', approvalId, why: 'The note was needed.' };
    expect(await asked('mia', `verdicts/${runId}`, said)).toMatchObject([
      409,
      { code: 'not_decided' },
    ]);
    await app.get(PendingService).decide({ approvalId, decision: 'approve' }, mia);
    expect((await asked('mia', 'verdicts/another', said))[0]).toBe(400);
    expect((await asked('mia', `verdicts/${runId}`, said))[0]).toBe(201);
    expect(verdictsIn(verdicts).filter((one) => one.runId === runId)).toMatchObject([
      { ...said, by: 'mia' },
    ]);
  });

  it.each([
    {},
    { verdict: 'perhaps' },
    { verdict: 'right', by: 'eve' },
    { verdict: 'right', why: 'x'.repeat(1_001) },
  ])('is refused as %j', async (body) => {
    expect((await asked('alice', 'verdicts/run-1', body))[0]).toBe(400);
  });
});

it('says what the options of evaluations must be', () => {
  const wrong = { login, evaluations: { results: 7, verdicts: { add: () => undefined } } };
  // @ts-expect-error -- an application in JavaScript may give anything
  expect(() => assertConsole(wrong, false)).toThrow(
    /"results".*\n?.*the path of a folder, or a function[^]*"verdicts"/,
  );
});
