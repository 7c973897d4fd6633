import { afterEach, describe, expect, it, jest } from '@jest/globals';
import type { Provider } from '@nestjs/common';
import {
  type LoopRequest,
  type LoopResult,
  PendingError,
  type Policy,
  RunError,
} from '@toolloop/core';
import {
  CallJournal,
  MemoryCallJournal,
  MemoryPendingStore,
  MemoryRunLog,
  PendingStore,
  RunLog,
} from '@toolloop/core/stores';
import { StorageUnavailableError } from '@toolloop/protocol';
import { calls, type ScriptedCall, type StoreTrouble, text, troubled } from '@toolloop/testing';
import { alice, desk, desked, open } from './rehearsal-desk.js';

const WRITES = [desked('write', 'a'), desked('write', 'b')];
const WITH_CLIENT = [desked('write', 'a'), desked('sign', 'x'), desked('write', 'b')];
const DAY = 86_400_000;
const MADE = ['write a', 'write b'];
const as = (id: string, ...roles: string[]) => ({ actor: { id, roles }, tenant: 'acme' });

afterEach(() => {
  jest.useRealTimers();
});

/** A rehearsal of some calls that waits for its people. */
async function rehearsed(
  policy: Policy = open,
  stores: readonly Provider[] = [],
  made: readonly ScriptedCall[] = WRITES,
) {
  const one = await desk([calls(...made), text('Done.')], policy, stores);
  const { runId } = await one.rehearse();
  const [asked] = await one.inbox.inbox(alice, { kind: 'rehearsal' });
  const rehearsalId = asked?.id ?? '';
  const say = (
    decision: 'approve' | 'deny' | 'withdraw',
    person: ReturnType<typeof as> | typeof alice = alice,
  ): Promise<string> =>
    one.inbox.answer({ rehearsalId, decision }, person, runId).then(
      () => 'taken',
      (error: unknown) => (error instanceof PendingError ? error.code : String(error)),
    );
  const resume = async (more: Partial<LoopRequest> = {}): Promise<LoopResult> =>
    (await one.loop.resume(runId, { ...alice, ...more })).result.catch(resultIn);
  return { ...one, runId, rehearsalId, say, resume };
}

function resultIn(error: unknown): LoopResult {
  if (error instanceof RunError) return error.result;
  throw error;
}

describe('an approved rehearsal', () => {
  it('is answered once, where several people do so at once', async () => {
    const policy: Policy = {
      ...open,
      requireApproval: [{ tools: ['desk__write'], roles: ['manager'] }],
    };
    const { say, resume, called } = await rehearsed(policy);
    const people = [as('mia', 'manager'), as('max', 'manager'), as('ann', 'manager')];
    const said = await Promise.all(
      people.map((person, index) => say(index === 1 ? 'deny' : 'approve', person)),
    );
    expect(said.toSorted()).toEqual(['already_answered', 'already_answered', 'taken']);
    const { rehearsal } = await resume();
    expect([rehearsal?.status, called]).toEqual(
      said[1] === 'taken' ? ['denied', []] : ['performed', MADE],
    );
  });

  it('is performed once, where two resume it at once', async () => {
    const { say, loop, runId, called } = await rehearsed();
    await say('approve');
    const handles = [await loop.resume(runId, alice), await loop.resume(runId, alice)];
    const ends = await Promise.allSettled(handles.map(({ result }) => result));
    expect(ends.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected']);
    expect(called).toEqual(MADE);
  });

  it('has a call of the client made by the client, who may take as long as it needs, and then the calls behind it', async () => {
    const { say, resume, called, inbox, runId } = await rehearsed(open, [], WITH_CLIENT);
    await say('approve');
    const waiting = await resume();
    expect(waiting).toMatchObject({
      finishReason: 'waiting',
      waitingFor: 'client',
      rehearsal: { status: 'waiting' },
    });
    expect(waiting.rehearsal?.calls.map(({ outcome }) => outcome)).toEqual([
      'performed',
      'waiting',
      'not_made',
    ]);
    const [asked] = await inbox.inbox(alice, { kind: 'client' });
    const toolCallId = asked?.kind === 'client' ? asked.request.toolCallId : '';
    await expect(
      inbox.answer({ toolCallId, result: { signed: 'yes' } }, alice, runId),
    ).rejects.toMatchObject({ code: 'invalid_answer' });
    await inbox.answer({ toolCallId, result: { signed: true } }, alice, runId);
    const { rehearsal, toolCalls } = await resume();
    expect(rehearsal?.calls.map(({ outcome }) => outcome)).toEqual([
      'performed',
      'performed',
      'performed',
    ]);
    expect(toolCalls.filter((one) => one.rehearsal === undefined)).toMatchObject([
      {},
      { result: { signed: true } },
      {},
    ]);
    expect(called).toEqual(MADE);
  });

  it('makes no call of a tool that has become another one since the performance began', async () => {
    const stores = [
      { provide: PendingStore, useValue: new MemoryPendingStore() },
      { provide: RunLog, useValue: new MemoryRunLog() },
      { provide: CallJournal, useValue: new MemoryCallJournal() },
    ];
    const { say, resume, called, inbox, runId } = await rehearsed(open, stores, WITH_CLIENT);
    await say('approve');
    await resume();
    const [asked] = await inbox.inbox(alice, { kind: 'client' });
    const toolCallId = asked?.kind === 'client' ? asked.request.toolCallId : '';
    await inbox.answer({ toolCallId, result: { signed: true } }, alice, runId);
    const next = await desk([], open, stores, ' for good');
    const { finishReason, rehearsal } = await (
      await next.loop.resume(runId, alice)
    ).result.catch(resultIn);
    expect([finishReason, rehearsal?.status]).toEqual(['tool_error', 'incomplete']);
    expect(rehearsal?.calls.map(({ outcome }) => outcome)).toEqual([
      'performed',
      'performed',
      'failed',
    ]);
    expect([called, next.called]).toEqual([['write a'], []]);
  });

  it('makes no call behind one that the client will not make, and says so', async () => {
    const { say, resume, called, inbox, runId } = await rehearsed(open, [], WITH_CLIENT);
    await say('approve');
    await resume();
    const [asked] = await inbox.inbox(alice, { kind: 'client' });
    const toolCallId = asked?.kind === 'client' ? asked.request.toolCallId : '';
    await inbox.answer({ toolCallId, error: 'The owner is away.' }, alice, runId);
    const { finishReason, rehearsal } = await resume();
    expect([finishReason, rehearsal?.status]).toEqual(['tool_error', 'incomplete']);
    expect(rehearsal?.calls.map(({ outcome }) => outcome)).toEqual([
      'performed',
      'failed',
      'not_made',
    ]);
    expect(called).toEqual(['write a']);
  });

  it.each([
    ['deny', 'Nothing was performed: the rehearsal was not approved.'],
    ['withdraw', 'Nothing was performed: the rehearsal was withdrawn.'],
  ] as const)(
    'says that nothing was performed after the answer %s, whatever the model had said of it',
    async (decision, detail) => {
      const { say, resume, called } = await rehearsed();
      expect(await say(decision)).toBe('taken');
      expect([await resume(), called]).toEqual([
        expect.objectContaining({ finishReason: 'stop', finishDetail: detail }),
        [],
      ]);
    },
  );

  it('says so as well where no person can be asked', async () => {
    const { rehearse } = await desk([calls(...WRITES), text('Done.')], open);
    const result = await rehearse({ approvals: 'deny' });
    expect(result).toMatchObject({
      finishReason: 'stop',
      finishDetail:
        'Nothing was performed: the rehearsal was only shown, since no one could be asked.',
      rehearsal: { status: 'unasked' },
    });
  });

  it.each([
    ['before an answer', DAY, ['expired', 'expired']],
    ['behind the answer, and before it is performed', 0, ['taken', 'expired']],
  ] as const)('performs nothing once it has expired: %s', async (_when, before, outcome) => {
    const { say, resume, called } = await rehearsed();
    const now = Date.now();
    fakeTheDate(now + before);
    const said = await say('approve');
    jest.setSystemTime(now + DAY);
    const { rehearsal, finishDetail } = await resume();
    expect([said, rehearsal?.status, finishDetail]).toEqual([
      ...outcome,
      'Nothing was performed: the rehearsal has expired.',
    ]);
    expect(called).toEqual([]);
  });
});

function fakeTheDate(now: number): void {
  jest.useFakeTimers({
    now,
    doNotFake: [
      'hrtime',
      'nextTick',
      'performance',
      'queueMicrotask',
      'setImmediate',
      'setInterval',
      'setTimeout',
      'clearInterval',
      'clearTimeout',
    ],
  });
}

const lost = (): Promise<never> => Promise.reject(new StorageUnavailableError());
/** Longer than a store is asked again. */
const lostForLong = (): Promise<never> => {
  jest.setSystemTime(Date.now() + 10_000);
  return lost();
};
const hangs = (): Promise<never> => new Promise(() => undefined);

const PORTS = {
  pending: { provide: PendingStore, make: () => new MemoryPendingStore() },
  journal: { provide: CallJournal, make: () => new MemoryCallJournal() },
  runs: { provide: RunLog, make: () => new MemoryRunLog() },
};

/** An approved rehearsal, of which a store is in trouble until it is mended. */
async function troubledBy(port: keyof typeof PORTS, trouble: Omit<StoreTrouble, 'when'>) {
  const state = { isBroken: false };
  const { provide, make } = PORTS[port];
  const useValue = troubled<object>(make(), { ...trouble, when: () => state.isBroken });
  const one = await rehearsed(open, [{ provide, useValue }]);
  await one.say('approve');
  state.isBroken = true;
  return { ...one, mend: () => (state.isBroken = false) };
}

/**
 * The calls of a store while an approved rehearsal is performed: its answer is used, and each of
 * its calls gets a key and an outcome.
 */
const MOMENTS: readonly (readonly [keyof typeof PORTS, string, number])[] = [
  ['pending', 'find', 1],
  ['pending', 'use', 1],
  ['journal', 'acquire', 1],
  ['journal', 'acquire', 2],
  ['journal', 'finish', 1],
  ['journal', 'finish', 2],
  ['runs', 'append', 1],
];

const BEFORE_A_CALL = MOMENTS.filter(
  ([, method, at]) => at === 1 && ['find', 'use', 'acquire'].includes(method),
);

describe('an approved rehearsal, whose stores are in trouble', () => {
  it.each(MOMENTS)(
    'invariant 17: is performed once where a store is away for a moment: %s %s, call %i',
    async (port, method, at) => {
      for (const isDone of [false, true]) {
        const { resume, called, say } = await troubledBy(port, {
          method,
          at,
          answer: lost,
          isDone,
        });
        expect((await resume()).rehearsal?.status).toBe('performed');
        expect(called).toEqual(MADE);
        expect(await say('approve')).toBe('already_answered');
      }
    },
  );

  it.each(BEFORE_A_CALL)(
    'invariant 17: waits with its run where a store is away for long, and is performed once when that is back: %s %s',
    async (port, method) => {
      fakeTheDate(Date.now());
      const { resume, called, mend } = await troubledBy(port, { method, answer: lostForLong });
      expect(await resume()).toMatchObject({
        finishReason: 'error',
        error: { code: 'storage_unavailable' },
      });
      expect(called).toEqual([]);
      mend();
      expect((await resume()).rehearsal?.status).toBe('performed');
      expect(called).toEqual(MADE);
    },
  );

  it('invariant 17: has taken place where the store that notes its outcomes is away for long', async () => {
    fakeTheDate(Date.now());
    const { resume, called } = await troubledBy('journal', {
      method: 'finish',
      answer: lostForLong,
    });
    expect([(await resume()).rehearsal?.status, called]).toEqual(['performed', MADE]);
  });

  it('invariant 17: is not performed again where the store of runs was away as it ended', async () => {
    fakeTheDate(Date.now());
    const { resume, called, mend } = await troubledBy('runs', {
      method: 'append',
      answer: lostForLong,
    });
    await resume();
    mend();
    jest.setSystemTime(Date.now() + DAY / 2); // the lease of the run is over by then
    expect([(await resume()).rehearsal?.status, called]).toEqual(['performed', MADE]);
  });

  it.each(MOMENTS)(
    'invariant 16: ends with its run where a store hangs, and makes no call twice: %s %s, call %i',
    async (port, method, at) => {
      const { resume, called, say, module } = await troubledBy(port, { method, at, answer: hangs });
      const { finishReason, rehearsal } = await resume({ limits: { runMs: 60 } });
      expect(finishReason).toBe(rehearsal?.status === 'performed' ? 'stop' : 'timeout');
      expect(new Set(called).size).toBe(called.length);
      expect(await say('approve')).toBe('already_answered');
      await module.close();
    },
  );
});
