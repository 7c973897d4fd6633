import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { INestApplication } from '@nestjs/common';
import { DurableModule } from '@toolloop/durable';
import { verdictsIn } from '@toolloop/evals';
import { call, calls, ScriptedModel, text } from '@toolloop/testing';
import type { Page } from 'playwright-core';
import { EVALUATIONS } from '../page/fixtures/evaluations.js';
import { askIn, barriersOn, CHROMIUM, ConsoleBrowser, picture } from './browser.js';
import { DELETE_NOTE, login, MIA, NOTES_POLICY, serveConsole } from './console-app.js';

const why = CHROMIUM === undefined ? ' [skipped: no Chromium is installed]' : '';
const onChromium = CHROMIUM === undefined ? describe.skip : describe;

const folder = mkdtempSync(join(tmpdir(), 'console-'));
const verdicts = join(folder, 'labels', 'verdicts.jsonl');
let app: INestApplication;
let url: string;
let browser: ConsoleBrowser;

function open(name: string): Promise<Page> {
  return browser.open(url, [name, 'secret']);
}

beforeAll(async () => {
  if (CHROMIUM === undefined) return;
  for (const { id, report } of EVALUATIONS)
    writeFileSync(join(folder, `${id}.json`), JSON.stringify(report));
  const loop = {
    model: new ScriptedModel([calls(call('notes__delete')), text('It is gone.')]),
    policy: NOTES_POLICY,
    tools: [DELETE_NOTE],
    operators: (actor: unknown) => (actor === MIA ? ('all' as const) : false),
  };
  ({ app, url } = await serveConsole(
    { login, evaluations: { results: folder, verdicts } },
    { loop, modules: [DurableModule.forRoot({ memory: true })] },
  ));
  browser = await ConsoleBrowser.launch();
});
afterAll(async () => {
  await browser?.close();
  await app?.close();
  rmSync(folder, { recursive: true });
});

onChromium('the console of an application that evaluates', () => {
  it(`asks a person whether a run and its approval were right, and keeps both answers where evaluations read them${why}`, async () => {
    const [alice, mia] = [await open('alice'), await open('mia')];
    await askIn(alice, 'Delete the note.');
    await mia.locator('.count').waitFor();
    await mia.goto(`${url}/console#/inbox`);
    await mia.locator('[data-triage]').waitFor();
    await mia.locator('#main').focus();
    for (const key of ['a', 'Enter']) await mia.keyboard.press(key);
    await alice.locator('.answer .text', { hasText: 'It is gone.' }).waitFor();
    await alice.getByRole('link', { name: 'Open the run' }).press('Enter');
    const ofApproval = alice.getByRole('group', { name: 'Was this decision right?' });
    await ofApproval.getByRole('button', { name: 'Wrong' }).press('Enter');
    await alice.keyboard.type('She has not read it.');
    await alice.keyboard.press('Enter');
    await ofApproval.getByText('She has not read it.').waitFor();
    const ofRun = alice.getByRole('group', { name: 'Was this run right?' });
    await ofRun.getByRole('button', { name: 'Right' }).press('Enter');
    await ofRun.getByText('alice').waitFor();
    expect(await barriersOn(alice)).toEqual([]);
    await picture(alice, 'verdicts');
    await alice.reload();
    await alice.locator('.said-bar button[aria-pressed=true]').nth(1).waitFor();
    const said = verdictsIn(verdicts).map(({ verdict, why: reason, approvalId }) => [
      verdict,
      reason,
      approvalId !== undefined,
    ]);
    expect(said).toEqual([
      ['wrong', 'She has not read it.', true],
      ['right', undefined, false],
    ]);
    expect(await alice.getByRole('link', { name: 'Evaluations' }).count()).toBe(1);
    await Promise.all([alice.context().close(), mia.context().close()]);
  });

  it(`shows results side by side, and why a run of a case did not pass${why}`, async () => {
    const mia = await open('mia');
    await mia.locator('#main').focus();
    for (const key of ['g', 'e']) await mia.keyboard.press(key);
    await mia.getByRole('heading', { name: 'refunds' }).waitFor();
    await mia.goto(`${url}/console#/evals/refunds-2026-11-25`);
    await mia.getByLabel('Beside').selectOption('refunds-2026-11-18');
    await mia.getByText('was 87%').first().waitFor();
    await mia.getByRole('button', { name: 'Changed' }).press('Enter');
    await mia.getByRole('button', { name: '0 of 3 was 3 of 3' }).press('Enter');
    await mia.getByRole('heading', { name: 'Before' }).waitFor();
    await mia.getByText('Missing: customer_*_getAverageSpend.').first().waitFor();
    expect(await barriersOn(mia)).toEqual([]);
    await picture(mia, 'evaluations');
    await mia.context().close();
  });

  it(`leaves no error in the log of the browser${why}`, () => {
    expect(browser.complaints).toEqual([]);
  });
});
