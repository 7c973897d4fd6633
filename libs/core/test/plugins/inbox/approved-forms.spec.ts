import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { Injectable, type Provider } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import {
  ActorDirectory,
  LlmTool,
  type LoopEvent,
  type LoopRequest,
  type LoopResult,
  PendingService,
  type Policy,
  type RawTool,
  tool,
  ToolLoopModule,
  ToolLoopService,
  ToolParam,
  ToolProvider,
} from '@toolloop/core';
import { DirectiveService } from '@toolloop/core/directives';
import {
  AuditStore,
  CallJournal,
  DirectiveStore,
  MemoryAuditStore,
  MemoryCallJournal,
  MemoryDirectiveStore,
  MemoryPendingStore,
  MemoryRunLog,
  type Pending,
  PendingStore,
  RunLog,
} from '@toolloop/core/stores';
import { call, calls, collect, ScriptedModel, type ScriptedTurn, text } from '@toolloop/testing';
import type { ToolPresentation } from '@toolloop/protocol';
import { RunApprovals } from '../../../src/plugins/approvals/run-approvals.js';
import { Bench, type RunOptions } from '../../call/bench.js';
import { resultOf } from '../../fixtures/played-run.js';

const alice = { actor: { id: 'alice' }, tenant: 'acme' };
const ASKING: Policy = {
  version: 'v1',
  allow: ['*'],
  flow: 'off',
  requireApproval: [{ tools: ['files__tidy'], mayRemember: true }, { tools: ['files__note'] }],
};
const TIDY = calls(call('files__tidy', { folder: 'old' }));

type Declared = Partial<Parameters<typeof tool<{ folder: string }>>[0]>;

const BEFORE: Declared = {
  description: 'Tidies a folder.',
  effect: 'state_change',
  labels: { reads: 'private', egress: false },
  input: {
    type: 'object',
    properties: { folder: { type: 'string' }, deep: { type: 'boolean' } },
    required: ['folder'],
  },
  presentation: { label: 'Tidy up', confirm: 'Tidy this folder?' },
};

class Staff extends ActorDirectory<{ readonly id: string }> {
  override find(id: string) {
    return Promise.resolve({ id });
  }
}

/**
 * Keeps the first approval as an earlier release did: without a form, under an id in which there is
 * none.
 */
class EarlierStore extends MemoryPendingStore {
  private isFirst = true;

  override add(record: Pending): Promise<void> {
    if (!this.isFirst || record.kind !== 'approval') return super.add(record);
    this.isFirst = false;
    const { form: _form, ...binding } = record.binding;
    return super.add({
      ...record,
      id: 'apr_earlier',
      request: { ...record.request, approvalId: 'apr_earlier' },
      binding,
    });
  }
}

/** What several releases of one application share. */
function world(pending = new MemoryPendingStore()) {
  const done: string[] = [];
  const providers: Provider[] = [
    { provide: RunLog, useValue: new MemoryRunLog() },
    { provide: PendingStore, useValue: pending },
    { provide: CallJournal, useValue: new MemoryCallJournal() },
    { provide: DirectiveStore, useValue: new MemoryDirectiveStore() },
    { provide: AuditStore, useValue: new MemoryAuditStore() },
  ];
  const tidy = (declared: Declared): RawTool =>
    tool<{ folder: string }>({
      id: 'files__tidy',
      reveal: 'all',
      execute: ({ folder }) => {
        done.push(folder);
        return 'tidied';
      },
      ...BEFORE,
      ...declared,
    } as Parameters<typeof tool<{ folder: string }>>[0]);
  const note = tool({
    id: 'files__note',
    description: 'Notes it.',
    effect: 'state_change',
    reveal: 'all',
    input: { type: 'object' },
    execute: () => 'noted',
  });
  /** One release: an application that declares the tool so. */
  const release = async (
    script: readonly ScriptedTurn[],
    declared: Declared = {},
    policy: Policy = ASKING,
    perform = true,
  ) => {
    const module = await Test.createTestingModule({
      imports: [
        ToolLoopModule.forRoot({
          model: new ScriptedModel(script),
          policy,
          tools: [tidy(declared), note],
          audit: { key: 'k'.repeat(32) },
          directives: { perform, firstDelayMs: 1, immediateEffects: 'allow' },
          providers,
        }),
      ],
      providers: [Staff],
    }).compile();
    module.useLogger(false);
    await module.init();
    const loop: ToolLoopService = module.get(ToolLoopService);
    const inbox: PendingService = module.get(PendingService);
    return {
      module,
      inbox,
      open: () => inbox.list(alice),
      run: (more: Partial<LoopRequest> = {}): Promise<LoopResult> =>
        resultOf(loop.open({ prompt: 'Tidy up.', ...alice, ...more })),
      resume: async (
        runId: string,
      ): Promise<LoopResult & { readonly events: readonly LoopEvent[] }> => {
        const handle = await loop.resume(runId, alice);
        const events = await collect(handle.events$);
        return Object.assign(await resultOf(handle), { events });
      },
      say: async (decision: 'approve' | 'deny', amendment = {}) => {
        const [one] = await inbox.list(alice);
        const approvalId = one?.approvalId ?? '';
        await inbox.decide({ approvalId, decision }, alice, amendment);
        return approvalId;
      },
    };
  };
  return { release, done, all: () => pending.list({ tenant: 'acme', limit: 1_000 }) };
}

const INPUT = BEFORE.input as { readonly properties: object };

/**
 * Everything of a tool that may change between question and yes, and the field that the person is
 * told.
 */
const CHANGES: readonly (readonly [string, Declared, string])[] = [
  ['description', { description: 'Deletes everything.' }, 'description'],
  ['effect', { effect: 'external_side_effect' }, 'effect'],
  ['label for egress', { labels: { reads: 'private', egress: true } }, 'labels.egress'],
  ['label for what it reads', { labels: { reads: 'public', egress: false } }, 'labels.reads'],
  [
    'label for what it returns',
    { labels: { reads: 'private', egress: false, returns: 'trusted' } },
    'labels.returns',
  ],
  [
    'arguments',
    {
      input: { ...INPUT, properties: { ...INPUT.properties, force: { type: 'boolean' } } } as never,
    },
    'schemas',
  ],
  [
    'question on the card',
    { presentation: { label: 'Tidy up', confirm: 'Look at this folder?' } },
    'presentation.confirm',
  ],
  [
    'name for people',
    { presentation: { label: 'Look', confirm: 'Tidy this folder?' } },
    'presentation.label',
  ],
  [
    'tone',
    { presentation: { label: 'Tidy up', confirm: 'Tidy this folder?', tone: 'positive' } },
    'presentation.tone',
  ],
];

@Injectable()
@ToolProvider({ namespace: 'bank' })
class BankTools {
  readonly done: string[] = [];

  @LlmTool({ description: 'Pays.', effect: 'state_change', reveal: [] })
  pay(@ToolParam('amount', { description: 'How much', type: 'number' }) amount: number): void {
    this.done.push(`pay ${amount}`);
  }

  @LlmTool({ description: 'Gives.', effect: 'state_change', reveal: [] })
  give(@ToolParam('amount', { description: 'How much', type: 'number' }) amount: number): void {
    this.done.push(`give ${amount}`);
  }
}

interface Attempt extends RunOptions {
  readonly tool?: string;
  readonly amount?: number;
  /** The tool as another release would declare it. */
  readonly spec?: object;
  readonly presentation?: ToolPresentation;
  readonly afterMs?: number;
}

const POLICY: Policy = {
  version: 'v1',
  allow: ['*'],
  requireApproval: [{ effects: ['state_change', 'external_side_effect'], expiresAfterMs: 60_000 }],
};
const OF_MANAGERS: Policy = {
  ...POLICY,
  version: 'v2',
  requireApproval: [{ ...POLICY.requireApproval?.[0], roles: ['manager'] }],
};

/** All that a yes is bound to, and the same call with another of it. */
const MISMATCHES: readonly (readonly [string, Attempt])[] = [
  ['tool', { tool: 'bank__give' }],
  ['arguments', { amount: 500 }],
  ['actor', { actorId: 'bob' }],
  ['tenant', { tenant: 'globex' }],
  ['run', { runId: 'run_2' }],
  ['time, once it has expired', { afterMs: 61_000 }],
  ['policy that asks other people', { policies: [OF_MANAGERS] }],
  ['presentation', { presentation: { label: 'Look' } }],
  ['description', { spec: { description: 'Deletes everything.' } }],
  ['effect', { spec: { effect: 'external_side_effect' } }],
  ['labels', { spec: { labels: { returns: 'trusted', reads: 'private', egress: true } } }],
  [
    'schema of its arguments',
    {
      spec: {
        inputSchema: { type: 'object', properties: { amount: { type: 'number', minimum: 0 } } },
      },
    },
  ],
  ['schema of its result', { spec: { outputSchema: { type: 'object' } } }],
];

/** A call that a person has said yes to, and attempts at calls after it. */
async function approved(isKnown: boolean) {
  const bench = await Bench.start({ providers: [BankTools] });
  const store = bench.module.get(PendingStore);
  const attempt = (
    { tool: id = 'bank__pay', amount = 5, spec = {}, presentation, ...options }: Attempt,
    approvals: RunApprovals,
  ) => {
    const tools = bench.catalog
      .build({})
      .map((one) =>
        Object.assign(
          {},
          one,
          { spec: Object.assign({}, one.spec, spec) },
          presentation && { presentation },
        ),
      );
    return bench.run({ policies: [POLICY], tools, approvals, ...options }).exec(id, { amount });
  };
  await attempt({}, new RunApprovals('suspend'));
  const [asked] = await store.list({ tenant: 'acme' });
  const approvalId = asked?.id ?? '';
  await bench.module
    .get(PendingService)
    .decide({ approvalId, decision: 'approve' }, { actor: { id: 'ada' }, tenant: 'acme' });
  return {
    done: bench.module.get(BankTools).done,
    attempt: (one: Attempt) => {
      const approvals = new RunApprovals('suspend');
      if (isKnown) approvals.ask('call_1', approvalId);
      return attempt(one, approvals);
    },
  };
}

describe('a yes to one call', () => {
  afterEach(() => {
    jest.useRealTimers();
  });

  describe.each([
    ['the run knows its id', true],
    ['the run has lost its id', false],
  ])('where %s', (_, isKnown) => {
    it.each(MISMATCHES)('is not used with another %s', async (_what, other) => {
      const { attempt, done } = await approved(isKnown);
      if (other.afterMs !== undefined)
        jest.useFakeTimers({
          now: Date.now() + other.afterMs,
          doNotFake: ['nextTick', 'setImmediate', 'setTimeout', 'queueMicrotask'],
        });
      const { isPending, record } = await attempt(other);
      expect([isPending, done]).toEqual([record.error ? undefined : true, []]);
      expect(record.error?.code).toBe(other.afterMs === undefined ? undefined : 'approval_denied');
    });

    it('is used with the same, and under a later policy that asks the same people', async () => {
      const { attempt, done } = await approved(isKnown);
      const policies = isKnown ? [{ ...POLICY, version: 'v3' }] : [POLICY];
      expect((await attempt({ policies })).record.status).toBe('succeeded');
      expect(done).toEqual(['pay 5']);
    });
  });
});

describe('a yes to a call', () => {
  it.each(CHANGES)(
    'does not count once the %s of the tool is another, which the person is asked about and shown',
    async (_, declared, field) => {
      const { release, done, all } = world();
      const first = await release([TIDY]);
      const { runId } = await first.run();
      const before = await first.say('approve');
      const second = await release([text('Done.')], declared);
      expect((await second.resume(runId)).finishReason).toBe('waiting');
      const [asked, ...others] = await second.open();
      expect(others).toEqual([]);
      expect(asked?.approvalId).not.toBe(before);
      expect(asked?.changed?.map((one) => one.field)).toEqual([field]);
      expect(done).toEqual([]);
      await second.say('approve');
      expect((await second.resume(runId)).finishReason).toBe('stop');
      expect(done).toEqual(['old']);
      expect((await all()).map(({ usedAt }) => usedAt !== undefined)).toEqual([false, true]);
    },
  );

  it('counts where a release declares the same in another order', async () => {
    const { release, done } = world();
    const first = await release([TIDY]);
    const { runId } = await first.run();
    await first.say('approve');
    const second = await release([text('Done.')], {
      presentation: { confirm: 'Tidy this folder?', label: 'Tidy up' },
      labels: { egress: false, reads: 'private' },
      input: {
        required: ['folder'],
        properties: { deep: { type: 'boolean' }, folder: { type: 'string' } },
        type: 'object',
      },
    });
    expect((await second.resume(runId)).finishReason).toBe('stop');
    expect(done).toEqual(['old']);
  });

  it('counts again where the tool is once more as the person saw it', async () => {
    const { release, done } = world();
    const first = await release([TIDY]);
    const { runId } = await first.run();
    await first.say('approve');
    await (await release([], { description: 'Deletes everything.' })).resume(runId);
    const third = await release([text('Done.')]);
    expect((await third.resume(runId)).finishReason).toBe('stop');
    expect(done).toEqual(['old']);
  });
});

describe('a question that waits while the tool changes', () => {
  it('is withdrawn, told so, and asked anew once, in however many releases it is looked at', async () => {
    const { release, done, all } = world();
    const first = await release([TIDY]);
    const { runId } = await first.run();
    const [before] = await first.open();
    for (const _ of [1, 2, 3]) {
      const next = await release([], { effect: 'external_side_effect' });
      expect((await next.resume(runId)).finishReason).toBe('waiting');
      expect(await next.open()).toMatchObject([
        {
          changed: expect.arrayContaining([
            { field: 'effect', before: 'state_change', after: 'external_side_effect' },
          ]),
        },
      ]);
    }
    expect((await all()).map(({ answer }) => answer?.isWithdrawn)).toEqual([true, undefined]);
    const last = await release([text('Done.')], { effect: 'external_side_effect' });
    const late = last.inbox.decide(
      { approvalId: before?.approvalId ?? '', decision: 'approve' },
      alice,
    );
    await expect(late).rejects.toMatchObject({
      code: 'withdrawn',
      message: 'The tool has changed since this was asked, so it is asked anew.',
    });
    await last.say('approve');
    await last.resume(runId);
    expect(done).toEqual(['old']);
  });

  it('tells the reader of the run that the earlier question needs no answer', async () => {
    const { release } = world();
    const first = await release([TIDY]);
    const { runId } = await first.run();
    const [before] = await first.open();
    const { events } = await (
      await release([], { description: 'Deletes everything.' })
    ).resume(runId);
    const told = events.find((event) => event.type === 'approval-decision');
    expect(told).toMatchObject({
      decision: { approvalId: before?.approvalId, decision: 'deny' },
      decidedBy: 'the run',
    });
  });

  it('is not asked anew where a person has said no to it', async () => {
    const { release, done, all } = world();
    const first = await release([TIDY]);
    const { runId } = await first.run();
    await first.say('deny');
    const second = await release([text('Well.')], { description: 'Deletes everything.' });
    expect((await second.resume(runId)).finishReason).toBe('stop');
    expect(done).toEqual([]);
    expect(await all()).toHaveLength(1);
  });

  it.each([
    ['answered', true],
    ['open', false],
  ] as const)(
    'is asked anew once where it is of a release that kept no form, and was %s',
    async (_, isAnswered) => {
      const { release, done, all } = world(new EarlierStore());
      const first = await release([TIDY]);
      const { runId } = await first.run();
      if (isAnswered) await first.say('approve');
      const second = await release([text('Done.')]);
      expect((await second.resume(runId)).finishReason).toBe('waiting');
      expect((await second.resume(runId)).finishReason).toBe('waiting');
      expect(await second.open()).toHaveLength(1);
      await second.say('approve');
      await second.resume(runId);
      expect(done).toEqual(['old']);
      expect(await all()).toHaveLength(2);
    },
  );
});

/**
 * A run whose yes to all calls of the tool is remembered, and that waits for another one while the
 * application is replaced.
 */
async function remembered() {
  const { release, done } = world();
  const first = await release([TIDY, calls(call('files__note', {}))]);
  const { runId } = await first.run();
  await first.say('approve', { remember: true });
  await first.resume(runId);
  await first.say('approve');
  const next = (declared: Declared) =>
    release([calls(call('files__tidy', { folder: 'older' })), text('Done.')], declared);
  return { next, runId, done };
}

describe('a remembered yes', () => {
  it('covers further calls in the next release, as long as the tool is the same', async () => {
    const { next, runId, done } = await remembered();
    expect((await (await next({})).resume(runId)).finishReason).toBe('stop');
    expect(done).toEqual(['old', 'older']);
  });

  it.each(CHANGES)(
    'covers no further call once the %s of the tool is another, which the person is shown',
    async (_, declared, field) => {
      const { next, runId, done } = await remembered();
      const second = await next(declared);
      expect((await second.resume(runId)).finishReason).toBe('waiting');
      expect((await second.open()).map(({ changed }) => changed?.map((one) => one.field))).toEqual([
        [field],
      ]);
      expect(done).toEqual(['old']);
      await second.say('approve');
      expect((await second.resume(runId)).finishReason).toBe('stop');
      expect(done).toEqual(['old', 'older']);
    },
  );
});

describe('a directive', () => {
  it('is not performed by a release whose tool is another than the one that was approved', async () => {
    const { release, done } = world();
    const directive = { type: 'files.tidy', subject: '{folder}' };
    const first = await release(
      [TIDY, text('Asked for.')],
      { effect: 'external_side_effect', directive },
      ASKING,
      false,
    );
    const { runId } = await first.run();
    await first.say('approve');
    expect((await first.resume(runId)).finishReason).toBe('stop');
    const second = await release([], {
      effect: 'external_side_effect',
      directive,
      description: 'Deletes everything.',
    });
    const service = second.module.get(DirectiveService);
    const settled = async (status: string): Promise<string | undefined> => {
      for (let left = 200; left > 0; left -= 1) {
        const [one] = await service.list(alice);
        if (one?.status === status) return one.failure?.safeMessage;
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
      throw new Error(`It is not ${status}.`);
    };
    expect(await settled('dead')).toContain('another than the one that a person approved');
    expect(done).toEqual([]);
    await second.module.close();
    const third = await release([], { effect: 'external_side_effect', directive });
    const [one] = await third.module.get(DirectiveService).list(alice);
    await third.module.get(DirectiveService).redrive(one?.directiveId ?? '', alice);
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(done).toEqual(['old']);
    await third.module.close();
  });
});

describe('an approved rehearsal', () => {
  const OPEN: Policy = { version: 'v1', allow: ['*'], flow: 'off' };
  it('performs nothing once a tool in it is gone, or is not permitted any more', async () => {
    const { release, done } = world();
    const first = await release([TIDY, text('Done.')], {}, OPEN);
    const { runId } = await first.run({ rehearse: true });
    const [asked] = await first.inbox.inbox(alice, { kind: 'rehearsal' });
    await first.inbox.answer({ rehearsalId: asked?.id ?? '', decision: 'approve' }, alice, runId);
    const without: Policy = { ...OPEN, deny: ['files__tidy'] };
    const { rehearsal } = await (await release([], {}, without)).resume(runId);
    expect(rehearsal).toMatchObject({ status: 'changed', change: { declaredId: 'files__tidy' } });
    expect(done).toEqual([]);
  });

  it.each(CHANGES)(
    'performs nothing once the %s of a tool in it is another, and says so',
    async (_, declared) => {
      const { release, done } = world();
      const first = await release([TIDY, text('Done.')], {}, OPEN);
      const { runId } = await first.run({ rehearse: true });
      const [asked] = await first.inbox.inbox(alice, { kind: 'rehearsal' });
      await first.inbox.answer({ rehearsalId: asked?.id ?? '', decision: 'approve' }, alice, runId);
      const { rehearsal } = await (await release([], declared, OPEN)).resume(runId);
      expect(rehearsal).toMatchObject({
        status: 'changed',
        change: { declaredId: 'files__tidy', isTool: true },
      });
      expect(done).toEqual([]);
    },
  );
});
