import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { DynamicModule, INestApplication, Type } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { type Policy, ToolLoopService } from '@toolloop/core';
import { AuditTrail } from '@toolloop/core/audit';
import { DataPolicyEngine } from '@toolloop/core/policy';
import { PolicyService } from '@toolloop/core/runs';
import { auditIn, verified } from '../../libs/cli/src/looks.js';
import { userOfToken } from '../../src/identity/user.js';
import { ask, closeDesks, eventsIn, ofType, serve, type ServedDesk } from '../demo/served-desk.js';
import { requestsIn } from './curl.js';
import { fencesOf, importFence, shownAfter } from './fences.js';
import { PausedModel } from './paused-model.js';
import { missingFrom } from './shown.js';
import { Walk } from './walk.js';

// A database is opened, and takes all of a busy machine for it.
const README = 'README.md';
const WHOLE = 'docs/start/a-whole-application.md';
const POLICY = 'docs/policy.md';
const DEMO = 'docs/demo.md';
const apps: INestApplication[] = [];
const directories: string[] = [];

type ExportAudit = (trail: AuditTrail, tenant: string, file: string) => Promise<void>;

afterAll(async () => {
  await Promise.all(apps.map((app) => app.close()));
  await Promise.all(directories.map((directory) => rm(directory, { recursive: true })));
  await closeDesks();
});

async function start(module: Type | DynamicModule): Promise<string> {
  const built = await Test.createTestingModule({ imports: [module] }).compile();
  const app = built.createNestApplication({ logger: ['fatal'], forceCloseConnections: true });
  apps.push(app);
  await app.listen(0, '127.0.0.1');
  return app.getUrl();
}

describe('the code of the README', () => {
  it('has the model find an order, and asks a person before it is cancelled', async () => {
    const { AppModule } = await importFence(fencesOf(README, 'ts').join(''));
    const built = await Test.createTestingModule({ imports: [AppModule as Type] }).compile();
    await built.init();
    const loop: ToolLoopService = built.get(ToolLoopService);
    const { waitingFor, toolCalls } = await loop.run({
      prompt: 'Cancel order o-7',
      actor: { id: 'alice' },
      tenant: 'acme',
    });
    expect(toolCalls.map(({ declaredId, result }) => [declaredId, result])).toEqual([
      ['orders__find', { number: 'o-7' }],
      ['order_*_cancel', undefined],
    ]);
    expect(waitingFor).toBe('approval');
    await built.close();
  });
});

describe('a whole application', () => {
  let url: string;
  beforeAll(async () => {
    const { LibraryModule } = await importFence(
      fencesOf(WHOLE, 'ts [src/library.module.ts]')[0] ?? '',
    );
    url = await start(LibraryModule as Type);
  });

  it('finds a book and calls the tool that came with it', async () => {
    const headers = { 'content-type': 'application/json' };
    const response = await fetch(`${url}/chat`, {
      method: 'POST',
      headers,
      body: '{"message":"How many free copies of Dune are there?"}',
    });
    expect(response.status).toBe(200);
    const stream = await response.text();
    const events = eventsIn(stream);
    expect(ofType(events, 'tools-injected')).toMatchObject([
      { provider: 'Book', tools: ['book_978-0441172719_getFreeCopies'] },
    ]);
    expect(ofType(events, 'tool-result').map(({ record }) => record.result)).toEqual([
      [{ isbn: '978-0441172719', title: 'Dune' }],
      3,
    ]);
    expect(events.at(-1)).toMatchObject({
      type: 'run-end',
      finishReason: 'stop',
      text: expect.stringContaining('3'),
    });
    expect(stream).not.toMatch(/B 12|"copies"/);
  });

  it('asks no person, whatever was read, since none of its tools changes or sends anything', async () => {
    const headers = { 'content-type': 'application/json' };
    for (const message of [
      'Which books do you have about Dune?',
      'How many free copies of Dune are there for 20 days?',
    ]) {
      const response = await fetch(`${url}/chat`, {
        method: 'POST',
        headers,
        body: JSON.stringify({ message }),
      });
      const events = eventsIn(await response.text());
      expect(ofType(events, 'tool-result').length).toBeGreaterThan(0);
      expect(ofType(events, 'approval-request')).toEqual([]);
      expect(events.at(-1)).toMatchObject({ type: 'run-end', finishReason: 'stop' });
    }
  });
});

describe('the other code of that page and of the one about policies', () => {
  const { OPENAI_API_KEY: before } = process.env;
  beforeEach(() => {
    process.env['OPENAI_API_KEY'] = 'a-key-that-is-never-sent';
  });
  afterAll(() => {
    delete process.env['OPENAI_API_KEY'];
    if (before !== undefined) process.env['OPENAI_API_KEY'] = before;
  });

  it('makes a module with two models, and refuses the start where the key is missing', async () => {
    const { LoopModule } = await importFence(
      fencesOf(WHOLE, 'ts').find((code) => code.includes('LoopModule =')) ?? '',
    );
    const compile = () =>
      Test.createTestingModule({ imports: [LoopModule as DynamicModule] }).compile();
    const built = await compile();
    expect(built.get(ToolLoopService)).toBeInstanceOf(ToolLoopService);
    delete process.env['OPENAI_API_KEY'];
    await expect(compile()).rejects.toThrow('there is no API key');
  });

  it.each([
    ['a whole application', WHOLE, 0],
    ['the page about policies', POLICY, 0],
  ])('is a policy that the demo takes: %s', async (_page, file, nth) => {
    const { policy } = await importFence(fencesOf(file, 'ts')[nth] ?? '');
    const engine = (await serve()).app.get(DataPolicyEngine);
    engine.replace(policy as Policy);
    expect(engine.policies).toEqual([policy]);
  });

  it('denies what it shows to a tenant, and goes back', async () => {
    const { denyReceipts } = await importFence(fencesOf(POLICY, 'ts')[1] ?? '');
    const policies = (await serve()).app.get(PolicyService);
    const actor = userOfToken('demo-ops');
    await (denyReceipts as (...given: readonly unknown[]) => Promise<void>)(policies, actor, {
      version: 'acme',
      allow: ['*'],
    });
    const [rollback, put] = await policies.versions({ actor, tenant: 'acme' });
    expect([rollback, put]).toMatchObject([
      { number: 2, rollbackOf: 0 },
      { number: 1, policies: [{ deny: ['orders__sendReceipt'] }] },
    ]);
  });

  it('exports an audit that the command finds in order', async () => {
    const { exportAudit } = await importFence(fencesOf(POLICY, 'ts')[2] ?? '');
    const auditKey = 'k'.repeat(32);
    const desk = await serve({ settings: { auditKey } });
    await (
      await ask(desk, 'alice', { message: 'What is the average spend of John Smith?' })
    ).text();
    const directory = await mkdtemp(join(tmpdir(), 'readme-'));
    directories.push(directory);
    await (exportAudit as ExportAudit)(desk.app.get(AuditTrail), 'acme', join(directory, 'acme'));
    const shown = /^npx toolloop audit verify (\S+) --head (\S+) --tenant (\S+) --key-env (\S+)$/m;
    const [, file = '', head = '', tenant = '', key = ''] =
      fencesOf(POLICY, 'sh').join('').match(shown) ?? [];
    process.env[key] = auditKey;
    const options = { head: join(directory, head), tenant, keyEnv: [key] };
    expect((await verified(auditIn(join(directory, file), options), options)).text).toContain(
      'The audit of acme is valid: 4 entries',
    );
  });

  it('answers from a loop of its own', async () => {
    const [, root = '', feature = ''] = fencesOf(WHOLE, 'ts');
    const [{ LoopModule }, { SupportModule }] = await Promise.all([
      importFence(root),
      importFence(feature),
    ]);
    const url = await start({
      module: SupportModule as Type,
      imports: [LoopModule as DynamicModule],
    });
    const response = await fetch(`${url}/support?message=Hello`);
    expect([response.status, await response.text()]).toEqual([200, expect.stringMatching(/\w/)]);
  });

  it('is all tested above', () => {
    expect([README, WHOLE, POLICY, DEMO].map((page) => fencesOf(page, 'ts').length)).toEqual([
      1, 3, 3, 0,
    ]);
  });
});

describe('the first commands of the README', () => {
  it('are two, each complete on a fresh machine', () => {
    expect(fencesOf(README, 'sh').slice(0, 2)).toEqual([
      'npm ci && npm start\n',
      'npm ci && npm test\n',
    ]);
  });
});

describe('the output the README shows', () => {
  it('is what the demo answers', async () => {
    const [shown = ''] = fencesOf(README, 'text');
    const desk = await serve();
    const stream = await (
      await ask(desk, 'alice', { message: 'What is the average spend of John Smith?' })
    ).text();
    const frames = stream.split('\n').filter((line) => line.startsWith('data: '));
    expect(missingFrom(frames, shown)).toEqual([]);
  });
});

/** The requests of the page about the demo in which something is said. */
function requestsAbout(said: string): ReturnType<typeof requestsIn> {
  return requestsIn(fencesOf(DEMO, 'sh').find((one) => one.includes(said)) ?? '');
}

/**
 * The lines that the page shows and the desk does not answer; all of it where the page shows
 * nothing.
 */
async function missingIn({ url }: ServedDesk, said: string): Promise<readonly string[]> {
  const walk = new Walk();
  for (const request of requestsAbout(said)) await walk.send(url, request);
  const shown = shownAfter(DEMO, said);
  return shown === '' ? walk.lines : missingFrom(walk.lines, shown);
}

describe('what the page about the demo walks through', () => {
  const model = new PausedModel();
  let shared: ServedDesk | undefined;

  it.each([
    ['an approval', 'Cancel order'],
    ['a refund', 'Refund order'],
    ['a rehearsal', '"rehearse":true'],
    ['the undoing of a run', '/undo'],
  ])('%s goes the way it is shown', async (_what, said) => {
    expect(await missingIn(await serve(), said)).toEqual([]);
  });

  it.each([
    ['a tool in the client', 'Scan the barcode'],
    ['a question', 'Quote the postage'],
    ['a question of a model', 'Ask a manager'],
    ['a tool that the client brings', 'clientTools'],
    ['a conversation while a call waits', '"conversationId":"smith"'],
    ['what is withdrawn in words', '"Withdraw $APPROVAL"'],
    ['an answer that grows', '"structured":true'],
    ['an MCP client', 'tools/call'],
  ])('%s goes the way it is shown, and changes nothing', async (_what, said) => {
    expect(await missingIn((shared ??= await serve({ model })), said)).toEqual([]);
  });

  it('a message to a run under way goes in the way it is shown', async () => {
    const { url } = (shared ??= await serve({ model }));
    const [first, second, ...more] = requestsAbout('addInput');
    if (!first || !second) throw new Error('The page shows no two requests.');
    const walk = new Walk();
    const asked = model.pause();
    const answered = new Walk().send(url, first);
    await asked;
    await walk.send(url, second);
    model.resume();
    walk.lines.push(...(await answered));
    expect(more).toEqual([]);
    expect(missingFrom(walk.lines, shownAfter(DEMO, 'addInput'))).toEqual([]);
  });
});
