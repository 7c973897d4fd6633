import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Test } from '@nestjs/testing';
import { ToolLoopModule } from '@toolloop/core';
import { ToolLoopHttpModule } from '@toolloop/http';
import { call, calls, ScriptedModel, text } from '@toolloop/testing';
import { type Answer, matches, OPERATED, type Row, ROWS, routesOf } from './route-table.js';
import type { Run, ViewedActor } from '@toolloop/protocol';
import {
  ask,
  closeApps,
  eventsIn,
  headersOf,
  type Platform,
  type Served,
  serveApp,
} from './served-app.js';

/** The code of a refusal, in the form of this module or in that of OpenAI. */
function codeIn(body: string): string | undefined {
  const { code, error } = JSON.parse(body) as { code?: string; error?: { code: string } };
  return code ?? error?.code;
}

describe('the table of routes', () => {
  afterAll(closeApps);

  it('has every route that an application serves', async () => {
    const routes = routesOf(await serveApp({ model: new ScriptedModel([]) }));
    expect(routes.length).toBeGreaterThan(40);
    const missing = routes.filter(
      (route) => !route.startsWith('GET /health') && !ROWS.some((row) => matches(route, row)),
    );
    expect(missing).toEqual([]);
  });

  it('is shorter where an application has only some protocols, and all of it lies below the path', async () => {
    const routes = routesOf(
      await serveApp({
        model: new ScriptedModel([]),
        http: { path: '/api/', protocols: ['ag-ui'] },
      }),
    );
    expect(routes.filter((route) => !route.includes(' /api/'))).toEqual([]);
    expect(routes.filter((route) => / \/api\/(ai|v1)\//.test(route))).toEqual([
      'POST /api/ai/agui',
      'POST /api/ai/agui/connect',
    ]);
    expect(routes).toContain('POST /api/chat');
  });
});

describe.each<Platform>(['express', 'fastify'])('a route on %s', (platform) => {
  let served: Served;
  let closed: Served;
  let ids: Readonly<Record<string, string>>;

  beforeAll(async () => {
    const model = new ScriptedModel([
      calls(call('notes__delete', { id: 'n-1' })),
      ...Array.from({ length: 100 }, () => text('Hello.')),
    ]);
    served = await serveApp({ model, platform });
    closed = await serveApp({
      model: new ScriptedModel([]),
      platform,
      loop: { operators: undefined },
    });
    const events = eventsIn(
      await (await ask(served, 'alice', { message: 'Delete it', conversationId: 'talk' })).text(),
    );
    const request = events.find((event) => event.type === 'approval-request');
    ids = { RUN: request?.runId ?? '', APPROVAL: request?.approval.approvalId ?? '' };
    if (ids['APPROVAL'] === '') throw new Error('There is nothing that waits for an approval.');
  });
  afterAll(closeApps);

  function named(value: string): string {
    return value.replaceAll(/RUN|APPROVAL/g, (name) => ids[name] ?? name);
  }

  async function asked(
    [method, path, , , body]: Row,
    person: string | undefined,
    at = served,
  ): Promise<readonly [number, string]> {
    const { 'content-type': type, ...who } = headersOf(person);
    const headers = { ...who, ...(body && { 'content-type': type ?? '' }) };
    const response = await fetch(at.url + named(path), {
      method,
      headers,
      ...(body && { body: named(JSON.stringify(body)) }),
    });
    return [response.status, await response.text()];
  }

  /** The answer in the words of the table. */
  function inWords([status, body]: readonly [number, string]): Answer {
    const shown = ['talk', ids['RUN'] ?? '', ids['APPROVAL'] ?? ''].filter((theirs) =>
      body.includes(theirs),
    );
    return status === 200 && shown.length === 0 ? 'nothing of it' : status;
  }

  it.each(ROWS)('refuses %s %s to someone it does not know', async (...row) => {
    const answers = [await asked(row, undefined), await asked(row, 'mallory')];
    for (const [status, body] of answers)
      expect([status, codeIn(body)]).toEqual([401, 'unauthorized']);
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

  it.each(OPERATED.filter(([method]) => method === 'GET'))(
    'answers %s %s to an operator',
    async (...row) => {
      expect((await asked(row, 'ops'))[0]).toBe(200);
    },
  );

  it('shows the run of a colleague to an operator, and notes it in the audit', async () => {
    expect((await asked(['GET', '/runs/RUN', 404, 404], 'ops'))[0]).toBe(200);
    const [, lines] = await asked(['GET', '/audit', 403, 403], 'ops');
    expect(lines).toContain(`"details":{"runId":"${ids['RUN']}"}`);
  });

  it('shows an operator what a colleague sees and may not see with the rule, and names both in the audit', async () => {
    const [status, body] = await asked(['GET', '/view-as/alice', 403, 403], 'ops');
    const { actor, may, tools, runs, waiting } = JSON.parse(body) as ViewedActor;
    expect([status, actor.id, may]).toEqual([200, 'alice', []]);
    expect(runs.map(({ runId }) => runId)).toContain(ids['RUN']);
    expect(waiting.map(({ id }) => id)).toContain(ids['APPROVAL']);
    const shown = tools.map(({ declaredId, isListed, isCallable, reasons }) => [
      declaredId,
      isListed,
      isCallable,
      reasons.find(({ decision }) => decision)?.decision?.rule,
    ]);
    expect(shown).toContainEqual(['notes__read', true, true, 'allow: notes__*']);
    expect(shown).toContainEqual(['notes__delete', true, 'asks', expect.anything()]);
    expect(shown).toContainEqual(['vault__open', false, false, 'default']);
    const [, lines] = await asked(['GET', '/audit', 403, 403], 'ops');
    const views = lines
      .split('\n')
      .filter((line) => line.includes('"action":"viewAs"') && line.includes('"granted":true'));
    expect(views.at(-1)).toMatch(/"actorId":"ops".*"details":\{"actorId":"alice"\}/);
  });

  it('does not look as someone of another tenant, and tells a person who may not look nothing of who there is', async () => {
    expect((await asked(['GET', '/view-as/bob', 404, 404], 'ops'))[0]).toBe(404);
    const [status, body] = await asked(['GET', '/view-as/nobody', 403, 403], 'carl');
    expect([status, codeIn(body)]).toEqual([403, 'not_permitted']);
    const [, lines] = await asked(['GET', '/audit', 403, 403], 'ops');
    expect(lines).toMatch(
      /"action":"viewAs","actorId":"carl".*"details":\{"actorId":"nobody"\}.*"granted":false/,
    );
  });

  it('explains nothing about a person to someone who may not ask, whether there is such a person or not', async () => {
    for (const actorId of ['alice', 'no-one']) {
      const [status, body] = await asked(
        ['GET', `/explain/notes__read?actorId=${actorId}`, 403, 403],
        'carl',
      );
      expect([status, codeIn(body)]).toEqual([403, 'not_permitted']);
    }
  });

  it('lists the runs of a tenant with their actors to an operator, and of no other tenant', async () => {
    const [, body] = await asked(['GET', '/runs?ofTenant=true', 403, 403], 'ops');
    const runs = JSON.parse(body) as readonly Run[];
    expect(runs.find(({ runId }) => runId === ids['RUN'])?.actorId).toBe('alice');
    expect(runs.some(({ actorId }) => actorId === 'bob')).toBe(false);
  });

  it('sends the audit from a sequence on', async () => {
    const [, head] = await asked(['GET', '/audit/head', 403, 403], 'ops');
    const { sequence } = JSON.parse(head) as { readonly sequence: number };
    const [status, lines] = await asked(['GET', `/audit?from=${sequence}`, 403, 403], 'ops');
    expect([
      status,
      (JSON.parse(lines.split('\n')[0] ?? '') as { sequence: number }).sequence,
    ]).toEqual([200, sequence]);
    expect((await asked(['GET', '/audit?from=0', 400, 400], 'ops'))[0]).toBe(400);
  });

  it('shows to its owner what it refuses to others', async () => {
    const statuses = await Promise.all(
      ['/runs/RUN', '/approvals/APPROVAL', '/conversations/talk'].map((path) =>
        asked(['GET', path, 404, 404], 'alice'),
      ),
    );
    expect(statuses.map(([status]) => status)).toEqual([200, 200, 200]);
  });
});

describe('an application', () => {
  it('does not start without a function that says who asks', async () => {
    const http = { identity: undefined } as object;
    await expect(serveApp({ model: new ScriptedModel([]), http })).rejects.toThrow(
      'It has no "identity"',
    );
  });

  it('is told all that is wrong with its options at once', async () => {
    const http = {
      hosts: ['https://x'],
      origins: ['app.example.com'],
      proxies: ['10.0.0.0/99'],
      limits: { requests: -1 },
    };
    await expect(serveApp({ model: new ScriptedModel([]), http })).rejects.toThrow(
      'Toolloop found 4 problems',
    );
  });

  it('is told which option a name that is none was meant to be, also of those that no factory gives', async () => {
    const http = { paht: 'assistant', hostz: [], prefix: 'api' } as object;
    const start = serveApp({ model: new ScriptedModel([]), http });
    await expect(start).rejects.toThrow(
      /"paht"\.\s+Did you mean "path"\?[^]*"hostz"\.\s+Did you mean "hosts"\?[^]*path, protocols\./,
    );
  });

  it('is told where an option is given that a factory cannot give', async () => {
    const module = ToolLoopHttpModule.forRootAsync({
      useFactory: () => ({ identity: () => undefined, ...({ path: 'api' } as object) }),
    });
    const start = Test.createTestingModule({
      imports: [ToolLoopModule.forRoot({ model: new ScriptedModel([]) }), module],
    }).compile();
    await expect(start).rejects.toThrow(
      /The option "path" comes from a factory\.\s+Give it to forRootAsync, beside the factory\./,
    );
  });

  it('is told of a protocol that there is not', async () => {
    const http = { protocols: ['soap'] } as object;
    await expect(serveApp({ model: new ScriptedModel([]), http })).rejects.toThrow(
      "Give a list of 'ai-sdk', 'ag-ui'",
    );
  });
});
