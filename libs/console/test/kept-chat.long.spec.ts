import { once } from 'node:events';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { INestApplication } from '@nestjs/common';
import { tool } from '@toolloop/core';
import { call, calls, ScriptedModel, text } from '@toolloop/testing';
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
  const model = new ScriptedModel(
    ['One.', 'Two.', 'Three.', 'Four.'].map((answer) => text(answer)),
  );
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
    expect([await said(alice), alice.url()]).toEqual([
      ['First?', 'One.', 'Second?', 'Two.'],
      address,
    ]);

    await alice.getByRole('link', { name: 'Usage' }).click();
    await alice.getByRole('link', { name: 'Chat' }).click();
    await answered(alice, 'Two.');
    expect([await said(alice), alice.url()]).toEqual([
      ['First?', 'One.', 'Second?', 'Two.'],
      address,
    ]);

    await alice.getByRole('button', { name: 'New conversation' }).click();
    await alice.locator('.welcome').waitFor();
    await askAndRead(alice, 'Third?', 'Three.');
    expect([await said(alice), alice.url()]).toEqual([
      ['Third?', 'Three.'],
      expect.not.stringContaining(address),
    ]);
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

const STAMPS: string[] = [];
const DESK = [
  tool({
    id: 'desk__list',
    description: 'Lists what is in stock.',
    effect: 'read_only',
    reveal: 'all',
    presentation: { label: 'Stock', done: 'Listed the stock', result: 'table' },
    execute: () => [
      { name: 'Lamp', count: 3 },
      { name: 'Desk', count: 1 },
    ],
  }),
  tool({
    id: 'desk__count',
    description: 'Counts what is in stock.',
    effect: 'read_only',
    reveal: 'all',
    presentation: { label: 'Stock', done: 'Counted the stock', result: 'metrics' },
    execute: () => ({ lamps: 3, desks: 1, worth: { amount: 12.5, currency: 'EUR' } }),
  }),
  tool({
    id: 'desk__stamp',
    description: 'Stamps the paper.',
    effect: 'state_change',
    reveal: 'all',
    labels: { returns: 'trusted' },
    execute: () => `stamp ${STAMPS.push('it')}`,
  }),
  tool({
    id: 'desk__burn',
    description: 'Burns the paper.',
    effect: 'state_change',
    reveal: 'all',
    execute: () => 'burnt',
  }),
];
const POLICY = {
  version: 'v1',
  allow: ['desk__*'],
  flow: 'off' as const,
  requireApproval: [{ tools: ['desk__burn'], reason: 'A look first.' }],
};

async function serveDesk(script: ConstructorParameters<typeof ScriptedModel>[0]): Promise<string> {
  const served = await serveConsole(
    { login },
    { loop: { model: new ScriptedModel(script), policy: POLICY, tools: DESK } },
  );
  desks.push(served.app);
  return served.url;
}

const desks: INestApplication[] = [];
afterAll(() => Promise.all(desks.map((desk) => desk.close())));

onChromium('the calls of a conversation', () => {
  it(`are there again once the page is loaded again: their results in their form, and what was asked, which can still be answered${why}`, async () => {
    const address = await serveDesk([
      calls(call('desk__list')),
      text('That is all.'),
      calls(call('desk__burn')),
      text('It is burnt.'),
    ]);
    const alice = await browser.open(address, ['alice', 'secret']);
    await askAndRead(alice, 'What is there?', 'That is all.');
    await askIn(alice, 'Burn it.');
    await alice.getByRole('button', { name: 'Approve' }).waitFor();
    await alice.reload();
    await answered(alice, 'That is all.');
    const card = alice.locator('.call', { hasText: 'Listed the stock' });
    expect(await card.locator('td').allInnerTexts()).toEqual(['Lamp', '3', 'Desk', '1']);
    expect(await barriersOn(alice)).toEqual([]);
    await alice.getByRole('button', { name: 'Approve' }).click();
    await answered(alice, 'It is burnt.');
    await alice.locator('.call.done', { hasText: 'burnt' }).waitFor();
    await alice.reload();
    await answered(alice, 'It is burnt.');
    expect(await alice.locator('.call.done').count()).toBe(2);
    expect(await alice.getByRole('button', { name: 'Approve' }).count()).toBe(0);
    await alice.context().close();
  });
});

onChromium('the figures of a conversation', () => {
  it(`are drawn again as they were once the page is loaded again, beside those of a later answer${why}`, async () => {
    const address = await serveDesk([
      calls(call('desk__count')),
      text('There are four.'),
      calls(call('desk__count'), call('desk__list')),
      text('Still four.'),
    ]);
    const alice = await browser.open(address, ['alice', 'secret']);
    const figures = (): Promise<readonly string[]> =>
      alice.locator('.metrics dt, .metrics dd').allInnerTexts();
    await askAndRead(alice, 'How many?', 'There are four.');
    const drawn = await figures();
    expect(drawn).toHaveLength(6);
    expect(drawn.slice(0, 4)).toEqual(['Lamps', '3', 'Desks', '1']);
    await alice.reload();
    await answered(alice, 'There are four.');
    expect(await figures()).toEqual(drawn);
    await askAndRead(alice, 'And now?', 'Still four.');
    await alice.reload();
    await answered(alice, 'Still four.');
    expect(await figures()).toEqual([...drawn, ...drawn]);
    expect(await alice.locator('.call td').allInnerTexts()).toEqual(['Lamp', '3', 'Desk', '1']);
    expect(await barriersOn(alice)).toEqual([]);
    await alice.context().close();
  });
});

onChromium('an answer on the screen', () => {
  it(`is given anew in its place, with what it changed shown as standing, before and after the page is loaded again${why}`, async () => {
    const stamp = calls(call('desk__stamp'));
    const address = await serveDesk([
      stamp,
      text('Stamped.'),
      stamp,
      text('It has its stamp.'),
      text('Nothing more.'),
    ]);
    const alice = await browser.open(address, ['alice', 'secret']);
    await askAndRead(alice, 'Stamp it.', 'Stamped.');
    const stamps = STAMPS.length;
    await alice.getByRole('button', { name: 'Answer anew' }).click();
    await answered(alice, 'It has its stamp.');
    expect([STAMPS.length, await said(alice)]).toEqual([
      stamps,
      ['Stamp it.', 'It has its stamp.'],
    ]);
    expect(await alice.getByText('made before, and stands').count()).toBe(2);
    expect(await barriersOn(alice)).toEqual([]);
    await alice.reload();
    await answered(alice, 'It has its stamp.');
    expect(await said(alice)).toEqual(['Stamp it.', 'It has its stamp.']);

    await alice.getByRole('button', { name: 'Edit' }).click();
    await alice.getByLabel('Edit').fill('Leave it.');
    await alice.getByRole('button', { name: 'Send' }).first().click();
    await answered(alice, 'Nothing more.');
    expect([STAMPS.length, await said(alice)]).toEqual([stamps, ['Leave it.', 'Nothing more.']]);
    await alice.context().close();
  });
});

onChromium('the button of the composer', () => {
  it(`keeps the focus of the keyboard when the answer is there and Stop becomes Send${why}`, async () => {
    const alice = await browser.open(url, ['alice', 'secret']);
    const answers = new AbortController();
    await alice.route('**/*', async (route) => {
      if (route.request().method() !== 'POST') return route.fallback();
      if (!answers.signal.aborted) await once(answers.signal, 'abort');
      return route.continue();
    });
    await askIn(alice, 'Held?');
    await alice.getByRole('button', { name: 'Stop' }).waitFor();
    await alice.getByLabel('Message').fill('Next?');
    await alice.getByRole('button', { name: 'Stop' }).focus();
    answers.abort();
    await alice.getByRole('button', { name: 'Send' }).waitFor();
    expect(await alice.evaluate('document.activeElement.getAttribute("aria-label")')).toBe('Send');
    await alice.context().close();
  });
});
