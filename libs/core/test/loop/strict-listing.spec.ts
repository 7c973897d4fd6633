import { describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import {
  PendingService,
  LlmTool,
  type LoopRequest,
  type Policy,
  type RunContext,
  tool,
  ToolLoopService,
  ToolProvider,
  type ToolSpec,
} from '@toolloop/core';
import { ScriptedModel, call, calls, eventsOf, text, type ScriptedTurn } from '@toolloop/testing';
import { Expose } from 'class-transformer';
import * as fc from 'fast-check';
import { cases } from '../../../../test/cases.js';
import { play, resultsIn, type PlayedRun } from '../fixtures/played-run.js';
import { ask, openModule, openShop, type ShopOptions } from '../fixtures/shop.module.js';

const NAMES = ['raw_a', 'raw_b', 'raw_c', 'raw_d'];
const asked = new Map<string, () => void>();

/** Answers none before the last of them was asked. */
function whenAllAreAsked(name: string): Promise<boolean> {
  const answered = new Promise<boolean>((resolve) => asked.set(name, () => resolve(true)));
  if (asked.size === NAMES.length) for (const answer of asked.values()) answer();
  return answered;
}

/** What `canCall` does, by tool; in the context of the run. */
type Answers = Readonly<Record<string, unknown>>;

function answerOf(name: string, { context }: RunContext): boolean {
  const answer = (context['answers'] as Answers | undefined)?.[name];
  if (answer === 'throws') throw new Error('no');
  if (answer === 'rejects') return Promise.reject(new Error('no')) as never;
  if (answer === 'waits for all') return whenAllAreAsked(name) as never;
  if (answer === 'hangs') return new Promise(() => undefined) as never;
  return (answer === 'later' ? Promise.resolve(true) : answer) as boolean;
}

const hooked = NAMES.map((id) =>
  tool({
    id,
    description: `Runs ${id}.`,
    effect: 'read_only',
    reveal: 'all',
    canCall: (run) => answerOf(id, run),
    execute: () => `${id} ran`,
  }),
);
const free = tool({
  id: 'raw_free',
  description: 'Runs.',
  effect: 'read_only',
  reveal: 'all',
  execute: () => 'raw_free ran',
});
const ALL = [...NAMES, 'raw_free'];
const SHOP: ShopOptions = {
  tools: [...hooked, free],
  policy: { allow: ['raw_*'], flow: 'off' },
  limits: { refusalsInARow: 100 },
};
const strict = { ...SHOP, strictListing: true };
const everyTool = calls(...ALL.map((id) => call(id)));
const ids = (specs: readonly ToolSpec[]) => specs.map(({ id }) => id);
const saying = (answers: Answers, more: Partial<LoopRequest> = {}): LoopRequest =>
  ask({ context: { answers }, ...more });

async function played(
  shop: ShopOptions,
  request: LoopRequest,
  script: readonly ScriptedTurn[] = [everyTool, text('Done.')],
): Promise<PlayedRun & { model: ScriptedModel }> {
  const model = new ScriptedModel(script);
  return { ...(await play(await openShop(model, shop), request)), model };
}

/** A tool of one tenant. */
const only = (tenant: string) =>
  tool({
    id: `raw_${tenant}`,
    description: 'x',
    effect: 'read_only',
    reveal: 'all',
    canCall: (run) => run.tenant === tenant,
    execute: () => 1,
  });

describe('strict listing', () => {
  it('tells the model of what it may call alone', async () => {
    const { model, events } = await played(
      strict,
      saying({ raw_a: true, raw_b: false, raw_c: 'later' }),
    );
    expect(ids(model.requests[0]?.tools ?? [])).toEqual(['raw_a', 'raw_c', 'raw_free']);
    expect(eventsOf(events, 'run-start')[0]?.tools).toEqual(['raw_a', 'raw_c', 'raw_free']);
  });

  it('is off unless it is asked for: then the call alone is denied', async () => {
    const { model, result } = await played(SHOP, saying({ raw_a: true }));
    expect(ids(model.requests[0]?.tools ?? [])).toEqual(ALL);
    expect(result.toolCalls.map(({ status }) => status)).toEqual([
      'succeeded',
      'denied',
      'denied',
      'denied',
      'succeeded',
    ]);
  });

  it.each(['throws', 'rejects', 'hangs', 1, null])(
    'keeps out what does not answer with true: %j',
    async (answer) => {
      const { model } = await played(
        strict,
        saying({ raw_a: answer, raw_b: true }, { limits: { toolCallMs: 20, refusalsInARow: 100 } }),
      );
      expect(ids(model.requests[0]?.tools ?? [])).toEqual(['raw_b', 'raw_free']);
    },
  );

  it('asks all hooks at once', async () => {
    const loop = await openShop(new ScriptedModel([]), strict);
    asked.clear();
    const listing = loop.list(
      saying(Object.fromEntries(NAMES.map((name) => [name, 'waits for all']))),
    );
    expect(ids((await listing) as never)).toEqual(ALL);
  });

  it('invariant 11: does not keep a run from ending', async () => {
    const abort = new AbortController();
    const loop = await openShop(new ScriptedModel([]), strict);
    const running = play(loop, saying({ raw_a: 'hangs' }, { signal: abort.signal }));
    abort.abort();
    const { events, result } = await running;
    expect(result.finishReason).toBe('aborted');
    expect(events.map(({ type }) => type)).toEqual(['run-start', 'run-end']);
  });

  it('is for each tenant what its own hooks say', async () => {
    const loop = await openShop(new ScriptedModel([]), {
      ...strict,
      tools: [only('acme'), only('globex')],
    });
    const tenants = Array.from({ length: 20 }, (_, index) => (index % 2 === 0 ? 'acme' : 'globex'));
    const listed = await Promise.all(tenants.map((tenant) => loop.list(ask({ tenant }))));
    expect(listed.map(ids)).toEqual(tenants.map((tenant) => [`raw_${tenant}`]));
  });
});

@ToolProvider({ prefix: 'file' })
class File {
  @Expose() readonly id: string;

  constructor(
    id: string,
    private readonly owner: string,
  ) {
    this.id = id;
  }

  @LlmTool({ description: 'Opens.', effect: 'read_only', reveal: 'all', canCall: 'isOwn' })
  open(): string {
    return `content of ${this.id}`;
  }

  isOwn({ tenant }: RunContext): boolean {
    return this.owner === tenant;
  }
}

@Injectable()
@ToolProvider({ namespace: 'drive' })
class DriveTools {
  @LlmTool({ description: 'Lists.', effect: 'read_only', output: [File] })
  files(): File[] {
    return [new File('a', 'acme'), new File('g', 'globex')];
  }
}

describe('tools that are injected', () => {
  const drive: ShopOptions = {
    providers: [DriveTools],
    entities: [File],
    policy: { allow: ['drive__*', 'file_*_*'], flow: 'off' },
  };
  const script = [
    calls(call('drive__files')),
    calls(call('file_a_open'), call('file_g_open')),
    text('Done.'),
  ];

  it.each([
    ['acme', 'a'],
    ['globex', 'g'],
  ])('are asked as well: %s', async (tenant, own) => {
    const { events, result } = await played(
      { ...drive, strictListing: true },
      ask({ tenant }),
      script,
    );
    expect(eventsOf(events, 'tools-injected').flatMap(({ tools }) => tools)).toEqual([
      `file_${own}_open`,
    ]);
    expect(resultsIn(result.messages).filter((content) => content.startsWith('content'))).toEqual([
      `content of ${own}`,
    ]);
  });

  it('are all listed where listing is not strict, and only one’s own can be called', async () => {
    const { events, result } = await played(drive, ask(), script);
    expect(eventsOf(events, 'tools-injected').flatMap(({ tools }) => tools)).toEqual([
      'file_a_open',
      'file_g_open',
    ]);
    expect(result.toolCalls.slice(1).map(({ status }) => status)).toEqual(['succeeded', 'denied']);
  });
});

const patterns = fc.array(fc.constantFrom('*', 'raw_*', ...ALL), { maxLength: 3 });
const grants = fc.record({
  allow: patterns,
  deny: fc.array(fc.constantFrom(...ALL), { maxLength: 2 }),
});
const anyPolicy: fc.Arbitrary<Policy> = fc.record({
  allow: patterns,
  deny: fc.array(fc.constantFrom(...ALL), { maxLength: 1 }),
  tenants: fc.record({ acme: grants, globex: grants }),
  roles: fc.record({ staff: grants, chief: grants }),
  flow: fc.constant('off' as const),
});
const who = fc.record({
  tenant: fc.constantFrom('acme', 'globex'),
  actor: fc.record({ id: fc.constant('x'), roles: fc.subarray(['staff', 'chief', 'guest']) }),
});
const answers = fc.record(
  Object.fromEntries(
    NAMES.map((name) => [
      name,
      fc.constantFrom(true, true, 'later', false, 'throws', 'rejects', undefined),
    ]),
  ),
);

describe('a call that waits for a yes', () => {
  it('is not made where the tool no longer lets the actor in when the yes has come', async () => {
    const may = { now: true };
    const write = tool({
      id: 'raw_write',
      description: 'Writes.',
      effect: 'state_change',
      reveal: 'all',
      canCall: () => may.now,
      execute: () => 'written',
    });
    const policy: Policy = {
      allow: ['*'],
      flow: 'off',
      requireApproval: [{ effects: ['state_change'] }],
    };
    const module = await openModule(new ScriptedModel([calls(call('raw_write')), text('Done.')]), {
      ...strict,
      tools: [write],
      policy,
    });
    const [loop, approvals]: [ToolLoopService, PendingService] = [
      module.get(ToolLoopService),
      module.get(PendingService),
    ];
    const alice = { actor: { id: 'alice' }, tenant: 'acme' };
    const handle = loop.open(ask({ approvals: 'wait' }));
    for await (const event of handle) {
      if (event.type !== 'approval-request') continue;
      may.now = false;
      await approvals.decide({ approvalId: event.approval.approvalId, decision: 'approve' }, alice);
    }
    expect((await handle.result).toolCalls).toMatchObject([
      { status: 'denied', error: { code: 'policy_denied' }, decision: { rule: 'canCall' } },
    ]);
  });
});

describe('invariant 2: listing equals execution', () => {
  it('invariant 2: holds for any policies, roles and hooks, and a model that calls everything', async () => {
    const loop = await openShop(new ScriptedModel([]), {
      ...strict,
      policy: { allow: ['raw_*'], flow: 'off' },
    });
    const property = fc.asyncProperty(anyPolicy, who, answers, async (own, actor, said) => {
      const request = saying(said, { ...actor, policy: own });
      const listed = new Set(ids(await loop.list(request)));
      const script = new ScriptedModel([everyTool, text('Done.')]);
      const { result } = await play(loop, { ...request, model: script });
      expect(ids(script.requests[0]?.tools ?? [])).toEqual([...listed]);
      for (const [index, id] of ALL.entries()) {
        const { status, error } = result.toolCalls[index] ?? {};
        expect([id, status, error?.code]).toEqual(
          listed.has(id) ? [id, 'succeeded', undefined] : [id, 'denied', 'policy_denied'],
        );
      }
      for (const content of resultsIn(result.messages))
        expect(content).toMatch(/ ran$|"code":"unknown_tool"/);
    });
    await fc.assert(property, { numRuns: cases(150) });
  });
});
