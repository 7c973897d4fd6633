import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
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
let alice: Page;

beforeAll(async () => {
  if (CHROMIUM === undefined) return;
  ({ app, url } = await serveConsole(
    { login },
    { loop: { model: new ScriptedModel([text('One.'), text('Two.')]) } },
  ));
  browser = await ConsoleBrowser.launch();
});
afterAll(async () => {
  await browser?.close();
  await app?.close();
});
beforeEach(async () => {
  if (CHROMIUM === undefined) return;
  alice = await browser.open(url, ['alice', 'secret']);
});

/**
 * Answers every request for a script as a network or a server would, and tells how often each was
 * asked for.
 */
async function answerScripts(
  page: Page,
  name: string,
  answer: 'cut' | 404,
): Promise<{ asked: number; stop(): Promise<void> }> {
  const scripts = new RegExp(`/assets/${name}-[^/]*\\.js`);
  const state = { asked: 0, stop: () => page.unroute(scripts) };
  await page.route(scripts, (route) => {
    state.asked += 1;
    return answer === 'cut'
      ? route.abort('connectionfailed')
      : route.fulfill({ status: answer, body: 'Not found' });
  });
  return state;
}

/** Resolves once the page was loaded so often. */
async function expectLoads(state: { readonly loads: number }, loads: number): Promise<void> {
  while (state.loads < loads) await alice.waitForEvent('domcontentloaded');
}

/** Resolves once a script was asked for so often. */
async function expectAsked(state: { readonly asked: number }, asked: number): Promise<void> {
  while (state.asked < asked) await alice.waitForEvent('requestfailed');
}

/** A promise, and what resolves it. */
function signal(): [promise: Promise<void>, resolve: () => void] {
  const resolvers: (() => void)[] = [];
  const promise = new Promise<void>((resolve) => void resolvers.push(resolve));
  return [promise, () => resolvers[0]?.()];
}

/** The number of times that the page was loaded. */
function countLoads(page: Page): { loads: number } {
  const state = { loads: 0 };
  page.on('domcontentloaded', () => (state.loads += 1));
  return state;
}

const openSection = (name: string): Promise<void> =>
  alice.getByRole('link', { name, exact: true }).click();
const again = (): Promise<void> => alice.getByRole('button', { name: 'Try again' }).click();
const unfetched = (): Promise<void> => alice.getByText('could not be fetched').waitFor();
const shown = (heading: string): Promise<void> =>
  alice.getByRole('heading', { name: heading, exact: true }).waitFor();

onChromium('a section whose script the network has lost', () => {
  for (const script of ['runs-screen', 'virtual-list'])
    it(`is shown once the person tries again, be it its own script or one that it needs: ${script}${why}`, async () => {
      const state = countLoads(alice);
      const lost = await answerScripts(alice, script, 'cut');
      await openSection('Runs');
      await unfetched();
      await again();
      await unfetched();
      await lost.stop();
      await again();
      await shown('Runs');
      expect(state.loads).toBe(0);
      await alice.context().close();
    });

  it(`is fetched again when the person comes back to it${why}`, async () => {
    const state = countLoads(alice);
    const lost = await answerScripts(alice, 'runs-screen', 'cut');
    await openSection('Runs');
    await unfetched();
    await openSection('Usage');
    await shown('Usage');
    await lost.stop();
    await openSection('Runs');
    await shown('Runs');
    expect(state.loads).toBe(0);
    await alice.context().close();
  });
});

/** The words of a language have a script of their own. */
const switchTo = (language: string): Promise<void> =>
  alice.getByRole('button', { name: language, exact: true }).click();
const withoutWords = (): Promise<void> =>
  alice.getByText('The words of this language could not be fetched').waitFor();
const inGerman = (): Promise<void> =>
  alice.getByRole('link', { name: 'Nutzung', exact: true }).waitFor();
const languageOf = (page: Page): Promise<string> =>
  page.evaluate(() => document.documentElement.lang);

onChromium('a language whose words the network has lost', () => {
  it(`is shown once the person tries again, with what was typed kept and the page named by the language that it is in${why}`, async () => {
    const state = countLoads(alice);
    await alice.getByLabel('Message').fill('Not sent yet');
    const lost = await answerScripts(alice, 'de', 'cut');
    await switchTo('Deutsch');
    await withoutWords();
    expect(await languageOf(alice)).toBe('en');
    expect(await barriersOn(alice)).toEqual([]);
    await again();
    await expectAsked(lost, 2);
    await withoutWords();
    await lost.stop();
    await again();
    await inGerman();
    expect([
      await languageOf(alice),
      await alice.locator('textarea').inputValue(),
      state.loads,
    ]).toEqual(['de', 'Not sent yet', 0]);
    expect(await alice.getByText('could not be fetched').count()).toBe(0);
    await alice.context().close();
  });

  it(`is wanted no more once the person has chosen another${why}`, async () => {
    const lost = await answerScripts(alice, 'de', 'cut');
    await switchTo('Deutsch');
    await withoutWords();
    await switchTo('English');
    await alice
      .getByText('The words of this language could not be fetched')
      .waitFor({ state: 'detached' });
    await lost.stop();
    await switchTo('Deutsch');
    await inGerman();
    expect(await languageOf(alice)).toBe('de');
    await alice.context().close();
  });

  it(`is not shown behind the one that was chosen later, if its words come late${why}`, async () => {
    const [held, release] = signal();
    const [asked, ask] = signal();
    await alice.route(/\/assets\/de-[^/]*\.js/, async (route) => {
      ask();
      await held;
      await route.continue();
    });
    await switchTo('Deutsch');
    await asked;
    await switchTo('English');
    const fetched = alice.waitForResponse(/\/assets\/de-[^/]*\.js/);
    release();
    await (await fetched).finished();
    await openSection('Usage');
    await shown('Usage');
    expect(await languageOf(alice)).toBe('en');
    await alice.context().close();
  });
});

onChromium('a language whose words another release has replaced', () => {
  it(`is shown after the page has loaded itself anew once, with the unsent text${why}`, async () => {
    await alice.getByLabel('Message').fill('Not sent yet');
    const state = countLoads(alice);
    const old = await answerScripts(alice, 'de', 404);
    alice.once('domcontentloaded', () => void old.stop());
    await switchTo('Deutsch');
    await inGerman();
    expect([state.loads, await alice.locator('textarea').inputValue()]).toEqual([
      1,
      'Not sent yet',
    ]);
    await alice.context().close();
  });

  it(`is told of after one load if the file is still not there, though other scripts are${why}`, async () => {
    await openSection('Runs');
    await shown('Runs');
    const state = countLoads(alice);
    const old = await answerScripts(alice, 'de', 404);
    await switchTo('Deutsch');
    await withoutWords();
    await shown('Runs');
    await openSection('Usage');
    await shown('Usage');
    expect([state.loads, old.asked]).toEqual([1, 2]);
    await again();
    await expectLoads(state, 2);
    await withoutWords();
    await old.stop();
    await again();
    await inGerman();
    expect(state.loads).toBe(2);
    await alice.context().close();
  });
});

onChromium('a section whose script another release has replaced', () => {
  for (const script of ['runs-screen', 'virtual-list'])
    it(`is shown after the page has loaded itself anew once, with its address, its conversation and the unsent text: ${script}${why}`, async () => {
      await askIn(alice, 'First?');
      await alice.locator('.answer .text').waitFor();
      const answer = await alice.locator('.answer .text').innerText();
      const chat = alice.url();
      await alice.getByLabel('Message').fill('And this is not sent');
      const state = countLoads(alice);
      const old = await answerScripts(alice, script, 404);
      alice.once('domcontentloaded', () => void old.stop());
      await openSection('Runs');
      await shown('Runs');
      expect([state.loads, alice.url()]).toEqual([1, `${url}/console#/runs`]);
      await openSection('Chat');
      await alice.locator('.answer .text', { hasText: answer }).waitFor();
      expect([await alice.getByLabel('Message').inputValue(), alice.url()]).toEqual([
        'And this is not sent',
        chat,
      ]);
      await alice.context().close();
    });

  it(`says so after one load if the file is still not there, and loads anew only when the person tries again${why}`, async () => {
    const state = countLoads(alice);
    const old = await answerScripts(alice, 'runs-screen', 404);
    await openSection('Runs');
    await unfetched();
    expect(state.loads).toBe(1);
    await again();
    await expectLoads(state, 2);
    await unfetched();
    await openSection('Usage');
    await shown('Usage');
    await old.stop();
    await openSection('Runs');
    await shown('Runs');
    expect(state.loads).toBe(2);
    await alice.context().close();
  });

  it(`keeps the unsent text of a person for no other one at the same tab${why}`, async () => {
    await alice.getByLabel('Message').fill('Only mine');
    await alice.getByRole('button', { name: 'Sign out' }).click();
    await alice.getByLabel('Name').fill('mia');
    await alice.getByLabel('Password').fill('secret');
    await alice.keyboard.press('Enter');
    await alice.locator('.nav').waitFor();
    expect(await alice.getByLabel('Message').inputValue()).toBe('');
    await alice.context().close();
  });
});
