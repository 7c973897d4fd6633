import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { INestApplication } from '@nestjs/common';
import { ScriptedModel, text } from '@toolloop/testing';
import type { Page } from 'playwright-core';
import { askIn, barriersOn, CHROMIUM, ConsoleBrowser } from './browser.js';
import { login, serveConsole } from './console-app.js';

const why = CHROMIUM === undefined ? ' [skipped: no Chromium is installed]' : '';
const onChromium = CHROMIUM === undefined ? describe.skip : describe;

let app: INestApplication;
let url: string;
let browser: ConsoleBrowser;

beforeAll(async () => {
  if (CHROMIUM === undefined) return;
  const model = new ScriptedModel(['One.', 'Two.', 'Three.', 'Four.'].map((answer) => text(answer)));
  ({ app, url } = await serveConsole({ login }, { loop: { model } }));
  browser = await ConsoleBrowser.launch();
});
afterAll(async () => {
  await browser?.close();
  await app?.close();
});

function answered(page: Page, answer: string): Promise<void> {
  return page.locator('.answer .text', { hasText: answer }).waitFor();
}

async function askAndRead(page: Page, question: string, answer: string): Promise<void> {
  await askIn(page, question);
  await answered(page, answer);
}

/** The questions and answers on the screen. */
function said(page: Page): Promise<readonly string[]> {
  return page.locator('.asked p, .answer .text').allInnerTexts();
}

onChromium('the conversation on the screen', () => {
  it(`is there again once the page is loaded again, continues, and is another's for no other person${why}`, async () => {
    const alice = await browser.open(url, ['alice', 'secret']);
    await askAndRead(alice, 'First?', 'One.');
    const address = alice.url();
    expect(address).toMatch(/#\/chat\/[\w-]+$/);
    await alice.reload();
    await answered(alice, 'One.');
    expect(await said(alice)).toEqual(['First?', 'One.']);
    expect(await barriersOn(alice)).toEqual([]);
    await askAndRead(alice, 'Second?', 'Two.');
    expect([await said(alice), alice.url()]).toEqual([['First?', 'One.', 'Second?', 'Two.'], address]);

    await alice.getByRole('link', { name: 'Usage' }).click();
    await alice.getByRole('link', { name: 'Chat' }).click();
    await answered(alice, 'Two.');
    expect([await said(alice), alice.url()]).toEqual([['First?', 'One.', 'Second?', 'Two.'], address]);

    await alice.getByRole('button', { name: 'New conversation' }).click();
    await alice.locator('.welcome').waitFor();
    await askAndRead(alice, 'Third?', 'Three.');
    expect([await said(alice), alice.url()]).toEqual([['Third?', 'Three.'], expect.not.stringContaining(address)]);
    await alice.goto(address);
    await answered(alice, 'Two.');
    expect(await said(alice)).toEqual(['First?', 'One.', 'Second?', 'Two.']);
    expect(browser.complaints).toEqual([]);

    const mia = await browser.open(url, ['mia', 'secret']);
    const response = mia.waitForResponse('**/conversations/*');
    await mia.goto(address);
    expect((await response).status()).toBe(404);
    await mia.locator('.welcome').waitFor();
    expect(await said(mia)).toEqual([]);
    await Promise.all([alice, mia].map((page) => page.context().close()));
  });
});
