import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { ToolLoopClient } from '@toolloop/client';
import type { BrowserContextOptions, Page } from 'playwright-core';
import {
  askIn,
  barriersOn,
  CHROMIUM,
  ConsoleBrowser,
  picture,
} from '../../libs/console/test/browser.js';
import { ask, closeDesks, serve, type ServedDesk } from './served-desk.js';

const { resolve } = createRequire(import.meta.url);
const PAGE = join(dirname(resolve('@toolloop/console/package.json')), 'dist', 'page');
const why = CHROMIUM === undefined ? ' [skipped: no Chromium is installed]' : '';
const onChromium = CHROMIUM === undefined ? describe.skip : describe;

let desk: ServedDesk;
let browser: ConsoleBrowser;

function open(user: string, options: BrowserContextOptions = {}): Promise<Page> {
  return browser.open(desk.url, [user, `demo-${user}`], options);
}

beforeAll(async () => {
  desk = await serve();
  if (CHROMIUM === undefined) return;
  browser = await ConsoleBrowser.launch();
});
afterAll(async () => {
  await browser?.close();
  await closeDesks();
});

onChromium('the console in a browser', () => {
  it(`shows calls and the tools that they bring, and continues alone once another has approved or denied them${why}`, async () => {
    const [alice, mia] = [await open('alice'), await open('mia')];
    await askIn(alice, 'What is the average spend of John Smith?');
    await alice.getByText('€472.19').waitFor();
    await alice
      .locator('.belt-group.entity', { hasText: 'Customer c-123' })
      .getByText('Get average spend')
      .waitFor();
    await picture(alice, 'chat');
    expect(await barriersOn(alice)).toEqual([]);

    await askIn(alice, 'Refund order o-1021');
    await alice.getByText('It waits for someone who may decide about it').waitFor();
    await alice.getByText('Needs: manager').waitFor();
    await mia.locator('.count').waitFor();
    await mia.locator('#main').focus();
    await mia.keyboard.press('g');
    await mia.keyboard.press('i');
    await mia.getByRole('heading', { name: 'Refund 446.75 EUR for order o-1021' }).waitFor();
    await mia.getByText('What its run had read is shown to operators').waitFor();
    await picture(mia, 'inbox');
    expect(await barriersOn(mia)).toEqual([]);
    await mia.locator('#main').focus();
    await mia.keyboard.press('a');
    await mia.keyboard.press('Enter');
    await mia.getByText('Nothing waits for you').waitFor();
    await alice.getByText('Approved by mia.').waitFor();

    await askIn(alice, 'Cancel order o-1024');
    await mia.getByText('A manager looks at what support mails').waitFor();
    await mia.locator('#main').focus();
    await mia.keyboard.press('r');
    await mia.keyboard.type('They keep it.');
    await mia.getByRole('button', { name: 'Deny' }).press('Enter');
    await alice.getByText('Denied by mia. “They keep it.”').waitFor();
    await Promise.all([alice.context().close(), mia.context().close()]);
  });

  it(`takes an answer, forks a run, and moves its tools through time${why}`, async () => {
    const alice = await open('alice');
    await askIn(alice, 'Quote the postage of the parcel');
    await alice.getByRole('spinbutton', { name: 'Answer' }).fill('2500');
    await alice.keyboard.press('Enter');
    await alice.getByText('1,049').waitFor();
    await askIn(alice, 'What is the average spend of John Smith?');
    await alice.getByText('€472.19').waitFor();
    await alice.getByRole('link', { name: 'Open the run' }).last().click();
    await alice.locator('.belt-group.entity').waitFor();
    await picture(alice, 'run');
    expect(await barriersOn(alice)).toEqual([]);
    await alice.getByRole('link', { name: 'c-123' }).press('Enter');
    await alice.locator('.way').getByText('/0/id').waitFor();
    await alice.locator('.way').getByText('/instance').waitFor();
    await picture(alice, 'path');
    expect(await barriersOn(alice)).toEqual([]);
    await alice.getByRole('link', { name: 'Story' }).click();
    await alice.locator('#main').focus();
    for (let step = 0; step < 18; step += 1) await alice.keyboard.press('ArrowLeft');
    await alice.locator('.belt-group.entity').waitFor({ state: 'detached' });
    await alice.getByRole('link', { name: 'Events' }).click();
    await alice.locator('.event.future').first().waitFor();
    const address = alice.url();
    await alice.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    await alice.getByRole('button', { name: 'Make a test' }).click();
    expect(await barriersOn(alice)).toEqual([]);
    await alice.getByRole('button', { name: 'Case: expect what it did' }).click();
    await alice.getByText('The command is copied.').waitFor();
    expect(await alice.evaluate('navigator.clipboard.readText()')).toMatch(
      /^npx toolloop runs case [\w-]+ --to evals\/cases\.json --app dist\/app\.module\.js --actor alice --tenant acme$/,
    );
    await alice.getByRole('button', { name: 'Close' }).click();
    await alice.getByRole('button', { name: 'Fork' }).click();
    await alice.getByLabel('Last shared step').fill('1');
    await alice.getByRole('button', { name: 'Fork the run' }).click();
    await alice.getByText('fork after step 1').waitFor();
    expect(alice.url()).not.toBe(address);
    await alice.goto(address);
    await alice.getByRole('button', { name: 'Rehearse' }).click();
    await alice.getByRole('button', { name: 'Rehearse it' }).press('Enter');
    await alice.locator('.run-head .chip', { hasText: 'Rehearse' }).waitFor();
    await alice.context().close();
  });

  it(`shows an operator the decisions of another policy and of another model beside those of a run, and offers neither to others${why}`, async () => {
    const [operator, alice] = [await open('ops'), await open('alice')];
    await askIn(operator, 'Open a cart for customer c-123');
    await operator.getByRole('link', { name: 'Open the run' }).last().click();
    await operator.locator('.run-head .chip', { hasText: 'Ended' }).waitFor();
    const address = operator.url();
    await operator.getByRole('button', { name: 'Rehearse' }).press('Enter');
    await operator.getByLabel('Policy').selectOption('careful');
    await operator.getByRole('button', { name: 'Rehearse it' }).press('Enter');
    const flipped = operator.locator('tr.flipped', { hasText: 'Open cart' });
    await flipped.getByText('allowed').waitFor();
    await flipped.getByText('asks a person').waitFor();
    await operator.getByText('1 decision would turn out otherwise.').waitFor();
    await picture(operator, 'rehearsed-policy');
    expect(await barriersOn(operator)).toEqual([]);
    await operator.getByLabel('Model').selectOption('brief');
    await flipped.waitFor({ state: 'detached' });
    await operator.getByRole('button', { name: 'Rehearse it' }).press('Enter');
    await flipped.getByText('asks a person').waitFor();
    await operator.getByText('would turn out otherwise.').waitFor();
    await picture(operator, 'rehearsed-model');
    await operator.getByRole('link', { name: 'Open the rehearsal' }).press('Enter');
    await operator.locator('.run-head .chip', { hasText: 'Rehearse' }).waitFor();
    expect(operator.url()).not.toBe(address);
    await operator.getByRole('link', { name: 'Inbox' }).first().click();
    await operator.getByText('Nothing waits for you').waitFor();

    await askIn(alice, 'Open a cart for customer c-123');
    await alice.getByRole('link', { name: 'Open the run' }).last().click();
    await alice.getByRole('button', { name: 'Rehearse' }).press('Enter');
    await alice.getByRole('button', { name: 'Rehearse it' }).waitFor();
    expect(await alice.getByLabel('Policy').count()).toBe(0);
    await Promise.all([operator.context().close(), alice.context().close()]);
  });

  it(`calls a tool by its form, switches one off and on, explains a refusal, and changes theme and language${why}`, async () => {
    const operator = await open('ops', { colorScheme: 'dark' });
    await operator.goto(`${desk.url}/console#/tools/crm__searchCustomers`);
    await operator.getByLabel('Name').fill('John');
    await operator.keyboard.press('Enter');
    await operator.getByRole('cell', { name: 'c-123' }).waitFor();
    await operator.getByText('Typical (p50)').waitFor();
    await operator.getByRole('button', { name: 'Find out' }).click();
    await operator
      .locator('.reach', { hasText: 'alice' })
      .getByText('can call it')
      .first()
      .waitFor();
    await picture(operator, 'tools-dark');
    expect(await barriersOn(operator)).toEqual([]);
    for (const [turn, other] of [
      ['Switch off', 'Switch on'],
      ['Switch on', 'Switch off'],
    ]) {
      await operator.getByLabel('Reason for the switch').fill('A test of the switch.');
      await operator.getByRole('button', { name: turn ?? '' }).click();
      await operator.getByRole('button', { name: other ?? '' }).waitFor();
    }
    await operator.goto(`${desk.url}/console#/why/catalog__update/as/alice`);
    await operator.getByRole('heading', { name: 'is hidden' }).waitFor();
    await operator.getByText('No rule of the policy allows this tool.').waitFor();
    for (const command of ['Theme', 'Change the language']) {
      const field = operator.locator('.palette').getByRole('combobox');
      // The page hears of keys once it has been drawn, which a new language does anew.
      for (; !(await field.isVisible()); await operator.waitForTimeout(100))
        await operator.keyboard.press('Control+k');
      await operator.keyboard.type(command);
      await operator.keyboard.press('Enter');
      await field.waitFor({ state: 'detached' });
    }
    await operator.getByRole('link', { name: 'Läufe' }).waitFor();
    expect(
      await operator.evaluate(
        '[document.documentElement.lang, document.documentElement.dataset.theme]',
      ),
    ).toEqual(['de', 'light']);
    await operator.context().close();
  });

  it(`shows policies and what another would decide, stops and releases, lists sources, and looks as another with locks${why}`, async () => {
    const operator = await open('ops');
    await operator.goto(`${desk.url}/console#/policies/draft`);
    const draft = { version: 'acme-1', allow: ['*'], deny: ['crm__searchCustomers'] };
    await operator.getByLabel('Policies as JSON').fill(JSON.stringify(draft));
    await operator.getByRole('button', { name: 'Replay the last 1,000 decisions' }).press('Enter');
    await operator
      .locator('.flip', { hasText: 'Search customers' })
      .first()
      .getByText('deny: crm__searchCustomers')
      .waitFor();
    await operator
      .getByLabel('Reason for the change')
      .fill('Nobody is searched for during the audit.');
    await operator.keyboard.press('Enter');
    await operator.getByRole('heading', { name: 'Version 1', exact: true }).waitFor();
    await operator.locator('.changes', { hasText: '/deny' }).waitFor();
    await picture(operator, 'policies');
    expect(await barriersOn(operator)).toEqual([]);

    await operator.goto(`${desk.url}/console#/as/alice`);
    await operator
      .locator('.as-tool.withheld', { hasText: 'crm__searchCustomers' })
      .getByText('deny: crm__searchCustomers')
      .waitFor();
    await picture(operator, 'view-as');
    expect(await barriersOn(operator)).toEqual([]);
    expect(await operator.locator('.view-as .panel button, .view-as .panel input').count()).toBe(0);
    await operator.goto(`${desk.url}/console#/policies/0`);
    await operator.getByLabel('Reason for the change').fill('The audit is over.');
    await operator.keyboard.press('Enter');
    await operator.getByText('back to version 0').waitFor();

    await operator.goto(`${desk.url}/console#/policies/stops`);
    await operator.getByRole('button', { name: 'Everything of acme' }).click();
    await operator.getByLabel('Reason for the switch').fill('A drill.');
    await operator.getByRole('button', { name: 'Switch off' }).press('Enter');
    await operator.getByText('Stopped by ops').waitFor();
    await operator.locator('.stop').getByLabel('Reason for the switch').fill('The drill is over.');
    await operator.keyboard.press('Enter');
    await operator.getByText('Nothing is stopped').waitFor();
    await operator.goto(`${desk.url}/console#/usage/actor`);
    await operator.getByRole('link', { name: 'alice' }).first().click();
    await operator.locator('.filter[aria-current]', { hasText: 'alice' }).waitFor();
    await operator.locator('.run-row').first().waitFor();
    await operator.getByRole('link', { name: 'Everyone' }).click();
    await operator.locator('.run-row', { hasText: 'alice' }).first().waitFor();
    await picture(operator, 'runs-of');
    expect(await barriersOn(operator)).toEqual([]);
    await operator.goto(`${desk.url}/console#/sources`);
    await operator.getByRole('heading', { name: 'mcp:carrier' }).waitFor();
    await operator.getByText('pinned').first().waitFor();
    await operator.context().close();
  });

  it(`has one stream of notices for all tabs of a browser, which another tab takes over when the one that has it is closed${why}`, async () => {
    const first = await open('mia');
    const context = first.context();
    const streams: string[] = [];
    const note = (page: Page, tab: string): unknown =>
      page.on(
        'request',
        (request) => void (request.url().endsWith('/console/feed') && streams.push(tab)),
      );
    const second = await context.newPage();
    note(second, 'second');
    await second.goto(`${desk.url}/console#/inbox`);
    await second.getByText('Nothing waits for you').waitFor();
    for (const question of [
      'Send the receipt of order o-1022',
      'Send the receipt of order o-1023',
    ]) {
      await ask(desk, 'alice', { message: question }).then((response) => response.text());
      for (const page of context.pages()) await page.locator('.count').waitFor();
      expect(streams).toEqual(context.pages().length === 2 ? [] : ['second']);
      await second.locator('#main').focus();
      await second.keyboard.press('r');
      await second.keyboard.type('No.');
      await second.getByRole('button', { name: 'Deny' }).press('Enter');
      for (const page of context.pages())
        await page.locator('.count').waitFor({ state: 'detached' });
      if (context.pages().length === 1) break;
      const taken = second.waitForRequest((request) => request.url().endsWith('/console/feed'));
      await first.close();
      await taken;
    }
    await context.close();
  });

  it(`holds no connection for a run that waits: seven tabs load, wait, and continue${why}`, async () => {
    const first = await open('alice');
    const tabs = [first];
    for (let tab = 1; tab < 7; tab += 1) {
      const page = await first.context().newPage();
      tabs.push(page);
      await page.goto(`${desk.url}/console#/chat`);
    }
    for (const page of tabs) {
      await page.locator('.nav').waitFor();
      await askIn(page, 'Refund order o-1022');
      await page.getByText('It waits for someone who may decide about it').waitFor();
    }
    const mia = new ToolLoopClient({
      url: desk.url,
      headers: () => ({ authorization: 'Bearer demo-mia' }),
    });
    for (const { approvalId } of await mia.approvals())
      await mia.decide(approvalId, 'deny', 'One of seven.');
    for (const page of tabs) await page.getByText('Denied by mia. “One of seven.”').waitFor();
    for (const page of tabs) await page.locator('.answer .text').first().waitFor();
    expect(await mia.approvals()).toEqual([]);
    await first.context().close();
  });

  it(`fits 390 pixels, and has told its browser of no error${why}`, async () => {
    const page = await open('ops', { viewport: { width: 390, height: 844 } });
    for (const section of [
      'chat',
      'runs',
      'inbox',
      'tools/orders__sendReceipt',
      'why/orders__sendReceipt',
      'policies/0',
      'policies/stops',
      'sources',
      'as/alice',
      'usage',
      'audit',
    ]) {
      await page.goto(`${desk.url}/console#/${section}`);
      await page.locator('h1, h2').first().waitFor();
      expect([section, await page.evaluate('document.documentElement.scrollWidth')]).toEqual([
        section,
        390,
      ]);
      expect([section, await barriersOn(page)]).toEqual([section, []]);
      await picture(page, `narrow-${section.split('/')[0]}`);
    }
    expect(browser.complaints).toEqual([]);
  });
});

function bytes(name: string): number {
  return gzipSync(readFileSync(join(PAGE, 'assets', name))).length;
}

function files(): readonly string[] {
  return readdirSync(join(PAGE, 'assets'));
}

describe('the built page of the console', () => {
  it('shows its first screen with less than 200 KB, and each section with less than 150 KB more', () => {
    const html = readFileSync(join(PAGE, 'index.html'), 'utf8');
    const first = files().filter((name) => html.includes(name));
    const later = files().filter((name) => !html.includes(name));
    expect(first.reduce((sum, name) => sum + bytes(name), 0)).toBeLessThan(200_000);
    expect(later.filter((name) => bytes(name) > 150_000)).toEqual([]);
    expect(later.length).toBeGreaterThan(7);
  });

  it('names no other server, and has no inline script or style', () => {
    const html = readFileSync(join(PAGE, 'index.html'), 'utf8');
    expect(html).not.toMatch(/<style|<script(?![^>]*src=)|style=|https?:\/\//);
  });
});

/** Bundles the hooks as a page would, in a process of its own: Vite does not run within Jest. */
const BUNDLE = `
  const { build } = await import('vite');
  const { gzipSync } = await import('node:zlib');
  const [{ output }] = await build({
    configFile: false,
    logLevel: 'silent',
    build: {
      write: false,
      minify: true,
      lib: { entry: 'libs/react/src/index.ts', formats: ['es'] },
      rolldownOptions: { external: [/^react/, /^@toolloop\\//] },
    },
  });
  console.log(gzipSync(output[0].code).length);
`;

describe('the hooks of React', () => {
  it('take less than 6 KB compressed, React and the client not counted', () => {
    const told = execFileSync(process.execPath, ['--input-type=module', '--eval', BUNDLE], {
      encoding: 'utf8',
    });
    expect(Number(told)).toBeGreaterThan(500);
    expect(Number(told)).toBeLessThan(6_000);
  });
});
