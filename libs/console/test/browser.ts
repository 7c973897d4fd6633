import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';

const { resolve } = createRequire(import.meta.url);

/** The browser of the machine; undefined where there is none. */
export const CHROMIUM = [
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
].find((path) => existsSync(path));

/** Where the screens are kept, if anywhere: `CONSOLE_PICTURES=/tmp/pictures`. */
const PICTURES = process.env['CONSOLE_PICTURES'];

export async function launchChromium(): Promise<Browser> {
  const { chromium } = await import('playwright-core');
  return chromium.launch({ executablePath: CHROMIUM ?? '', args: ['--no-sandbox'] });
}

/** A console, and what its browser has complained of. */
export interface OpenConsole {
  readonly page: Page;
  readonly complaints: readonly string[];
}

/** Opens the console at an address of its application, and signs in by keyboard. */
export async function openConsole(
  browser: Browser,
  url: string,
  [name, password]: readonly [name: string, password: string],
  options: BrowserContextOptions = {},
): Promise<OpenConsole> {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 800 },
    locale: 'en-US',
    reducedMotion: 'reduce',
    ...options,
  });
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on('console', (message) =>
    message.type() === 'error'
      ? complaints.push(`${name}: ${message.text()} (${message.location().url})`)
      : 0,
  );
  page.on('pageerror', (error) => complaints.push(`${name}: ${error.message}`));
  await page.goto(`${url}/console`);
  await page.getByLabel('Name').fill(name);
  await page.keyboard.press('Tab');
  await page.keyboard.type(password);
  await page.keyboard.press('Enter');
  await page.locator('.nav').waitFor();
  return { page, complaints };
}

/** A browser for the consoles of a spec, and what it has complained of in all of them. */
export class ConsoleBrowser {
  private readonly opened: OpenConsole[] = [];

  private constructor(private readonly browser: Browser) {}

  static async launch(): Promise<ConsoleBrowser> {
    return new ConsoleBrowser(await launchChromium());
  }

  get complaints(): readonly string[] {
    return this.opened.flatMap(({ complaints }) => complaints);
  }

  /** Opens a console as {@link openConsole} does. */
  async open(
    url: string,
    credentials: readonly [name: string, password: string],
    options: BrowserContextOptions = {},
  ): Promise<Page> {
    const opened = await openConsole(this.browser, url, credentials, options);
    this.opened.push(opened);
    return opened.page;
  }

  close(): Promise<void> {
    return this.browser.close();
  }
}

/** Types a question into the chat, and sends it. */
export async function askIn(page: Page, question: string): Promise<void> {
  await page.getByLabel('Message').focus();
  await page.keyboard.type(question);
  await page.keyboard.press('Enter');
}

/** Finds what axe calls serious or critical. */
export async function barriersOn(page: Page): Promise<readonly string[]> {
  await page.evaluate(readFileSync(resolve('axe-core/axe.min.js'), 'utf8'));
  const found = await page.evaluate<{
    readonly violations: readonly {
      readonly id: string;
      readonly impact: string;
      readonly nodes: readonly { readonly html: string }[];
    }[];
  }>('axe.run()');
  const serious = found.violations.filter(
    ({ impact }) => impact === 'serious' || impact === 'critical',
  );
  return serious.map(({ id, nodes }) => `${id}: ${nodes[0]?.html ?? ''}`);
}

/** Keeps what a page shows, where pictures are wanted. */
export async function picture(page: Page, name: string): Promise<void> {
  if (PICTURES === undefined) return;
  mkdirSync(PICTURES, { recursive: true });
  await page.screenshot({ path: join(PICTURES, `${name}.png`) });
}
