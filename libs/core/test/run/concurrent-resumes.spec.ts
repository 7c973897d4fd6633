import { describe, expect, it } from '@jest/globals';
import {
  PendingService,
  type LoopEvent,
  LoopEventSink,
  type LoopRequest,
  ToolLoopService,
} from '@toolloop/core';
import { RunLog } from '@toolloop/core/stores';
import { ScriptedModel, call, calls, collect, text } from '@toolloop/testing';
import { ask, openModule } from '../fixtures/shop.module.js';

const alice = { actor: { id: 'alice' }, tenant: 'acme' };

class Told extends LoopEventSink {
  readonly events: LoopEvent[] = [];

  override write(event: LoopEvent): void {
    this.events.push(event);
  }
}

/** A run that waits for a call which has been approved by now. */
async function waiting() {
  const model = new ScriptedModel([calls(call('probe__write', { key: 'w' })), text('Done.')]);
  const policy = {
    version: 'v1',
    allow: ['*'],
    flow: 'off',
    requireApproval: [{ effects: ['state_change'] }],
  } as const;
  const module = await openModule(model, { policy, providers: [Told] });
  const loop: ToolLoopService = module.get(ToolLoopService);
  const { runId } = await loop.run(ask());
  const [{ approvalId } = { approvalId: '' }] = await module.get(PendingService).list(alice);
  await module.get(PendingService).decide({ approvalId, decision: 'approve' }, alice);
  const { events } = module.get(Told);
  events.length = 0;
  const { prompt: _prompt, ...request } = ask();
  const resume = (more: Partial<LoopRequest> = {}) => loop.resume(runId, { ...request, ...more });
  return { runId, resume, told: events, log: module.get<RunLog>(RunLog) };
}

async function iterated(run: AsyncIterable<LoopEvent>): Promise<readonly LoopEvent[]> {
  const events: LoopEvent[] = [];
  for await (const event of run) events.push(event);
  return events;
}

function failing(): never {
  throw new Error('secret');
}

describe('a run that several resume at once', () => {
  it.each([
    [0, 1, 2],
    [1, 2, 0],
    [2, 0, 1],
  ])(
    'invariant 5: continues once, and reports nothing of the others (%i, %i, %i)',
    async (...order) => {
      const { resume, told } = await waiting();
      const [observed, pulled, asked] = [await resume(), await resume(), await resume()];
      const readers = [() => collect(observed.events$), () => iterated(pulled), () => asked.result];
      const ends = await Promise.allSettled(order.map((index) => readers[index]?.()));
      expect(ends.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected']);
      for (const end of ends.slice(1))
        expect(end).toMatchObject({ reason: { name: 'InvalidRequestError', code: 'unknown_run' } });
      expect(told.filter(({ type }) => type === 'run-start')).toHaveLength(1);
      expect(told.filter(({ type }) => type === 'run-end')).toMatchObject([
        { finishReason: 'stop' },
      ]);
      const [first] = told;
      expect(told.map(({ sequence }) => sequence)).toEqual(
        told.map((_, index) => index + (first?.sequence ?? 0)),
      );
    },
  );

  it('is over for an iteration that was refused once', async () => {
    const { resume } = await waiting();
    const [winner, loser] = [await resume(), await resume()];
    await winner.result;
    const events = loser[Symbol.asyncIterator]();
    await expect(events.next()).rejects.toMatchObject({ code: 'unknown_run' });
    await expect(events.next()).resolves.toEqual({ done: true, value: undefined });
    await expect(loser.result).rejects.toMatchObject({ code: 'unknown_run' });
    expect(() => loser.addInput('More?')).toThrow('has ended');
  });
});

describe('a run that cannot be taken up', () => {
  it.each([failing, async () => Promise.reject(new Error('secret'))])(
    'waits on, and no end of it is told, where its instructions fail',
    async (instructions) => {
      const { resume, told } = await waiting();
      const broken = await resume({ instructions });
      await expect(collect(broken.events$)).rejects.toMatchObject({
        name: 'RunError',
        message: 'The run failed.',
      });
      expect(told).toEqual([]);
      expect(await (await resume()).result).toMatchObject({ finishReason: 'stop' });
    },
  );

  it('waits on where the store fails', async () => {
    const { resume, told, log } = await waiting();
    const acquire = log.acquire.bind(log);
    log.acquire = () => Promise.reject(new Error('disk full'));
    await expect((await resume()).result).rejects.toMatchObject({
      name: 'StorageUnavailableError',
      cause: new Error('disk full'),
    });
    expect(told).toEqual([]);
    log.acquire = acquire;
    expect(await (await resume()).result).toMatchObject({ finishReason: 'stop' });
  });
});
