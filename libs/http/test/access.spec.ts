import { RequestMethod } from '@nestjs/common';
import { METHOD_METADATA, MODULE_METADATA, PATH_METADATA } from '@nestjs/common/constants';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { ToolLoopHttpModule } from '@toolloop/http';
import { call, calls, ScriptedModel, text } from '@toolloop/testing';
import { ask, closeApps, eventsIn, headersOf, type Platform, type Served, serveApp } from './served-app.js';

/** The answer to someone who is not the owner: a status, or a list without what is not theirs. */
type Answer = number | 'nothing of it';

/** A route with the answers to a person of another tenant, and to a colleague without an operator's permission. */
type Row = readonly [method: string, path: string, otherTenant: Answer, colleague: Answer, body?: object];

const ASK = { message: 'hi' };

/** What is open to every caller, whose own runs it begins. */
const OWN: readonly Row[] = [
  ['POST', '/chat', 'nothing of it', 'nothing of it', ASK],
  ['GET', '/chat/stream?message=hi', 'nothing of it', 'nothing of it'],
  ['POST', '/chat/answer', 'nothing of it', 'nothing of it', ASK],
  [
    'POST',
    '/ai/chat',
    'nothing of it',
    'nothing of it',
    { id: 'CHAT', messages: [{ id: 'm', role: 'user', parts: [{ type: 'text', text: 'hi' }] }] },
  ],
  [
    'POST',
    '/ai/agui',
    'nothing of it',
    'nothing of it',
    { threadId: 't', runId: 'r', messages: [{ id: 'm', role: 'user', content: 'hi' }] },
  ],
  [
    'POST',
    '/ai/assistant',
    'nothing of it',
    'nothing of it',
    { commands: [{ type: 'add-message', message: { parts: [{ type: 'text', text: 'hi' }] } }] },
  ],
  ['POST', '/ai/data-stream', 'nothing of it', 'nothing of it', { messages: [{ role: 'user', content: 'hi' }] }],
  ['GET', '/v1/models', 'nothing of it', 'nothing of it'],
  ['POST', '/v1/chat/completions', 'nothing of it', 'nothing of it', { model: 'toolloop', messages: [{ role: 'user', content: 'hi' }] }],
  ['POST', '/runs', 400, 400, ASK], // needs a storage of durable runs
  ['GET', '/tools', 'nothing of it', 'nothing of it'],
  ['POST', '/tools/notes__read', 'nothing of it', 'nothing of it', { args: { id: 'n-1' } }],
];

/** What has an owner: alice of acme. */
const OWNED: readonly Row[] = [
  ['GET', '/ai/chat/CHAT/stream', 204, 204],
  [
    'POST',
    '/v1/chat/completions',
    409,
    409,
    { model: 'toolloop', messages: [{ role: 'tool', tool_call_id: 'APPROVAL', content: '{"approved":true}' }] },
  ],
  [
    'POST',
    '/ai/agui',
    409,
    409,
    { threadId: 't', runId: 'r', messages: [], resume: [{ interruptId: 'APPROVAL', payload: { approved: true } }] },
  ],
  ['GET', '/runs', 'nothing of it', 'nothing of it'],
  ['GET', '/runs/RUN', 404, 404],
  ['GET', '/runs/RUN/events', 404, 404],
  ['POST', '/runs/RUN/resume', 404, 404],
  ['POST', '/runs/RUN/resume/answer', 404, 404],
  ['POST', '/runs/RUN/answer', 404, 404, { approvalId: 'APPROVAL', decision: 'approve' }],
  ['POST', '/runs/RUN/cancel', 404, 404, {}],
  ['POST', '/runs/RUN/fork', 400, 400, { step: 0 }], // needs a storage of durable runs
  ['POST', '/runs/RUN/undo', 404, 404, {}],
  ['GET', '/pending', 'nothing of it', 'nothing of it'],
  ['GET', '/approvals', 'nothing of it', 'nothing of it'],
  ['GET', '/approvals/groups', 'nothing of it', 'nothing of it'],
  ['GET', '/approvals/APPROVAL', 404, 404],
  ['POST', '/approvals/APPROVAL', 404, 404, { decision: 'approve' }],
  ['GET', '/questions', 'nothing of it', 'nothing of it'],
  ['POST', '/questions/APPROVAL', 404, 404, { answer: 1 }],
  ['GET', '/conversations', 'nothing of it', 'nothing of it'],
  ['GET', '/conversations/talk', 404, 404],
  ['DELETE', '/conversations/talk', 404, 404],
  ['GET', '/directives', 'nothing of it', 'nothing of it'],
  ['GET', '/directives/none', 404, 404],
  ['POST', '/directives/none/cancel', 404, 404, {}],
  ['POST', '/directives/none/redrive', 404, 404, {}],
  ['GET', '/usage?tenant=acme&actor=alice', 403, 403],
];

const REASON = { reason: 'A test.' };

/** What needs an operator's permission. */
const OPERATED: readonly Row[] = [
  ['GET', '/runs?actorId=alice', 403, 403],
  ['GET', '/explain/notes__read', 403, 403],
  ['GET', '/policies', 403, 403],
  ['POST', '/policies', 403, 403, { policy: { version: 'x', allow: [] }, expected: 0, ...REASON }],
  ['GET', '/policies/diff?from=0&to=0', 403, 403],
  ['GET', '/policies/stops', 403, 403],
  ['POST', '/policies/stops', 403, 403, { tool: 'notes__read', ...REASON }],
  ['POST', '/policies/stops/none/release', 403, 403, REASON],
  ['POST', '/policies/replay', 403, 403, { runs: [] }],
  ['GET', '/policies/0', 403, 403],
  ['POST', '/policies/0/rollback', 403, 403, { expected: 0, ...REASON }],
  ['GET', '/audit', 403, 403],
  ['GET', '/audit/head', 403, 403],
];

const ROWS = [...OWN, ...OWNED, ...OPERATED];

/** Every route of the module but those of `health`, as `GET /runs/:runId`. */
function routesOf(): string[] {
  const controllers = Reflect.getMetadata(MODULE_METADATA.CONTROLLERS, ToolLoopHttpModule) as (new () => object)[];
  return controllers.flatMap((controller) => {
    const base = Reflect.getMetadata(PATH_METADATA, controller) as string;
    const members = Object.values(Object.getOwnPropertyDescriptors(controller.prototype));
    return members.flatMap(({ value: handler }: { value?: unknown }) => {
      if (typeof handler !== 'function' || !Reflect.hasMetadata(METHOD_METADATA, handler)) return [];
      const method = RequestMethod[Reflect.getMetadata(METHOD_METADATA, handler) as RequestMethod] ?? '';
      const path = Reflect.getMetadata(PATH_METADATA, handler) as string;
      return [`${method} /${base}/${path}`.replaceAll(/\/+/g, '/').replace(/\/$/, '')];
    });
  });
}

function matches(route: string, [method, path]: Row): boolean {
  const [routeMethod = '', routePath = ''] = route.split(' ');
  const parts = (path.split('?')[0] ?? '').split('/');
  const wanted = routePath.split('/');
  const isSame = (part: string, index: number): boolean => part === parts[index] || (part.startsWith(':') && parts[index] !== undefined);
  return method === routeMethod && wanted.length === parts.length && wanted.every(isSame);
}

/** The code of a refusal, in the form of this module or in that of OpenAI. */
function codeIn(body: string): string | undefined {
  const { code, error } = JSON.parse(body) as { code?: string; error?: { code: string } };
  return code ?? error?.code;
}

describe('the table of routes', () => {
  it('has every route that the module serves', () => {
    const missing = routesOf().filter((route) => !route.startsWith('GET /health') && !ROWS.some((row) => matches(route, row)));
    expect(missing).toEqual([]);
  });
});

describe.each<Platform>(['express', 'fastify'])('a route on %s', (platform) => {
  let served: Served;
  let closed: Served;
  let ids: Readonly<Record<string, string>>;

  beforeAll(async () => {
    const model = new ScriptedModel([calls(call('notes__delete', { id: 'n-1' })), ...Array.from({ length: 100 }, () => text('Hello.'))]);
    served = await serveApp({ model, platform });
    closed = await serveApp({ model: new ScriptedModel([]), platform, loop: { operators: undefined } });
    const events = eventsIn(await (await ask(served, 'alice', { message: 'Delete it', conversationId: 'talk' })).text());
    const request = events.find((event) => event.type === 'approval-request');
    ids = { RUN: request?.runId ?? '', APPROVAL: request?.approval.approvalId ?? '' };
    if (ids['APPROVAL'] === '') throw new Error('There is nothing that waits for an approval.');
  });
  afterAll(closeApps);

  function named(value: string): string {
    return value.replaceAll(/RUN|APPROVAL/g, (name) => ids[name] ?? name);
  }

  async function asked([method, path, , , body]: Row, person: string | undefined, at = served): Promise<readonly [number, string]> {
    const { 'content-type': type, ...who } = headersOf(person);
    const headers = { ...who, ...(body && { 'content-type': type ?? '' }) };
    const response = await fetch(at.url + named(path), { method, headers, ...(body && { body: named(JSON.stringify(body)) }) });
    return [response.status, await response.text()];
  }

  /** The answer in the words of the table. */
  function inWords([status, body]: readonly [number, string]): Answer {
    const shown = ['talk', ids['RUN'] ?? '', ids['APPROVAL'] ?? ''].filter((theirs) => body.includes(theirs));
    return status === 200 && shown.length === 0 ? 'nothing of it' : status;
  }

  it.each(ROWS)('refuses %s %s to someone it does not know', async (...row) => {
    const answers = [await asked(row, undefined), await asked(row, 'mallory')];
    for (const [status, body] of answers) expect([status, codeIn(body)]).toEqual([401, 'unauthorized']);
  });

  it.each(ROWS)('answers %s %s to another tenant with %s', async (...row) => {
    expect(inWords(await asked(row, 'bob'))).toBe(row[2]);
  });

  it.each(ROWS)('answers %s %s without a permission with (%s) %s', async (...row) => {
    expect(inWords(await asked(row, 'carl'))).toBe(row[3]);
  });

  it.each(OPERATED)('refuses %s %s to everyone where no one is an operator', async (...row) => {
    expect((await asked(row, 'ops', closed))[0]).toBe(403);
  });

  it.each(OPERATED.filter(([method]) => method === 'GET'))('answers %s %s to an operator', async (...row) => {
    expect((await asked(row, 'ops'))[0]).toBe(200);
  });

  it('shows the run of a colleague to an operator, and notes it in the audit', async () => {
    expect((await asked(['GET', '/runs/RUN', 404, 404], 'ops'))[0]).toBe(200);
    const [, lines] = await asked(['GET', '/audit', 403, 403], 'ops');
    expect(lines).toContain(`"details":{"runId":"${ids['RUN']}"}`);
  });

  it('shows to its owner what it refuses to others', async () => {
    const statuses = await Promise.all(
      ['/runs/RUN', '/approvals/APPROVAL', '/conversations/talk'].map((path) => asked(['GET', path, 404, 404], 'alice')),
    );
    expect(statuses.map(([status]) => status)).toEqual([200, 200, 200]);
  });
});

describe('an application', () => {
  it('does not start without a function that says who asks', async () => {
    const http = { identity: undefined } as object;
    await expect(serveApp({ model: new ScriptedModel([]), http })).rejects.toThrow('It has no "identity"');
  });

  it('is told all that is wrong with its options at once', async () => {
    const http = { hosts: ['https://x'], origins: ['app.example.com'], proxies: ['10.0.0.0/99'], limits: { requests: -1 } };
    await expect(serveApp({ model: new ScriptedModel([]), http })).rejects.toThrow('Toolloop found 4 problems');
  });
});
