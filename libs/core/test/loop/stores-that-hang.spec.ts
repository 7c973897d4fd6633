import { setTimeout as wait } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import {
  ActorDirectory,
  PendingService,
  type LoopRequest,
  type Policy,
  type RunHandle,
  tool,
  ToolLoopService,
} from '@toolloop/core';
import {
  PendingStore,
  AuditStore,
  CallJournal,
  ConversationStore,
  DirectiveStore,
  MemoryPendingStore,
  MemoryAuditStore,
  MemoryCallJournal,
  MemoryConversationStore,
  MemoryDirectiveStore,
  MemoryRunLog,
  RunLog,
  MemoryUsageStore,
  UsageStore,
} from '@toolloop/core/stores';
import { call, calls, ScriptedModel, text, troubled } from '@toolloop/testing';
import { ask, openModule } from '../fixtures/shop.module.js';

const PORTS = {
  approvals: { provide: PendingStore, make: () => new MemoryPendingStore() },
  audit: { provide: AuditStore, make: () => new MemoryAuditStore() },
  conversations: { provide: ConversationStore, make: () => new MemoryConversationStore() },
  directives: { provide: DirectiveStore, make: () => new MemoryDirectiveStore() },
  journal: { provide: CallJournal, make: () => new MemoryCallJournal() },
  usage: { provide: UsageStore, make: () => new MemoryUsageStore() },
  runs: { provide: RunLog, make: () => new MemoryRunLog() },
};
const policy: Policy = {
  version: 'v1',
  allow: ['*'],
  flow: 'off',
  requireApproval: [{ effects: ['state_change'] }],
};
const write = (key: string) => call('probe__write', { key });
@Injectable()
class Directory extends ActorDirectory {
  override find(actorId: string): Promise<unknown> {
    return Promise.resolve({ id: actorId });
  }
}

const remind = tool({
  id: 'remind',
  description: 'Reminds.',
  input: {
    type: 'object',
    properties: { about: { type: 'string' } },
    required: ['about'],
    additionalProperties: false,
  },
  effect: 'external_side_effect',
  reveal: 'all',
  directive: { type: 'remind', subject: '{about}' },
  execute: () => 'reminded',
});
/** An attempt of a store may take so long; what ends before was ended by its run. */
const ATTEMPT_MS = 4_000;

/** What is waited for until somebody opens it. */
function gate(): { readonly promise: Promise<void>; readonly resolve: () => void } {
  let resolve!: () => void;
  const promise = new Promise<void>((open) => {
    resolve = open;
  });
  return { promise, resolve };
}

/** An application one of whose stores hangs at one call; `hung` resolves when that is made. */
async function shop(port: keyof typeof PORTS, method: string, at: number) {
  const { promise: hung, resolve: hang } = gate();
  const answer = (): Promise<never> => {
    hang();
    return new Promise(() => undefined);
  };
  const providers = Object.entries(PORTS).map(([name, { provide, make }]) => ({
    provide,
    useValue: name === port ? troubled<object>(make(), { method, at, answer }) : make(),
  }));
  const script = [
    calls(
      call('probe__read', { key: 'r' }),
      call('remind', { about: 'x' }),
      call('probe__send', { key: 's' }),
      write('a'),
    ),
    text('Done.'),
  ];
  const module = await openModule(new ScriptedModel(script), {
    policy,
    providers: [...providers, Directory],
    tools: [remind],
    audit: { key: 'x'.repeat(32) },
    directives: { perform: false },
    quotas: [
      { quantity: 'calls', most: 100, windowMs: 60_000 },
      { quantity: 'tokens', most: 1_000_000, windowMs: 60_000 },
    ],
  });
  return { module, loop: module.get<ToolLoopService>(ToolLoopService), hung };
}

/** Approves what the first part of a run asked for, and opens the second. */
async function resumed(
  { module, loop }: Awaited<ReturnType<typeof shop>>,
  request: LoopRequest,
): Promise<RunHandle> {
  const { runId } = await loop.run(request);
  const approvals: PendingService = module.get(PendingService);
  const [asked] = await approvals.list(request);
  await approvals.decide({ approvalId: asked?.approvalId ?? '', decision: 'approve' }, request);
  return loop.resume(runId, request);
}

const BEFORE: [keyof typeof PORTS, string, number][] = [
  ['conversations', 'load', 1],
  ['usage', 'add', 1],
  ['usage', 'totals', 1],
  ['audit', 'head', 1],
  ['audit', 'append', 1],
  ['audit', 'append', 2],
  ['audit', 'append', 5],
  ['directives', 'find', 1],
  ['directives', 'add', 1],
  ['journal', 'acquire', 1],
  ['journal', 'finish', 1],
  ['approvals', 'add', 1],
  ['runs', 'add', 1],
];
const AFTER: [keyof typeof PORTS, string, number][] = [
  ['approvals', 'use', 1],
  ['journal', 'acquire', 2],
  ['journal', 'finish', 2],
  ['runs', 'acquire', 1],
  ['runs', 'append', 1],
  ['conversations', 'append', 2],
];

/**
 * Whether a run that is ended once its store hangs has ended before the store is given up; the
 * clock is moved by hand.
 */
async function endsInTime(
  handle: RunHandle,
  hung: Promise<unknown>,
  end: () => void,
): Promise<boolean> {
  let isOver = false;
  const over = (): boolean => (isOver = true);
  handle.result.then(over, over);
  await hung;
  await wait(5);
  expect(isOver).toBe(false);
  end();
  await jest.advanceTimersByTimeAsync(ATTEMPT_MS);
  return isOver;
}

beforeEach(() => {
  jest.useFakeTimers({ doNotFake: ['nextTick', 'queueMicrotask', 'setImmediate'] });
});

afterEach(() => {
  jest.useRealTimers();
});

describe('invariant 16: a run whose store hangs', () => {
  it.each(BEFORE)('ends with its cancellation where %s.%s hangs at call %d', async (...place) => {
    const { loop, hung } = await shop(...place);
    const handle = loop.open(ask({ conversationId: 'c' }));
    expect(await endsInTime(handle, hung, () => handle.cancel())).toBe(true);
  });

  it.each(BEFORE)('ends with its own time limit where %s.%s hangs at call %d', async (...place) => {
    const { loop, hung } = await shop(...place);
    const handle = loop.open(ask({ conversationId: 'c', limits: { runMs: 150 } }));
    expect(await endsInTime(handle, hung, () => undefined)).toBe(true);
  });

  it.each(AFTER)(
    'ends with its cancellation where %s.%s hangs at call %d, after it waited',
    async (...place) => {
      const opened = await shop(...place);
      const handle = await resumed(opened, ask({ conversationId: 'c' }));
      expect(await endsInTime(handle, opened.hung, () => handle.cancel())).toBe(true);
    },
  );

  it.each(AFTER)(
    'ends with its own time limit where %s.%s hangs at call %d, after it waited',
    async (...place) => {
      const opened = await shop(...place);
      const handle = await resumed(opened, ask({ conversationId: 'c', limits: { runMs: 150 } }));
      expect(await endsInTime(handle, opened.hung, () => undefined)).toBe(true);
    },
  );

  it.each([
    ['list', 2],
    ['answer', 1],
  ])(
    'ends with its cancellation where the withdrawal of what it asked for hangs (%s)',
    async (method, at) => {
      const { loop } = await shop('approvals', method, at);
      const { promise: waits, resolve: asked } = gate();
      const handle = loop.open(ask({ approvals: 'wait' }));
      handle.events$.subscribe((event) =>
        event.type === 'approval-request' ? asked() : undefined,
      );
      expect(await endsInTime(handle, waits, () => handle.cancel())).toBe(true);
    },
  );

  it('gives back a key that is taken after the run has ended, so that the call may be made later', async () => {
    const journal = new MemoryCallJournal();
    const { promise: taken, resolve: take } = gate();
    const { promise: hung, resolve: began } = gate();
    const late = troubled<CallJournal>(journal, {
      method: 'release',
      at: 99,
      answer: () => new Promise(() => undefined),
    });
    const acquire = journal.acquire.bind(journal);
    journal.acquire = async (start) => {
      began();
      await taken;
      return acquire(start);
    };
    const module = await openModule(
      new ScriptedModel([calls(write('a')), calls(write('a')), text('Done.')]),
      {
        providers: [{ provide: CallJournal, useValue: late }],
      },
    );
    const loop: ToolLoopService = module.get(ToolLoopService);
    const handle = loop.open(ask({ requestId: 'once' }));
    expect(await endsInTime(handle, hung, () => handle.cancel())).toBe(true);
    take();
    await wait(5);
    const made: string[] = [];
    await loop.run(ask({ requestId: 'once', context: { act: (key: string) => made.push(key) } }));
    expect(made).toEqual(['a']);
  });
});
