import { afterEach, describe, expect, it, jest } from '@jest/globals';
import { type LoopRequest, PendingError, type Policy } from '@toolloop/core';
import { type PendingView } from '@toolloop/core/loop';
import { RunService } from '@toolloop/core/runs';
import { calls, type ScriptedCall, type ScriptedTurn, text } from '@toolloop/testing';
import { alice, desk, desked, open } from '../rehearsals/rehearsal-desk.js';

const IDS = ['approvalId', 'rehearsalId', 'questionId', 'pendingId'];
const WEEK = 7 * 86_400_000;
const policy: Policy = { ...open, requireApproval: [{ tools: ['desk__send'] }] };

afterEach(() => {
  jest.useRealTimers();
});

/** What one kind of request is answered with, by whom and how not. */
interface Kind {
  readonly call: ScriptedCall;
  readonly request?: Partial<LoopRequest>;
  readonly reply: (asked: PendingView) => object;
  /** Answers that name the request and do not have the form that it asks for. */
  readonly misshapen: (asked: PendingView) => readonly object[];
}

const KINDS: Readonly<Record<PendingView['kind'], Kind>> = {
  approval: {
    call: desked('send'),
    reply: ({ id: approvalId }) => ({ approvalId, decision: 'approve' }),
    misshapen: ({ id: approvalId }) => [
      { approvalId },
      { approvalId, decision: 'yes' },
      { approvalId, decision: true },
      { approvalId, answer: 'approve' },
      { rehearsalId: approvalId, decision: 'approve' },
      { questionId: approvalId, answer: 'approve' },
    ],
  },
  client: {
    call: desked('sign'),
    reply: (view) => ({ ...callOf(view), result: { signed: true } }),
    misshapen: (view) => [
      callOf(view),
      { ...callOf(view), result: { signed: 'yes' } },
      { ...callOf(view), result: {} },
      { ...callOf(view), result: { signed: true }, error: 'Not now.' },
      { ...callOf(view), decision: 'approve' },
      { approvalId: view.id, decision: 'approve' },
      { questionId: view.id, answer: { signed: true } },
    ],
  },
  question: {
    call: desked('inquire'),
    reply: ({ id: questionId }) => ({ questionId, answer: 3 }),
    misshapen: ({ id: questionId }) => [
      { questionId },
      { questionId, answer: 'three' },
      { questionId, answer: 3, decision: 'deny' },
      { questionId, decision: 'approve' },
      { approvalId: questionId, decision: 'approve' },
    ],
  },
  rehearsal: {
    call: desked('write'),
    request: { rehearse: true },
    reply: ({ id: rehearsalId }) => ({ rehearsalId, decision: 'approve' }),
    misshapen: ({ id: rehearsalId }) => [
      { rehearsalId },
      { rehearsalId, decision: 'yes' },
      { rehearsalId, answer: true },
      { approvalId: rehearsalId, decision: 'approve' },
      { questionId: rehearsalId, answer: true },
    ],
  },
};

function callOf({ id: pendingId, request }: PendingView): {
  readonly toolCallId: string;
  readonly pendingId: string;
} {
  return { toolCallId: 'toolCallId' in request ? request.toolCallId : '', pendingId };
}

/** Two runs that ask for the same, each its own. */
async function asked(kind: PendingView['kind']) {
  const { call, request } = KINDS[kind];
  const play: ScriptedTurn = ({ messages }) =>
    messages.at(-1)?.role === 'tool' ? text('Done.') : calls(call);
  const { loop, inbox, module, called } = await desk(
    Array.from({ length: 10 }, () => play),
    policy,
  );
  const runs = module.get<RunService>(RunService);
  const ask = async () => {
    const { runId, waitingFor } = await loop.run({ prompt: 'Go on.', ...alice, ...request });
    expect(waitingFor).toBe(kind);
    const [view] = await inbox.inbox(alice, { runId });
    if (!view) throw new Error('Nothing is asked.');
    return { runId, view };
  };
  const { runId, view } = await ask();
  const say = (reply: object, person = alice, on = runId): Promise<string> =>
    runs.answer(on, reply, person).then(
      () => 'taken',
      (error: unknown) => (error instanceof PendingError ? error.code : String(error)),
    );
  const resume = async () => (await loop.resume(runId, alice)).result;
  return { runId, view, say, resume, ask, runs, called };
}

describe.each(Object.keys(KINDS) as PendingView['kind'][])(
  'invariant 12: the answer to a request of the kind %s',
  (kind) => {
    const { reply, misshapen } = KINDS[kind];

    it('is not taken of another person, for another run or call, or in another form; the run waits on', async () => {
      const { view, say, ask, called, resume } = await asked(kind);
      const other = await ask();
      const right = reply(view);
      expect(await say(right, { actor: { id: 'bob' }, tenant: 'acme' })).toBe('not_found');
      expect(await say(right, { ...alice, tenant: 'globex' })).toBe('not_found');
      expect(await say(right, alice, other.runId)).toBe('not_found');
      for (const named of IDS.filter((id) => id in right))
        expect(await say({ ...right, [named]: 'another' })).toBe('not_found');
      for (const form of misshapen(view))
        expect([form, await say(form)]).toEqual([form, expect.stringMatching(/^invalid_answer$/)]);
      expect(await resume()).toMatchObject({ finishReason: 'waiting', waitingFor: kind });
      expect(called).toEqual([]);
      expect(await say(right)).toBe('taken');
    });

    it('is taken once, also of two at once, and used once', async () => {
      const { view, say, resume, called } = await asked(kind);
      expect((await Promise.all([say(reply(view)), say(reply(view))])).toSorted()).toEqual([
        'already_answered',
        'taken',
      ]);
      expect(await resume()).toMatchObject({ finishReason: 'stop', text: 'Done.' });
      expect(await say(reply(view))).toBe('already_answered');
      await expect(resume()).rejects.toMatchObject({ code: 'unknown_run' });
      expect(called.length).toBeLessThanOrEqual(1);
    });

    it('stands for nothing that another run asks', async () => {
      const { view, say, ask, called } = await asked(kind);
      expect(await say(reply(view))).toBe('taken');
      const { view: second } = await ask();
      expect([second.id === view.id, second.answer, called]).toEqual([false, undefined, []]);
    });

    it('comes too late once it has expired', async () => {
      const { view, say, resume, called } = await asked(kind);
      fakeTheDate(Date.now() + WEEK);
      expect(await say(reply(view))).toBe('expired');
      expect((await resume()).finishReason).not.toBe('waiting');
      expect(called).toEqual([]);
    });

    it('comes too late once the actor has withdrawn the request, which no one else may', async () => {
      const { view, say, resume, called } = await asked(kind);
      const { approvalId, rehearsalId, questionId, toolCallId, pendingId } = reply(
        view,
      ) as Readonly<Record<string, unknown>>;
      const withdraws = {
        approvalId,
        rehearsalId,
        questionId,
        toolCallId,
        pendingId,
        decision: 'withdraw',
      };
      expect(await say(withdraws, { actor: { id: 'bob' }, tenant: 'acme' })).toBe('not_found');
      expect(await say(withdraws)).toBe('taken');
      expect(await say(reply(view))).toBe('withdrawn');
      expect((await resume()).finishReason).not.toBe('waiting');
      expect(called).toEqual([]);
    });

    it('comes too late once its run was cancelled', async () => {
      const { view, say, runId, runs, called } = await asked(kind);
      await runs.cancel(runId, alice);
      expect(await say(reply(view))).toBe('withdrawn');
      expect(called).toEqual([]);
    });
  },
);

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
