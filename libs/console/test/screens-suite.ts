import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { Browser, Page } from 'playwright-core';
import { barriersOn, launchChromium, picture } from './browser.js';
import { serveFixtures, type ServedFixtures } from './fixture-pages.js';

/**
 * The looks of the console. Each spec of it shows some, so that several workers share the screens.
 */
const LOOKS = {
  light: { query: 'theme=light', width: 1280 },
  dark: { query: 'theme=dark', width: 1280 },
  mirrored: { query: 'theme=light&dir=rtl', width: 1280 },
  narrow: { query: 'theme=light&language=de', width: 390 },
} as const;

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

/** The screens that show operators what others did. */
const FOR_OPERATORS = /^(?:why|policies|sources|as|evals|usage|audit)/;

/**
 * What shows that a screen is in a state; undefined where it looks as ever. The chat has nothing to
 * wait for.
 */
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

/**
 * What a spec asks of the fixtures, which are open in a browser from before its first test to
 * behind its last.
 */
interface ShownFixtures {
  open(width: number): Promise<Page>;
  /** The address of a screen, such as `state=full&theme=light#/runs`. */
  at(screen: string): string;
}

/** Opens the fixtures in a browser before the tests of a file, and closes both behind them. */
export function showFixtures(): ShownFixtures {
  let browser: Browser;
  let fixtures: ServedFixtures;
  beforeAll(async () => {
    fixtures = await serveFixtures();
    browser = await launchChromium();
  });
  afterAll(async () => {
    await browser?.close();
    await fixtures?.close();
  });
  return {
    open: (width) => browser.newPage({ viewport: { width, height: 800 }, reducedMotion: 'reduce' }),
    at: (screen) => `${fixtures.url}?${screen}`,
  };
}

/**
 * Holds that every screen, in every state, has no barrier and no error, and fits, in some looks.
 */
export function fitInEveryState(
  shown: ShownFixtures,
  looks: readonly (keyof typeof LOOKS)[],
): void {
  describe.each(looks)('the screens of the console, %s', (look) => {
    it.each(SCREENS)(
      'have no barrier and no error, and fit: %s, full, empty, loading, failing and locked',
      async (screen) => {
        const { query, width } = LOOKS[look];
        const page = await shown.open(width);
        const problems: string[] = [];
        for (const state of STATES) {
          page.once('pageerror', (error) => problems.push(`${state}: ${error.message}`));
          await page.goto('about:blank');
          await page.goto(shown.at(`state=${state}&${query}#/${screen}`));
          problems.push(
            ...(await problemsOn(page, { screen, state, width })).map(
              (problem) => `${state}: ${problem}`,
            ),
          );
          await picture(page, `${screen.replaceAll('/', '-')}-${state}-${look}`);
        }
        await page.close();
        expect(problems).toEqual([]);
      },
    );
  });
}

interface Expected {
  readonly screen: string;
  readonly state: string;
  readonly width: number;
}

async function problemsOn(
  page: Page,
  { screen, state, width }: Expected,
): Promise<readonly string[]> {
  await page.locator('#main h1').waitFor();
  await page.evaluate(
    'new Promise((shown) => requestAnimationFrame(() => setTimeout(shown, 150)))',
  );
  const mark = markOf(screen, state);
  if (mark !== undefined) await page.locator(`#main ${mark}`).first().waitFor();
  const hasFailed = state !== 'failing' && (await page.locator('#main .notice.danger').count()) > 0;
  const isWide = (await page.evaluate('document.documentElement.scrollWidth')) !== width;
  return [
    ...(hasFailed ? ['has failed'] : []),
    ...(await barriersOn(page)),
    ...(isWide ? ['is wider than the window'] : []),
    ...(await page.evaluate<readonly string[]>(CUT_OFF)).map((text) => `cuts off “${text}”`),
  ];
}
