import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { Browser } from 'playwright-core';
import { barriersOn, launchChromium, picture } from './browser.js';
import { serveFixtures, type ServedFixtures } from './fixture-pages.js';

const SCREENS = [
  'chat',
  'runs',
  'runs/a-run',
  'runs/a-run/timeline',
  'runs/a-run/events',
  'runs/a-run/path/c-123',
  'inbox',
  'tools/crm__searchCustomers',
  'why/orders__sendReceipt',
  'policies/2',
  'policies/stops',
  'policies/draft',
  'sources',
  'as/alice',
  'evals',
  'evals/refunds-2026-11-25/refunds-2026-11-18',
  'usage',
  'usage/actor',
  'usage/tenant',
  'runs/of',
  'audit',
];
const STATES = ['full', 'empty', 'loading', 'failing', 'locked'];
const LOOKS = [
  { name: 'light', query: 'theme=light', width: 1280 },
  { name: 'dark', query: 'theme=dark', width: 1280 },
  { name: 'mirrored', query: 'theme=light&dir=rtl', width: 1280 },
  { name: 'narrow', query: 'theme=light&language=de', width: 390 },
];

/** The screens that show operators what others did. */
const FOR_OPERATORS = /^(?:why|policies|sources|as|evals|usage|audit)/;

/** What shows that a screen is in a state; undefined where it looks as ever. The chat has nothing to wait for. */
function markOf(screen: string, state: string): string | undefined {
  if (screen === 'chat') return undefined;
  if (state === 'loading') return '.loading';
  if (state === 'failing') return '.notice.danger';
  return state === 'locked' && FOR_OPERATORS.test(screen) ? '.notice.locked' : undefined;
}

/** Finds what is cut off where nothing scrolls, and texts with a letter on each line. */
const CUT_OFF = `(() => {
  const scrolls = (node) => !!node && node.id !== 'main' && (/auto|scroll/.test(getComputedStyle(node).overflowX) || scrolls(node.parentElement));
  const wrong = [...document.querySelectorAll('#main :is(button, a, h1, h2, h3, strong, .chip, td, th)')].filter((node) => {
    const { left, right, width, height } = node.getBoundingClientRect();
    if (width === 0 || scrolls(node.parentElement)) return false;
    return left < -1 || right > innerWidth + 1 || (width < 24 && height > 60 && node.textContent.trim().length > 3);
  });
  return wrong.map(({ textContent }) => textContent.trim());
})()`;

let browser: Browser;
let fixtures: ServedFixtures;
let url: string;

beforeAll(async () => {
  fixtures = await serveFixtures();
  ({ url } = fixtures);
  browser = await launchChromium();
});
afterAll(async () => {
  await browser?.close();
  await fixtures?.close();
});

describe.each(LOOKS)('the screens of the console, $name', ({ name, query, width }) => {
  it.each(SCREENS)('have no barrier and no error, and fit: %s, full, empty, loading, failing and locked', async (screen) => {
    const context = await browser.newContext({ viewport: { width, height: 800 }, reducedMotion: 'reduce' });
    const page = await context.newPage();
    const problems: string[] = [];
    for (const state of STATES) {
      page.once('pageerror', (error) => problems.push(`${state}: ${error.message}`));
      await page.goto('about:blank');
      await page.goto(`${url}?state=${state}&${query}#/${screen}`);
      await page.locator('#main h1').waitFor();
      await page.evaluate('new Promise((shown) => requestAnimationFrame(() => setTimeout(shown, 150)))');
      const mark = markOf(screen, state);
      if (mark !== undefined) await page.locator(`#main ${mark}`).first().waitFor();
      if (state !== 'failing' && (await page.locator('#main .notice.danger').count()) > 0) problems.push(`${state}: has failed`);
      await picture(page, `${screen.replaceAll('/', '-')}-${state}-${name}`);
      problems.push(...(await barriersOn(page)).map((barrier) => `${state}: ${barrier}`));
      if ((await page.evaluate('document.documentElement.scrollWidth')) !== width) problems.push(`${state}: is wider than the window`);
      problems.push(...(await page.evaluate<readonly string[]>(CUT_OFF)).map((text) => `${state}: cuts off “${text}”`));
    }
    await context.close();
    expect(problems).toEqual([]);
  });
});

describe('a run of 10,000 events', () => {
  it('has at most 200 rows in the document in each of its readings', async () => {
    const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
    for (const [reading, rows] of [
      ['story', 'article'],
      ['events', '.virtual li'],
      ['timeline', 'rect'],
    ]) {
      await page.goto('about:blank');
      await page.goto(`${url}?state=long&theme=light#/runs/a-run/${reading}`);
      await page.getByText('event 10,000 of 10,000').waitFor();
      const shown = await page.locator(rows ?? '').count();
      expect([reading, shown > 10, shown <= 200]).toEqual([reading, true, true]);
    }
    await page.close();
  });
});
