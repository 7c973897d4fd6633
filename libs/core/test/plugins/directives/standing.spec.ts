import { describe, expect, it } from '@jest/globals';
import { type Policy, ToolError } from '@toolloop/core';
import { text } from '@toolloop/testing';
import { alice, answerIn, desk, mia, OPEN, refund, world, type DeskOptions } from './bench.js';

const FOUR_EYES: Policy = {
  ...OPEN,
  requireApproval: [{ tools: ['bank__refund'], roles: ['manager'], notRequester: true }],
};
const TWICE = [refund(), text('1'), refund(), text('2')];

/** A refund that was approved, and may be asked for again under the same key. */
async function approvedOnce(options: DeskOptions = {}, shared = world()) {
  const opened = await desk(TWICE, {
    policy: FOUR_EYES,
    shared,
    directive: { key: 'whole' },
    directives: { operators: ['manager'] },
    ...options,
  });
  const { runId } = await opened.run({ requestId: 'first' });
  await opened.decide('approve');
  await opened.resume(runId);
  return opened;
}

type Opened = Awaited<ReturnType<typeof approvedOnce>>;

function closed(shared = world()): ReturnType<typeof world> {
  shared.bank.before = () => {
    throw new ToolError('The order is closed.');
  };
  return shared;
}

/** What nobody was asked about, and the model read. */
async function askedAgain({ run, approvals }: Opened) {
  const result = await run({ requestId: 'second' });
  return {
    finishReason: result.finishReason,
    waiting: await approvals.list(mia),
    call: result.toolCalls[0],
    result,
  };
}

describe('what was asked for before, asked for again', () => {
  it('needs no further approval while it is still to be performed', async () => {
    const opened = await approvedOnce({ directives: { perform: false, operators: ['manager'] } });
    const { finishReason, waiting, result } = await askedAgain(opened);
    expect([finishReason, waiting]).toEqual(['stop', []]);
    expect(answerIn(result)).toMatchObject({ ok: true, result: { status: 'pending' } });
    expect(await opened.service.list(mia)).toHaveLength(1);
  });

  it('requires no approval when it is dead, and says who can redrive it', async () => {
    const opened = await approvedOnce({}, closed());
    await opened.until('dead');
    const { finishReason, waiting, call } = await askedAgain(opened);
    expect([finishReason, waiting]).toEqual(['stop', []]);
    expect(call).toMatchObject({
      status: 'failed',
      error: {
        code: 'execution_failed',
        safeMessage: expect.stringMatching(
          /failed for good\. The order is closed\. Nothing was requested now \(dir_\w+\)\. A person with the role manager can/,
        ),
      },
    });
  });

  it('says so when it was taken back, and an operator can have it performed all the same', async () => {
    const opened = await approvedOnce({ directives: { perform: false, operators: ['manager'] } });
    const [one] = await opened.service.list(mia);
    const directiveId = one?.directiveId ?? '';
    await opened.service.cancel(directiveId, alice);
    const { waiting, call } = await askedAgain(opened);
    expect(waiting).toEqual([]);
    expect(call).toMatchObject({
      status: 'failed',
      error: { safeMessage: expect.stringContaining('cancelled') },
    });
    await expect(opened.service.redrive(directiveId, alice)).rejects.toMatchObject({
      code: 'not_permitted',
    });
    expect(await opened.service.redrive(directiveId, mia)).toMatchObject({
      status: 'pending',
      task: 'perform',
    });
  });

  it('says, once it was undone, that it is not performed again', async () => {
    const opened = await approvedOnce();
    const { directiveId } = await opened.until('succeeded');
    await opened.service.cancel(directiveId, mia);
    await opened.until('compensated');
    const { waiting, call } = await askedAgain(opened);
    expect(waiting).toEqual([]);
    expect(call).toMatchObject({
      status: 'failed',
      error: { safeMessage: expect.stringContaining('performed before and undone') },
    });
    expect(opened.bank.effects.map(({ did }) => did)).toEqual(['refund', 'undo']);
  });

  it('is not requested again while its outcome is unknown', async () => {
    const shared = world();
    shared.bank.after = () => {
      throw new Error('the answer was lost');
    };
    const opened = await approvedOnce({}, shared);
    await opened.until('unknown_outcome');
    const { waiting, call } = await askedAgain(opened);
    expect([waiting, call?.error?.code]).toEqual([[], 'unknown_outcome']);
  });

  it('is a conflict with other arguments before any approval is requested', async () => {
    const large = { properties: { amount: { minimum: 15 } } };
    const policy: Policy = {
      ...OPEN,
      requireApproval: [{ tools: ['bank__refund'], arguments: large, roles: ['manager'] }],
    };
    const { run, approvals } = await desk([refund('o-1', 10), refund('o-1', 20), text('Done.')], {
      policy,
      directives: { perform: false },
    });
    const { toolCalls } = await run();
    expect(toolCalls[1]).toMatchObject({
      status: 'failed',
      error: { safeMessage: expect.stringContaining('with other arguments') },
    });
    expect(await approvals.list(mia)).toEqual([]);
  });

  it('needs a yes where the first one is another request', async () => {
    const opened = await approvedOnce({ directive: {} });
    const { finishReason, waiting } = await askedAgain(opened);
    expect([finishReason, waiting.length]).toEqual(['waiting', 1]);
  });

  it('is still not performed after a denial', async () => {
    const opened = await desk(TWICE, { policy: FOUR_EYES, directive: { key: 'whole' } });
    const { runId } = await opened.run();
    await opened.decide('deny');
    expect((await opened.resume(runId)).toolCalls[0]?.error?.code).toBe('approval_denied');
    expect(await opened.service.list(alice)).toEqual([]);
  });
});
