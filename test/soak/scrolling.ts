import type { Browser, Page } from 'playwright-core';
import { CHROMIUM, launchChromium } from '../../libs/console/test/browser.js';
import { serveFixtures } from '../../libs/console/test/fixture-pages.js';

const MOST_ROWS = 200;
const LONGEST_TASK_MS = 50;

interface LongPlace {
  readonly name: string;
  readonly route: string;
  /** The element that is there once all of it has come. */
  readonly shown: string;
  readonly rows: string;
}

const ALL_EVENTS = 'text=event 10,000 of 10,000';
const PLACES: readonly LongPlace[] = [
  { name: 'a list of 100,000 runs', route: 'runs', shown: '.run-row', rows: '.virtual li' },
  {
    name: 'the log of 10,000 events',
    route: 'runs/a-run/events',
    shown: ALL_EVENTS,
    rows: '.virtual li',
  },
  {
    name: 'the story of 10,000 events',
    route: 'runs/a-run/story',
    shown: ALL_EVENTS,
    rows: 'article',
  },
  {
    name: 'the timeline of 10,000 events',
    route: 'runs/a-run/timeline',
    shown: ALL_EVENTS,
    rows: 'rect',
  },
];

/** What one walk through a place has shown. */
interface Scrolled {
  readonly frames: number;
  readonly rows: number;
  /** The tasks over 50 ms by the clock, as the page's `PerformanceObserver` has them. */
  readonly longTasks: number;
}

/**
 * Scrolls what is longest in the console, in a browser, and returns what was missed. By the clock a
 * task of 5 ms is a long one on a machine whose processors are with others, so what counts is the
 * time that the page's thread had a processor; on a quiet machine both are the same.
 */
export async function measureScrolling(): Promise<readonly string[]> {
  if (CHROMIUM === undefined) return ['MISSED: no Chromium is installed: apt-get install chromium'];
  const fixtures = await serveFixtures();
  const browser = await launchChromium();
  try {
    const missed: string[] = [];
    for (const place of PLACES)
      missed.push(
        ...(await measured(
          browser,
          place,
          `${fixtures.url}?state=long&theme=light#/${place.route}`,
        )),
      );
    return missed;
  } finally {
    await browser.close();
    await fixtures.close();
  }
}

async function measured(
  browser: Browser,
  { name, shown, rows: row }: LongPlace,
  url: string,
): Promise<string[]> {
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  await page.goto(url);
  await page.locator(shown).first().waitFor();
  await page.evaluate('new Promise((settled) => setTimeout(settled, 1000))');
  await browser.startTracing(page, { categories: ['toplevel'] });
  const { frames, rows, longTasks } = await scroll(page, row);
  const longest = longestTaskMs(await browser.stopTracing());
  await page.close();
  console.log(
    `${name}: at most ${rows} rows in the document in ${frames} frames of scrolling, the longest task ${longest.toFixed(1)} ms of a processor, ${longTasks} over ${LONGEST_TASK_MS} ms by the clock`,
  );
  return [
    ...(rows > 0 && rows <= MOST_ROWS ? [] : [`MISSED: ${name} has ${rows} rows in the document.`]),
    ...(longest < LONGEST_TASK_MS
      ? []
      : [`MISSED: ${name} is scrolled in a task of ${longest.toFixed(1)} ms.`]),
  ];
}

/** An entry of Chromium's trace. */
interface TraceEvent {
  readonly name: string;
  readonly pid: number;
  readonly tid: number;
  readonly args?: { readonly name?: string };
  /** Microseconds on a processor. */
  readonly tdur?: number;
}

/** The longest task of the threads on which pages run. */
function longestTaskMs(trace: Buffer): number {
  const { traceEvents } = JSON.parse(trace.toString()) as {
    readonly traceEvents: readonly TraceEvent[];
  };
  const nameOf = ({ pid, tid }: TraceEvent): string => `${pid} ${tid}`;
  const pages = new Set(
    traceEvents
      .filter(({ name, args }) => name === 'thread_name' && args?.name === 'CrRendererMain')
      .map((event) => nameOf(event)),
  );
  const tasks = traceEvents.filter(
    (event) => event.name === 'ThreadControllerImpl::RunTask' && pages.has(nameOf(event)),
  );
  if (tasks.length === 0) throw new Error('The trace of the browser has no tasks of the page.');
  return tasks.reduce((most, { tdur = 0 }) => Math.max(most, tdur), 0) / 1_000;
}

/**
 * Scrolls in the page: some way by less than a window a frame, then to the end in jumps, and back.
 */
function scroll(page: Page, rows: string): Promise<Scrolled> {
  return page.evaluate<Scrolled>(`(${SCROLL})(${JSON.stringify(rows)})`);
}

const SCROLL = `async (rows) => {
  let longTasks = 0;
  const observer = new PerformanceObserver((list) => (longTasks += list.getEntries().length));
  observer.observe({ type: 'longtask' });
  const isScrolled = (one) => one.scrollHeight > one.clientHeight + 8 && /auto|scroll/.test(getComputedStyle(one).overflowY);
  const places = [...document.querySelectorAll('.virtual, #main, #main *')].filter(isScrolled);
  const scrolled = places.find((one) => one.matches('.virtual')) ?? places[0] ?? document.scrollingElement;
  const end = scrolled.scrollHeight;
  const tops = [
    ...Array.from({ length: 120 }, (_, index) => index * 240),
    ...Array.from({ length: 60 }, (_, index) => (end * index) / 60),
    ...Array.from({ length: 60 }, (_, index) => end - index * 480),
  ];
  let most = 0;
  for (const top of tops) {
    scrolled.scrollTop = top;
    await new Promise((shown) => requestAnimationFrame(() => setTimeout(shown)));
    most = Math.max(most, document.querySelectorAll(rows).length);
  }
  await new Promise((told) => setTimeout(told, 100));
  observer.disconnect();
  return { frames: tops.length, rows: most, longTasks };
}`;
