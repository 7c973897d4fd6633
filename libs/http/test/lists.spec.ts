import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Module } from '@nestjs/common';
import {
  ActorDirectory,
  LlmTool,
  type ToolCallContext,
  ToolContext,
  ToolParam,
  ToolProvider,
} from '@toolloop/core';
import { call, calls, ScriptedModel } from '@toolloop/testing';
import { GatedModel } from './gated-model.js';
import {
  ask,
  closeApps,
  eventsIn,
  headersOf,
  PEOPLE,
  type Served,
  serveApp,
  until,
} from './served-app.js';

afterAll(closeApps);

const RUNS = 5;

/** A call that asks a person, and one whose effect takes place later. */
@ToolProvider({ namespace: 'desk' })
class DeskTools {
  @LlmTool({ description: 'Asks for a size.', effect: 'read_only', reveal: 'all' })
  size(@ToolContext() context: ToolCallContext): Promise<unknown> {
    return context.ask({ key: 'size', question: 'Which size?', schema: { type: 'string' } });
  }

  @LlmTool({
    description: 'Pays a bill.',
    effect: 'external_side_effect',
    reveal: 'all',
    directive: { type: 'bill.pay', subject: '{id}', key: 'whole', maybeRan: 'repeat' },
  })
  pay(@ToolParam('id', { description: 'The number of the bill.' }) id: string): string {
    return `paid ${id}`;
  }
}

class People extends ActorDirectory {
  override find(actorId: string): Promise<unknown> {
    return Promise.resolve(PEOPLE.find(({ id }) => id === actorId));
  }
}

@Module({ providers: [DeskTools, People] })
class DeskModule {}

function got(served: Served, path: string, person = 'alice'): Promise<Response> {
  return fetch(served.url + path, { headers: headersOf(person) });
}

/** The entries of all pages, found by the links to the next ones, and the number of pages. */
async function paged(
  served: Served,
  path: string,
  person?: string,
): Promise<readonly [entries: unknown[], pages: number]> {
  const entries: unknown[] = [];
  let next: string | undefined = path;
  let pages = 0;
  for (; next !== undefined; pages += 1) {
    const response = await got(served, next, person);
    if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`);
    const body = (await response.json()) as
      readonly unknown[] | { readonly rows: readonly unknown[] };
    entries.push(...('rows' in body ? body.rows : body));
    const [, query] = /^<(\?[^>]+)>; rel="next"$/.exec(response.headers.get('link') ?? '') ?? [];
    next = query && new URL(query, served.url + next).href.slice(served.url.length);
  }
  return [entries, pages];
}

describe('a list', () => {
  let served: Served;

  beforeAll(async () => {
    const model = new ScriptedModel(
      Array.from({ length: RUNS }, () => calls(call('notes__delete', { id: 'n-1' }))),
    );
    served = await serveApp({ model });
    for (let run = 0; run < RUNS; run += 1) {
      await (
        await ask(served, 'alice', { message: 'Delete it', conversationId: `talk-${run}` })
      ).text();
      const policy = { version: `test-${run}`, allow: ['notes__*'] };
      const put = await ask(
        served,
        'ops',
        { policy, expected: run, reason: 'A test.' },
        '/policies',
      );
      if (put.status !== 201) throw new Error(await put.text());
    }
  });

  it.each([
    ['/runs', 'alice'],
    ['/runs?status=waiting', 'alice'],
    ['/runs?actorId=alice', 'ops'],
    ['/pending', 'alice'],
    ['/pending?kind=approval', 'alice'],
    ['/approvals', 'alice'],
    ['/approvals/groups', 'alice'],
    ['/conversations', 'alice'],
    ['/policies', 'ops'],
  ])('has the address of its next page in %s, until there is none', async (path, person) => {
    const [all, onePage] = await paged(served, path, person);
    expect([all.length, onePage]).toEqual([RUNS, 1]);
    const query = path.includes('?') ? '&' : '?';
    expect(await paged(served, `${path}${query}limit=2`, person)).toEqual([all, 3]);
    expect((await paged(served, `${path}${query}limit=${RUNS}`, person))[1]).toBe(1);
  });

  it('has pages of a report of use, which ask for the same days', async () => {
    const [all] = await paged(served, '/usage?actor=alice&groupBy=day,tool,model');
    expect(all.length).toBeGreaterThan(1);
    expect((await paged(served, '/usage?actor=alice&groupBy=day,tool,model&limit=1'))[0]).toEqual(
      all,
    );
  });
});

describe('a list of questions and of effects that take place later', () => {
  it.each(['/questions', '/directives'])(
    'has the address of its next page in %s, until there is none',
    async (path) => {
      const answers = Array.from({ length: RUNS }, (_, run) => [
        calls(call('desk__pay', { id: `b-${run}` })),
        calls(call('desk__size')),
      ]);
      const loop = { policy: { version: 'test', allow: ['desk__*'], flow: 'off' as const } };
      const served = await serveApp({
        model: new ScriptedModel(answers.flat()),
        modules: [DeskModule],
        loop,
      });
      for (let run = 0; run < RUNS; run += 1)
        await (await ask(served, 'alice', { message: 'Pay it' })).text();
      const [all] = await paged(served, path);
      expect(all).toHaveLength(RUNS);
      expect(await paged(served, `${path}?limit=2`)).toEqual([all, 3]);
      expect(await paged(served, path, 'bob')).toEqual([[], 1]);
    },
  );
});

describe('a run that is not durable', () => {
  let served: Served;
  let other: Served;
  let model: GatedModel;
  let runIds: readonly string[];

  beforeAll(async () => {
    model = new GatedModel(['a']);
    [served, other] = await Promise.all([serveApp({ model }), serveApp({ model })]);
    const streams = [
      await ask(served, 'alice', { message: 'one' }),
      await ask(served, 'alice', { message: 'two' }),
    ];
    await until(() => model.pulled === 2);
    const [runs] = await paged(served, '/runs');
    runIds = runs.map((run) => (run as { readonly runId: string }).runId);
    if (streams.some(({ status }) => status !== 200))
      throw new Error('The questions were refused.');
  });

  it('is in the list of its actor while it is read, the newest first', async () => {
    const [running, pages] = await paged(served, '/runs?status=running&limit=1');
    expect([running, pages]).toMatchObject([
      runIds.map((runId) => ({ runId, status: 'running', durable: false })),
      2,
    ]);
    expect(runIds).toHaveLength(2);
    expect((await paged(served, '/runs?status=waiting'))[0]).toEqual([]);
    expect((await paged(served, '/runs', 'carl'))[0]).toEqual([]);
    expect((await paged(served, '/runs?actorId=alice', 'ops'))[0]).toEqual(running);
    expect((await got(served, '/runs?actorId=alice', 'carl')).status).toBe(403);
  });

  it('is not found by another process, which says where its events are, as of any run that is not there', async () => {
    const [theirs, none] = await Promise.all(
      [runIds[0] ?? '', 'none'].map((runId) => got(other, `/runs/${runId}/events`)),
    );
    const texts = await Promise.all(
      [theirs, none].map(async (response) => [response?.status, await response?.text()] as const),
    );
    expect(texts[0]?.[1]).toContain(
      'send the requests of a client to one process, or ask with \\"durable\\": true',
    );
    expect(texts[0]).toEqual([404, texts[1]?.[1]?.replace('none', runIds[0] ?? '')]);
  });
});

describe('a run that waits and is not durable', () => {
  it('says that its events are not kept any more, and how to read on', async () => {
    const model = new ScriptedModel([calls(call('notes__delete', { id: 'n-1' }))]);
    const served = await serveApp({ model, http: { limits: { reconnectMs: 0 } } });
    const events = eventsIn(await (await ask(served, 'alice', { message: 'Delete it' })).text());
    const response = await got(served, `/runs/${events[0]?.runId}/events`);
    expect([response.status, await response.json()]).toMatchObject([
      409,
      { code: 'events_not_kept' },
    ]);
  });
});
