import { describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import { type Tool, ToolLoopModule, ToolSource } from '@toolloop/core';
import { type OperatorRule } from '@toolloop/core/policy';
import { APPLICATION_TENANT, type SourceTool } from '@toolloop/core/sources';
import { AuditStore } from '@toolloop/core/stores';
import { isObject } from '@toolloop/protocol';
import { firstValueFrom, NEVER, Observable, of, Subject, throwError } from 'rxjs';
import { findingsOf } from '../../tools/application.js';
import { toolOf } from '../../tools/tools.js';
import {
  CrmTools,
  Item,
  never,
  one,
  open,
  provided,
  QUICK,
  refused,
  Remote,
  remoteTool,
  startWith,
  STRANGER,
  two,
  until,
} from './remote.js';

describe('a source of tools', () => {
  it('is as simple as a class with tools', async () => {
    @Injectable()
    class Reports extends ToolSource {
      readonly origin = { source: 'reports', trusted: true };
      override tools(): readonly Tool[] {
        return [toolOf({ id: 'reports__daily', origin: this.origin })];
      }
    }
    const { ids, sources, findings } = await open([new Reports()], {
      options: { policy: { allow: ['reports__daily'] } },
    });
    expect(ids()).toEqual(['reports__daily']);
    expect(sources.list()).toEqual([
      {
        source: 'reports',
        trusted: true,
        state: 'ready',
        since: expect.any(String),
        tools: ['reports__daily'],
        quarantined: [],
        leftOut: 0,
      },
    ]);
    expect(await findings()).toEqual([]);
  });

  it.each<[string, () => unknown, string]>([
    ['out of reach', refused, 'It failed with ECONNREFUSED (reference '],
    ['rejecting', () => Promise.reject(new Error('no')), 'It failed (reference '],
    ['answering with no list', () => ({ tools: [] }), 'Its tools() returned no list.'],
    ['answering with nothing', () => undefined, 'Its tools() returned no list.'],
  ])(
    'keeps no application from starting while it is %s, and is asked again until it is well',
    async (_, answer, lastError) => {
      const remote = new Remote(answer);
      const { ids, sources, findings } = await open([remote], { providers: [CrmTools] });
      expect(ids()).toEqual(['crm__search']);
      expect(sources.list()).toMatchObject([
        {
          prefix: 'github',
          state: 'unreachable',
          tools: [],
          lastError: expect.stringContaining(lastError),
        },
      ]);
      expect(JSON.stringify([sources.list(), await findings()])).not.toContain('secret');
      expect(await findings()).toMatchObject([
        { at: 'source github', problem: expect.stringContaining('It does not answer.') },
      ]);
      await until(() => remote.asked > 2);
      remote.answer = one;
      await until(() => ids().includes('github__createIssue'));
      expect(sources.list()).toMatchObject([{ state: 'ready', tools: ['github__createIssue'] }]);
      expect(sources.list()[0]).not.toHaveProperty('lastError');
      expect(await findings()).toEqual([]);
    },
  );

  it('keeps no application waiting for longer than its time, and joins when it answers', async () => {
    const tools = new Subject<readonly Tool[]>();
    const remote = new Remote(() => firstValueFrom(tools));
    const { ids, sources, findings } = await open([remote], { providers: [CrmTools] });
    expect(sources.list()).toMatchObject([{ state: 'starting', tools: [] }]);
    expect(await findings()).toMatchObject([
      { at: 'source github', problem: expect.stringContaining('has not answered yet') },
    ]);
    tools.next(one());
    await until(() => ids().length === 2);
    expect(ids()).toEqual(['crm__search', 'github__createIssue']);
  });

  it('is given up and asked again when it never answers, with a signal that says so', async () => {
    const remote = new Remote(never);
    const { sources } = await open([remote]);
    await until(() => remote.signal?.aborted === true);
    await until(() => remote.asked > 1);
    expect(sources.list()).toMatchObject([
      { state: 'unreachable', lastError: 'It did not answer within 200 ms.' },
    ]);
  });

  it('is asked ever more rarely while it fails', async () => {
    const remote = new Remote(refused);
    await open([remote], {
      options: { sources: { ...QUICK, pauseMs: 40, longestPauseMs: 10_000 } },
    });
    const startedAt = Date.now();
    await until(() => remote.asked === 4);
    expect(Date.now() - startedAt).toBeGreaterThan(40 + 80 + 160 - 60);
  });

  it('may be empty, and have tools later', async () => {
    const remote = new Remote(() => []);
    const { ids, sources } = await open([remote]);
    expect(sources.list()).toMatchObject([{ state: 'ready', tools: [] }]);
    remote.change(two);
    await until(() => ids().length === 2);
    remote.change(() => []);
    await until(() => ids().length === 0);
  });

  it('sends one bad tool, which alone is in quarantine until it is well', async () => {
    const bad = remoteTool('github__bad', { schema: { type: 'string' } });
    const remote = new Remote(() => [...one(), bad, null]);
    const { ids, sources, findings } = await open([remote]);
    expect(ids()).toEqual(['github__createIssue']);
    expect(sources.list()).toMatchObject([
      {
        state: 'ready',
        quarantined: [
          { id: 'github__bad', reason: expect.stringContaining('must be "object"') },
          { id: '', reason: 'Among its tools is null.' },
        ],
      },
    ]);
    expect(await findings()).toHaveLength(2);
    remote.change(() => [...one(), remoteTool('github__bad')]);
    await until(() => ids().includes('github__bad'));
    expect(await findings()).toEqual([]);
  });

  it('is refreshed by its prefix, and a wrong one is told', async () => {
    const remote = new Remote(one);
    const { ids, sources } = await open([remote]);
    remote.answer = two;
    expect(await sources.refresh('github')).toMatchObject([
      { state: 'ready', tools: ['github__createIssue', 'github__close'] },
    ]);
    expect(ids()).toHaveLength(2);
    await expect(sources.refresh('gitlab')).rejects.toThrow(
      'There is no source "gitlab". Known: "github".',
    );
  });

  it('keeps its tools while it does not answer later on', async () => {
    const remote = new Remote(one);
    const { ids, sources } = await open([remote]);
    remote.answer = refused;
    expect(await sources.refresh('github')).toMatchObject([
      { state: 'unreachable', tools: ['github__createIssue'] },
    ]);
    expect(ids()).toEqual(['github__createIssue']);
  });

  it('is asked no more once the application shuts down, and neither timer nor listener is left', async () => {
    const failing = new Remote(refused);
    const hanging = new Remote(never, { source: 'other', trusted: false }, 'other');
    const { module } = await startWith([failing, hanging]);
    await module.close();
    const { asked } = failing;
    expect([failing, hanging].map(({ changes$ }) => changes$.observed)).toEqual([false, false]);
    expect(hanging.signal?.aborted).toBe(true);
    await new Promise((resolve) => {
      setTimeout(resolve, 150);
    });
    expect(failing.asked).toBe(asked);
  });

  it('leaves nothing behind of an application that does not start', async () => {
    const remote = new Remote(refused);
    await findingsOf({
      providers: [provided(remote)],
      options: { policy: { allow: ['crm__none'] }, sources: QUICK },
    });
    const { asked } = remote;
    await new Promise((resolve) => {
      setTimeout(resolve, 150);
    });
    expect([remote.asked, remote.changes$.observed]).toEqual([asked, false]);
  });
});

const idOf = (actor: unknown): unknown => (isObject(actor) ? actor['id'] : undefined);
const operators: OperatorRule = (actor, action) =>
  action === 'sources' && (idOf(actor) === 'root' ? 'all' : idOf(actor) === 'ops');

describe('a person who has a source asked again', () => {
  it('must be an operator for all tenants, and each attempt is in the audit', async () => {
    const remote = new Remote(one);
    const { module, sources, ids } = await open([remote], {
      options: { operators, audit: { key: 'k'.repeat(32) } },
    });
    remote.answer = two;
    for (const id of ['ops', 'mallory'])
      await expect(
        sources.refresh('github', { actor: { id }, tenant: 'acme' }),
      ).rejects.toMatchObject({ name: 'OperatorError' });
    expect(ids()).toEqual(['github__createIssue']);
    await sources.refresh('github', { actor: { id: 'root' }, tenant: 'acme' });
    expect(ids()).toEqual(['github__createIssue', 'github__close']);
    const entries = await module.get<AuditStore>(AuditStore).read('acme', { from: 1, limit: 10 });
    expect(entries).toMatchObject([
      { actorId: 'ops', action: 'sources', granted: false },
      { actorId: 'mallory', action: 'sources', granted: false },
      {
        actorId: 'root',
        action: 'sources',
        granted: true,
        details: { do: 'refresh', source: 'github' },
      },
    ]);
  });
});

describe('the changes of a source', () => {
  it('are told by the catalog, once they are in it', async () => {
    const remote = new Remote(one);
    const { catalog, ids } = await open([remote], { providers: [CrmTools] });
    const told: unknown[] = [];
    catalog.changes$.subscribe((change) => told.push([change, ids()]));
    remote.change(() => [
      remoteTool('github__createIssue', { description: 'Creates it, and more.' }),
      remoteTool('github__close'),
    ]);
    await until(() => told.length > 0);
    expect(told).toEqual([
      [
        {
          source: 'github',
          removed: ['github__createIssue'],
          added: ['github__createIssue', 'github__close'],
        },
        ['crm__search', 'github__createIssue', 'github__close'],
      ],
    ]);
  });

  it('leave tools with equal definitions where they are, and have the newest called', async () => {
    const called: string[] = [];
    const answer = (name: string) => () => [
      remoteTool('github__createIssue', { invoke: () => called.push(name) }),
      remoteTool('github__close'),
    ];
    const remote = new Remote(answer('before'));
    const { catalog, sources } = await open([remote]);
    const before = catalog.list();
    remote.answer = answer('after');
    await sources.refresh('github');
    expect(catalog.list().every((spec, index) => spec === before[index])).toBe(true);
    catalog.find('github__createIssue')?.invoke({}, {} as never);
    expect(called).toEqual(['after']);
    expect(catalog.version).toBe(1); // that of the start
  });

  it('put a tool with another definition behind all others', async () => {
    const remote = new Remote(two);
    const { ids } = await open([remote]);
    remote.change(() => [
      remoteTool('github__createIssue', { description: 'Another.' }),
      remoteTool('github__close'),
    ]);
    await until(() => ids()[0] === 'github__close');
    expect(ids()).toEqual(['github__close', 'github__createIssue']);
  });

  it.each<[string, Observable<unknown>]>([
    ['end', of(1)],
    ['fail', throwError(() => new Error('lost'))],
    ['never come', NEVER],
    ['be no Observable', 'none' as never],
    [
      'fail when they are listened to',
      new Observable(() => {
        throw new Error('deaf');
      }),
    ],
  ])('may %s, and its tools are there all the same', async (_, changes$) => {
    class Odd extends Remote {
      override readonly changes$ = changes$ as never;
    }
    const remote = new Odd(one);
    const { ids, sources } = await open([remote]);
    expect(ids()).toEqual(['github__createIssue']);
    remote.answer = two;
    await sources.refresh('github');
    expect(ids()).toHaveLength(2);
  });

  it('are listened to again where they failed, ever more rarely', async () => {
    let subscriptions = 0;
    const changes$ = new Observable((subscriber) => {
      subscriptions += 1;
      subscriber.error(new Error('lost'));
    });
    class Odd extends Remote {
      override readonly changes$ = changes$ as never;
    }
    await open([new Odd(one)]);
    await until(() => subscriptions > 2);
    const counted = subscriptions;
    await new Promise((resolve) => {
      setTimeout(resolve, 200);
    });
    expect(subscriptions - counted).toBeLessThan(6);
  });

  it('are read rarely where there are a hundred a second', async () => {
    const remote = new Remote(one);
    const { ids } = await open([remote], {
      options: { sources: { ...QUICK, pauseMs: 50, longestPauseMs: 10_000 } },
    });
    for (let count = 0; count < 100; count += 1) {
      remote.change(() => [remoteTool(`github__t${count}`)]);
      await new Promise((resolve) => {
        setTimeout(resolve, 10);
      });
    }
    expect(remote.asked).toBeLessThan(10);
    await until(() => ids()[0] === 'github__t99');
  });
});

describe('the prefix of a source', () => {
  it.each([
    ['is none', 'git hub', 'is none'],
    ['has three underscores', 'git___hub', 'is none'],
    ['ends with an underscore, so that ids could begin with two prefixes', 'git_', 'is none'],
    ['is a namespace of the application', 'crm', 'is taken by crm__search'],
    ['is such a namespace in other letters', 'CRM', 'is taken by crm__search'],
    ['is that of an entity', 'item', 'is taken by tools of the entity Item'],
    ['is that of tools of ours', 'tools', 'is taken by tools__search'],
  ])('keeps the application from starting if it %s', async (_, prefix, problem) => {
    const remote = new Remote(() => [], STRANGER, prefix);
    const declared = {
      providers: [CrmTools, provided(remote)],
      imports: [ToolLoopModule.forFeature({ entities: [Item] })],
    };
    expect(await findingsOf(declared)).toMatchObject([
      { at: 'source github', problem: expect.stringContaining(problem) },
    ]);
  });

  it('keeps the application from starting if two sources announce it', async () => {
    const sources = [
      new Remote(() => []),
      new Remote(() => [], { source: 'other', trusted: false }),
    ];
    expect(await findingsOf({ providers: sources.map(provided) })).toMatchObject([
      { at: 'source other', problem: 'Another source announces the prefix "github" as well.' },
    ]);
  });

  it.each(['github__issues', 'GitHub', 'git'])(
    'keeps the application from starting if an id could belong to it and to another: %s',
    async (prefix) => {
      const sources = [
        new Remote(() => [], STRANGER, 'git__hub'),
        new Remote(() => [], STRANGER, 'github'),
      ];
      const other = new Remote(() => [], { source: 'other', trusted: false }, prefix);
      expect(await findingsOf({ providers: [...sources, other].map(provided) })).toMatchObject([
        {
          at: 'source other',
          problem: expect.stringMatching(
            /^Another source announces the prefix "git(?:__)?hub" as well\.$/,
          ),
        },
      ]);
    },
  );

  it('may have several parts, and sources that share the first of them are told apart', async () => {
    const sources = ['github', 'gitlab'].map(
      (name) =>
        new Remote(
          () => [remoteTool(`mcp__${name}__search`), remoteTool('mcp__github__close')],
          { source: name, trusted: false },
          `mcp__${name}`,
        ),
    );
    const policy = { allow: ['mcp__github__search', 'mcp__gitlab__search'] };
    const { ids, sources: living, catalog } = await open(sources, { options: { policy } });
    expect(ids().toSorted()).toEqual([
      'mcp__github__close',
      'mcp__github__search',
      'mcp__gitlab__search',
    ]);
    expect(catalog.describe('mcp__github__close')).toMatchObject({ source: 'github' });
    expect(living.list()[1]?.quarantined.map(({ id }) => id)).toEqual(['mcp__github__close']);
  });
});

describe('a source that is away when the application starts', () => {
  /** A source whose tools the application knows, such as those that it has pinned in a file. */
  class Known extends Remote {
    override readonly isPinned: boolean;
    override known: () => readonly SourceTool[];

    constructor(answer: () => unknown, known = one, isPinned = true) {
      super(answer);
      this.known = known;
      this.isPinned = isPinned;
    }
  }

  it.each([
    ['does not answer', never],
    ['cannot be reached', refused],
  ])(
    'has the tools that it is known to have if it %s, and those that it answers with later',
    async (_, away) => {
      const source = new Known(away);
      const { ids, sources, catalog } = await open([source]);
      expect(ids()).toEqual(['github__createIssue']);
      expect(sources.list()).toMatchObject([
        { state: expect.not.stringMatching('ready'), tools: ['github__createIssue'] },
      ]);
      const before = catalog.describe('github__createIssue');
      source.answer = two;
      await sources.refresh('github');
      expect(ids()).toEqual(['github__createIssue', 'github__close']);
      expect(catalog.describe('github__createIssue')).toEqual(before);
      expect(sources.list()).toMatchObject([{ state: 'ready' }]);
    },
  );

  it('loses what it was known to have once it answers without it', async () => {
    const { ids, sources } = await open([new Known(never)]);
    expect(ids()).toEqual(['github__createIssue']);
    const away = await open([new Known(() => [])]);
    expect(away.ids()).toEqual([]);
    expect(sources.list()).toMatchObject([{ state: 'starting' }]);
  });

  it('starts the application when what it is known to have cannot be told', async () => {
    const { ids, sources } = await open([new Known(never, refused)]);
    expect(ids()).toEqual([]);
    expect(sources.list()).toMatchObject([{ state: 'unreachable' }]);
  });

  it.each([
    ['counts as pinned', true],
    ['does not count as pinned', false],
  ])(
    'invariant 19: the description of a tool %s where the application pins the definitions of its source: %s',
    async (_, isPinned) => {
      const { catalog } = await open([
        new Known(
          never,
          () => [{ ...remoteTool('github__createIssue'), origin: { ...STRANGER, pinned: true } }],
          isPinned,
        ),
      ]);
      expect(catalog.resolve('github__createIssue').origin).toEqual({
        ...STRANGER,
        ...(isPinned && { pinned: true }),
      });
    },
  );

  it('says itself which of its tools is in quarantine, and why', async () => {
    const refusal = {
      id: 'github__close',
      refused: { problem: 'Its definition is not the pinned one.', remedy: 'Pin it.' },
    };
    const { ids, sources, findings } = await open([new Remote(() => [...one(), refusal])]);
    expect(ids()).toEqual(['github__createIssue']);
    expect(sources.list()).toMatchObject([
      { quarantined: [{ id: 'github__close', reason: 'Its definition is not the pinned one.' }] },
    ]);
    expect(await findings()).toEqual([{ at: 'github: github__close', ...refusal.refused }]);
  });
});

describe('the audit of the application', () => {
  it('has what comes, what goes and what is in quarantine', async () => {
    const remote = new Remote(() => [...one(), remoteTool('gitlab__x')]);
    const { module, sources } = await open([remote], {
      options: { audit: { key: 'k'.repeat(32) } },
    });
    remote.answer = () => [remoteTool('github__close')];
    await sources.refresh('github');
    remote.answer = refused;
    await sources.refresh('github');
    await sources.refresh('github');
    const read = () => module.get(AuditStore).read(APPLICATION_TENANT, { from: 1, limit: 100 });
    await until(async () => (await read()).length === 3);
    expect(await read()).toMatchObject([
      {
        kind: 'source',
        source: 'github',
        details: {
          state: 'ready',
          added: ['github__createIssue'],
          removed: [],
          quarantined: [{ id: 'gitlab__x' }],
        },
      },
      {
        kind: 'source',
        details: { added: ['github__close'], removed: ['github__createIssue'], quarantined: [] },
      },
      { kind: 'source', details: { state: 'unreachable' } },
    ]);
  });
});
