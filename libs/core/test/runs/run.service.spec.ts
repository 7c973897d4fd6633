import { afterEach, describe, expect, it, jest } from '@jest/globals';
import {
  type LoopEvent,
  type LoopRequest,
  type Policy,
  ToolLoopModule,
  type ToolLoopService,
  toolLoopToken,
} from '@toolloop/core';
import { RunService } from '@toolloop/core/runs';
import { ScriptedModel, call, calls, collect, text } from '@toolloop/testing';
import { lastValueFrom, toArray } from 'rxjs';
import { Test } from '@nestjs/testing';
import { alice, shop, write } from '../fixtures/approval.shop.js';
import { ProbeTools } from '../fixtures/probe.tools.js';

afterEach(() => {
  jest.useRealTimers();
});

const others = [
  { actor: { id: 'bob' }, tenant: 'acme' },
  { actor: { id: 'alice' }, tenant: 'globex' },
];
const unknown = { name: 'InvalidRequestError', code: 'unknown_run' };

/** A run of alice's that waits for a decision. */
async function waiting() {
  const desk = await shop([calls(write('w')), text('Done.')]);
  const { result } = await desk.run();
  const runs: RunService = desk.module.get(RunService);
  return { ...desk, runs, runId: result.runId };
}

describe('a run that is suspended and not durable', () => {
  it('is listed and read like any other run', async () => {
    const { runs, runId } = await waiting();
    const view = {
      runId,
      status: 'waiting',
      durable: false,
      finishReason: 'waiting',
      lastSequence: 0,
    };
    expect(await runs.list(alice)).toMatchObject([view]);
    expect(await runs.list(alice, { status: 'waiting' })).toHaveLength(1);
    expect(await runs.list(alice, { status: 'ended' })).toEqual([]);
    expect(await runs.get(runId, alice)).toMatchObject(view);
  });

  it('is listed with those of all of its tenant for operators alone', async () => {
    const { runs } = await waiting();
    await expect(runs.list(alice, { ofTenant: true })).rejects.toMatchObject({
      name: 'OperatorError',
      action: 'runs',
    });
    await expect(runs.list(alice, { ofTenant: true, actorId: 'bob' })).rejects.toThrow(
      'do not go together',
    );
  });

  it('is resumed by the service, with the events that follow, and has ended then', async () => {
    const { runs, runId, decide, done, request } = await waiting();
    await decide('approve');
    const events = await collect(await runs.resume(runId, request()));
    expect(events[0]).toMatchObject({ type: 'run-start', runId });
    expect(events.at(-1)).toMatchObject({ type: 'run-end', finishReason: 'stop', text: 'Done.' });
    expect(done).toEqual(['w']);
    expect(await runs.get(runId, alice)).toMatchObject({ status: 'ended', finishReason: 'stop' });
    await expect(runs.resume(runId, alice)).rejects.toMatchObject(unknown);
  });

  it('is answered by its id and continues', async () => {
    const { runs, runId, waiting: open, request, done } = await waiting();
    const [approvalId = ''] = await open();
    expect(await runs.answer(runId, { approvalId, decision: 'approve' }, alice)).toMatchObject({
      kind: 'approval',
      answer: { decidedBy: 'alice' },
    });
    await collect(await runs.resume(runId, request()));
    expect(done).toEqual(['w']);
  });

  it('invariant 12: an answer for another run, by a stranger or of another tenant is not found, and none is taken twice', async () => {
    const { runs, runId, run, waiting: open, done } = await waiting();
    const [approvalId = ''] = await open();
    const yes = { approvalId, decision: 'approve' } as const;
    const { runId: second } = (await run({ prompt: 'Once more.' })).result;
    for (const [id, person] of [
      [second, alice],
      ['', alice],
      ...others.map((other) => [runId, other] as const),
    ] as const)
      await expect(runs.answer(id, yes, person)).rejects.toMatchObject({
        name: 'PendingError',
        code: 'not_found',
      });
    await expect(runs.answer(runId, { decision: 'approve' }, alice)).rejects.toMatchObject({
      code: 'invalid_answer',
    });
    await expect(runs.answer(runId, { ...yes, decision: 'yes' }, alice)).rejects.toMatchObject({
      code: 'invalid_answer',
    });
    const taken = await Promise.allSettled([
      runs.answer(runId, yes, alice),
      runs.answer(runId, { ...yes, decision: 'deny' }, alice),
    ]);
    expect(taken.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected']);
    expect([await open(), done]).toEqual([[], []]);
  });

  it('waits again where it is resumed before a decision', async () => {
    const { runs, runId, request } = await waiting();
    expect((await collect(await runs.resume(runId, request()))).at(-1)).toMatchObject({
      finishReason: 'waiting',
    });
    expect(await runs.get(runId, alice)).toMatchObject({ status: 'waiting' });
  });

  it('stays as it is while the events of its resume are not read', async () => {
    const { runs, runId } = await waiting();
    await runs.resume(runId, alice);
    expect(await runs.get(runId, alice)).toMatchObject({ status: 'waiting' });
  });

  it('is unknown to every other actor and tenant, by whichever method', async () => {
    const { runs, runId } = await waiting();
    for (const other of others) {
      expect(await runs.list(other)).toEqual([]);
      await expect(runs.get(runId, other)).rejects.toMatchObject(unknown);
      await expect(runs.resume(runId, other)).rejects.toMatchObject(unknown);
      await expect(runs.cancel(runId, other)).rejects.toMatchObject(unknown);
      await expect(lastValueFrom(runs.events(runId, other))).rejects.toMatchObject(unknown);
    }
    expect(await runs.get(runId, alice)).toMatchObject({ status: 'waiting' });
  });

  it('says that its events are not kept, instead of showing none', async () => {
    const { runs, runId } = await waiting();
    await expect(lastValueFrom(runs.events(runId, alice).pipe(toArray()))).rejects.toThrow(
      'is not durable: its events are not kept',
    );
  });

  it('ends where it is cancelled, and what it asked for is withdrawn', async () => {
    const { runs, runId, waiting: open, resume, done } = await waiting();
    expect(await open()).toHaveLength(1);
    await runs.cancel(runId, alice);
    expect(await runs.get(runId, alice)).toMatchObject({
      status: 'ended',
      finishReason: 'aborted',
    });
    expect(await open()).toEqual([]);
    await expect(resume(runId)).rejects.toMatchObject(unknown);
    expect(done).toEqual([]);
  });

  it('ends where it is cancelled while it continues', async () => {
    jest.useFakeTimers({
      doNotFake: [
        'nextTick',
        'setImmediate',
        'setTimeout',
        'clearTimeout',
        'queueMicrotask',
        'Date',
        'performance',
      ],
    });
    const { runs, runId, decide, request } = await waiting();
    await decide('approve');
    let begin!: () => void;
    const begun = new Promise<void>((resolve) => {
      begin = resolve;
    });
    const act = (): Promise<never> => {
      begin();
      return new Promise(() => undefined);
    };
    const events: LoopEvent[] = [];
    const resumed = (await runs.resume(runId, request({ context: { act } }))).forEach(
      (event) => void events.push(event),
    );
    await begun;
    await runs.cancel(runId, alice, 'Never mind.');
    expect(await runs.get(runId, alice)).toMatchObject({ status: 'running' });
    jest.advanceTimersByTime(3_000); // its process reports the run, and hears of it
    await resumed;
    expect(events.at(-1)).toMatchObject({ type: 'run-end', finishReason: 'aborted' });
    expect(await runs.get(runId, alice)).toMatchObject({
      status: 'ended',
      finishReason: 'aborted',
    });
  });

  it('is resumed with the options of the named loop that opened it', async () => {
    const model = new ScriptedModel([calls(call('probe__write', { key: 'w' })), text('Done.')]);
    const policy: Policy = {
      version: 'v1',
      allow: ['*'],
      flow: 'off',
      requireApproval: [{ effects: ['state_change'] }],
    };
    const module = await Test.createTestingModule({
      imports: [
        ToolLoopModule.forRoot({ model, policy }),
        ToolLoopModule.forFeature({ loops: { support: { instructions: 'You help.' } } }),
      ],
      providers: [ProbeTools],
    }).compile();
    module.useLogger(false);
    await module.init();
    const support: ToolLoopService = module.get(toolLoopToken('support'), { strict: false });
    const request: LoopRequest = { ...alice, prompt: 'Go on.' };
    const { runId } = await support.run(request);
    await collect(await module.get<RunService>(RunService).resume(runId, alice));
    expect(model.requests.map(({ instructions }) => instructions)).toEqual(['You help.']);
    await module.get<RunService>(RunService).cancel(runId, alice);
    expect(await module.get<RunService>(RunService).list(alice)).toMatchObject([
      { runId, status: 'ended' },
    ]);
  });
});
