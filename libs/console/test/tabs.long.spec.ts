import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { INestApplication } from '@nestjs/common';
import { tool } from '@toolloop/core';
import { call, calls, ScriptedModel, text } from '@toolloop/testing';
import type { Browser, Page, Route } from 'playwright-core';
import { askIn, barriersOn, CHROMIUM, launchChromium, openConsole } from './browser.js';
import { DELETE_NOTE, login, NOTES_POLICY, serveConsole } from './console-app.js';

const why = CHROMIUM === undefined ? ' [skipped: no Chromium is installed]' : '';
const onChromium = CHROMIUM === undefined ? describe.skip : describe;

const BURN_NOTE = tool({
  id: 'notes__burn',
  description: 'Burns the note.',
  effect: 'state_change',
  reveal: 'all',
  presentation: { tone: 'danger' },
  execute: () => 'burnt',
});
const POLICY = {
  ...NOTES_POLICY,
  requireApproval: [{ tools: ['notes__*'], roles: ['manager'], reason: 'A manager looks at it.' }],
};
const remove = call('notes__delete', {});
const burn = call('notes__burn', {});
const SCRIPT = [[calls(remove), text('It is gone.')], [calls(remove)], [calls(burn)]];

let app: INestApplication;
let url: string;
let browser: Browser;

async function open(name: string): Promise<Page> {
  const { page } = await openConsole(browser, url, [name, 'secret']);
  return page;
}

async function openInbox(name: string): Promise<Page> {
  const page = await open(name);
  await page.goto(`${url}/console#/inbox`);
  return page;
}

beforeAll(async () => {
  if (CHROMIUM === undefined) return;
  const loop = {
    model: new ScriptedModel(SCRIPT.flat()),
    policy: POLICY,
    tools: [DELETE_NOTE, BURN_NOTE],
  };
  ({ app, url } = await serveConsole({ login }, { loop }));
  browser = await launchChromium();
});
afterAll(async () => {
  await browser?.close();
  await app?.close();
});

onChromium('a request that is shown in the inbox', () => {
  it(`says by whom it was answered where another person was first, and is not followed by another one under the cursor${why}`, async () => {
    const [alice, first, second] = [
      await open('alice'),
      await openInbox('mia'),
      await openInbox('mia'),
    ];
    await askIn(alice, 'Delete it.');
    for (const mia of [first, second])
      await mia.locator('[data-triage]').getByRole('button', { name: 'Approve' }).waitFor();
    await first.getByRole('button', { name: 'Approve' }).click();
    await first.getByText('Nothing waits for you').waitFor();
    await second.getByText('This request waits no longer').waitFor();
    await second.getByText('Approved by mia.').waitFor();
    expect(await first.getByText('This request waits no longer').count()).toBe(0);
    expect(await barriersOn(second)).toEqual([]);
    await Promise.all([first, second, alice].map((page) => page.context().close()));
  });

  it(`stays where it is when a riskier one comes, and one that never was says so in place of another${why}`, async () => {
    const [alice, mia] = [await open('alice'), await openInbox('mia')];
    await askIn(alice, 'Delete another.');
    const shown = mia.locator('[data-triage] h2');
    await shown.getByText('Delete').waitFor();
    await alice.getByRole('button', { name: 'New conversation' }).click();
    await askIn(alice, 'Burn it.');
    await mia.locator('.count', { hasText: '2' }).waitFor();
    expect(await mia.locator('.rows .row').first().innerText()).toContain('Burn');
    expect(await shown.innerText()).toBe('Delete');
    await mia.goto(`${url}/console#/inbox/apr_nowhere`);
    await mia.getByText('This request waits no longer').waitFor();
    expect(await shown.count()).toBe(0);
    await mia.getByRole('button', { name: 'Show what waits' }).click();
    await shown.getByText('Burn').waitFor();
    await Promise.all([mia, alice].map((page) => page.context().close()));
  });
});

onChromium('the tabs of a browser', () => {
  it(`are left with the session, whichever of them signs out${why}`, async () => {
    const alice = await open('alice');
    const other = await alice.context().newPage();
    await other.goto(`${url}/console#/usage`);
    await other.locator('.nav').waitFor();
    await alice.getByRole('button', { name: 'Sign out' }).click();
    for (const tab of [alice, other]) {
      await tab.getByText('Sign in to continue.').waitFor();
      expect(await tab.locator('.nav').count()).toBe(0);
    }
    await alice.context().close();
  });

  it(`are left where the session has ended otherwise, once the stream of a tab finds that out${why}`, async () => {
    const alice = await open('alice');
    const context = alice.context();
    const other = await context.newPage();
    await other.goto(`${url}/console#/usage`);
    await other.locator('.nav').waitFor();
    await context.clearCookies();
    await alice.close(); // the other tab opens the stream then
    await other.getByText('Sign in to continue.').waitFor();
    expect(await other.locator('.nav').count()).toBe(0);
    await context.close();
  });

  it(`have their stream opened again after an answer that was none, and stay signed in${why}`, async () => {
    const alice = await open('alice');
    await alice.clock.install();
    const streams: Route[] = [];
    await alice.route('**/feed', (route) => {
      streams.push(route);
      return streams.length === 1 ? route.fulfill({ status: 503 }) : route.continue();
    });
    const refused = alice.waitForResponse('**/feed');
    await alice.reload();
    await refused;
    await alice.locator('.nav').waitFor();
    for (let second = 0; streams.length === 1 && second < 60; second += 1)
      await alice.clock.runFor(1000);
    expect([streams.length, await alice.locator('.nav').count()]).toEqual([2, 1]);
    await alice.context().close();
  });
});
