import { once } from 'node:events';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { INestApplication } from '@nestjs/common';
import { DurableModule } from '@toolloop/durable';
import { call, calls, ScriptedModel, text } from '@toolloop/testing';
import type { Page } from 'playwright-core';
import { askIn, barriersOn, CHROMIUM, ConsoleBrowser } from './browser.js';
import { DELETE_NOTE, login, MIA, serveConsole } from './console-app.js';

const why = CHROMIUM === undefined ? ' [skipped: no Chromium is installed]' : '';
const onChromium = CHROMIUM === undefined ? describe.skip : describe;

const POLICY = { version: 'v1', allow: ['notes__*'] };

let app: INestApplication;
let url: string;
let browser: ConsoleBrowser;

beforeAll(async () => {
  if (CHROMIUM === undefined) return;
  const loop = {
    model: new ScriptedModel([
      calls(call('notes__delete')),
      text('It is gone.'),
      text('There is nothing to do.'),
    ]),
    models: { silent: new ScriptedModel([]) },
    policy: POLICY,
    candidates: { strict: { ...POLICY, version: 'v2', deny: ['notes__delete'] } },
    tools: [DELETE_NOTE],
    operators: (actor: unknown) => actor === MIA,
  };
  ({ app, url } = await serveConsole(
    { login },
    { loop, modules: [DurableModule.forRoot({ memory: true })] },
  ));
  browser = await ConsoleBrowser.launch();
});
afterAll(async () => {
  await browser?.close();
  await app?.close();
});

/** The dialog of a rehearsal, on the page of a run that has ended. */
async function openDialog(): Promise<Page> {
  const mia = await browser.open(url, ['mia', 'secret']);
  await askIn(mia, 'Delete the note.');
  await mia.locator('.answer .text', { hasText: 'It is gone.' }).waitFor();
  await mia.getByRole('link', { name: 'Open the run' }).press('Enter');
  await mia.locator('.run-head .chip', { hasText: 'Ended' }).waitFor();
  await mia.getByRole('button', { name: 'Rehearse' }).press('Enter');
  return mia;
}

interface HeldQuestions {
  /** How many there were. */
  count(): number;
  answer(): void;
}

/** Keeps the questions to an address until they are to be answered, as a slow policy does. */
async function held(page: Page, address: string): Promise<HeldQuestions> {
  const answers = new AbortController();
  const { signal } = answers;
  let count = 0;
  await page.route(address, async (route) => {
    if (route.request().method() !== 'POST') return route.fallback();
    count += 1;
    if (!signal.aborted) await once(signal, 'abort');
    return route.continue();
  });
  return { count: () => count, answer: () => answers.abort() };
}

onChromium('the dialog of a rehearsal', () => {
  it(`asks a slow policy once, and says so, and the question as it is once, however often they are asked for; and says that a model came to no answer${why}`, async () => {
    const mia = await openDialog();
    const button = mia.getByRole('button', { name: 'Rehearse it' });
    const status = mia.getByText('The run is rehearsed.');

    await mia.getByLabel('Policy').selectOption('strict');
    const compared = await held(mia, '**/rehearse');
    await button.dblclick();
    await status.waitFor();
    expect(await button.isDisabled()).toBe(true);
    expect(await barriersOn(mia)).toEqual([]);
    compared.answer();
    await mia.getByText('1 decision would turn out otherwise.').waitFor();
    expect([compared.count(), await status.count(), await button.isDisabled()]).toEqual([
      1,
      0,
      false,
    ]);

    await mia.getByLabel('Policy').selectOption('');
    await mia.getByLabel('Model').selectOption('silent');
    await button.press('Enter');
    await mia.getByRole('alert').getByText('The other model has come to no answer').waitFor();
    expect(await button.isDisabled()).toBe(false);

    await mia.getByLabel('Model').selectOption('');
    expect(await mia.getByRole('alert').count()).toBe(0);
    const asked = await held(mia, '**/runs');
    await button.dblclick();
    await status.waitFor();
    asked.answer();
    await mia.locator('.run-head .chip', { hasText: 'Rehearse' }).waitFor();
    expect([asked.count(), browser.complaints]).toEqual([1, []]);
    await mia.context().close();
  });
});
