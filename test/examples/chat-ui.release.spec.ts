import { execFile } from 'node:child_process';
import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { INestApplication } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { transform } from '@swc/core';
import { ChatUiModule, LightTools } from '../../examples/chat-ui/chat-ui.js';

const run = promisify(execFile);
const EXAMPLE = 'examples/chat-ui';

/** Opens the page in a document, types a question, and says yes when it is asked. */
const VISIT = `
import { JSDOM } from 'jsdom';
const { window } = new JSDOM('<!doctype html><div id="page"></div>', { pretendToBeVisual: true });
Object.assign(globalThis, { window, document: window.document, HTMLElement: window.HTMLElement });
const { createElement } = await import('react');
const { createRoot } = await import('react-dom/client');
const { default: Page } = await import('./page.mjs');
createRoot(document.querySelector('#page')).render(createElement(Page, { api: process.argv[2] }));
const see = async (wanted) => {
  for (let turn = 0; turn < 1_200; turn += 1) {
    const found = wanted();
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error('It does not appear: ' + document.body.textContent);
};
const button = (text) => [...document.querySelectorAll('button')].find((one) => one.textContent === text && !one.disabled);
const input = await see(() => document.querySelector('input'));
Object.getOwnPropertyDescriptor(window.HTMLInputElement.prototype, 'value').set.call(input, 'Switch on the light in the kitchen');
input.dispatchEvent(new window.Event('input', { bubbles: true }));
(await see(() => button('Send'))).click();
(await see(() => button('Approve'))).click();
await see(() => document.body.textContent.includes('output-available') && button('Send'));
console.log(document.body.textContent);
process.exit(0);
`;

describe('the chat with useChat', () => {
  let app: INestApplication;
  let folder = '';
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'toolloop-chat-ui-'));
    for (const file of ['package.json', 'package-lock.json'])
      await cp(join(EXAMPLE, file), join(folder, file));
    await run('npm', ['ci', '--no-audit', '--no-fund', '--ignore-scripts'], { cwd: folder });
    const jsc = {
      parser: { syntax: 'typescript', tsx: true },
      transform: { react: { runtime: 'automatic' } },
      target: 'es2022',
    } as const;
    const { code } = await transform(await readFile(join(EXAMPLE, 'app/page.tsx'), 'utf8'), {
      jsc,
      swcrc: false,
    });
    await writeFile(join(folder, 'page.mjs'), code);
    await writeFile(join(folder, 'visit.mjs'), VISIT);
    app = (
      await Test.createTestingModule({ imports: [ChatUiModule] }).compile()
    ).createNestApplication();
    app.useLogger(false);
    await app.listen(0, '127.0.0.1');
  }, 600_000);
  afterAll(async () => {
    await app.close();
    await rm(folder, { recursive: true, force: true });
  });

  it('shows a call that waits, and performs it when its person has said yes', async () => {
    const { stdout } = await run(process.execPath, ['visit.mjs', `${await app.getUrl()}/ai/chat`], {
      cwd: folder,
    });
    expect(stdout).toContain('lights__switchOn output-available');
    expect([...app.get(LightTools).lit]).toEqual(['kitchen']);
  });
});
