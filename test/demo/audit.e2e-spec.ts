import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from '@jest/globals';
import { call, calls, ScriptedModel, text } from '@toolloop/testing';
import { auditIn, verified } from '../../libs/cli/src/looks.js';
import { closeDesks, eventsOf, headersOf, serve } from './served-desk.js';

const KEY = 'a key of more than thirty-two bytes, for tests';
let folder: string | undefined;

afterAll(async () => {
  await closeDesks();
  if (folder !== undefined) await rm(folder, { recursive: true, force: true });
});

describe('the audit of the desk', () => {
  it('is exported to a manager of the tenant alone, in the form that the command reads', async () => {
    const model = new ScriptedModel([
      calls(call('catalog__read', { filter: { name: { contains: 'lamp' } } })),
      text('There is one.'),
    ]);
    const desk = await serve({ model, settings: { auditKey: KEY } });
    await eventsOf(desk, 'alice', 'Is there a lamp?');
    const got = (user: string, path: string) =>
      fetch(desk.url + path, { headers: headersOf(user) });
    const head = await (await got('mia', '/audit/head')).text();
    const lines = await got('mia', '/audit');
    expect([lines.status, lines.headers.get('content-type')]).toEqual([200, 'application/jsonl']);
    folder = await mkdtemp(join(tmpdir(), 'toolloop-audit-'));
    const [exported, headFile] = [join(folder, 'acme.jsonl'), join(folder, 'acme.head.json')];
    await writeFile(exported, await lines.text());
    await writeFile(headFile, head);
    process.env['AUDIT_KEY'] = KEY;
    const options = { head: headFile, tenant: 'acme', keyEnv: ['AUDIT_KEY'] };
    expect((await verified(auditIn(exported, options), options)).text).toMatch(
      /^The audit of acme is valid: .* None of the \d+ entries/,
    );
    for (const path of ['/audit', '/audit/head']) {
      const refused = await got('alice', path);
      expect([refused.status, ((await refused.json()) as { code: string }).code]).toEqual([
        403,
        'not_permitted',
      ]);
      expect((await fetch(desk.url + path)).status).toBe(401);
    }
  });
});
